package upgrade

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// TestU6_NoManifestIsEverAway: wherever the power is cut, each static pod has a whole
// manifest of one of both releases, and the next start of kubelet writes the rest.
func TestU6_NoManifestIsEverAway(t *testing.T) {
	for at := 1; ; at++ {
		for _, after := range []bool{false, true} {
			m, current, _ := onDisk(t, parachute.Alone)
			if _, err := m.pods.Prepare(oldOne, newOne); err != nil {
				t.Fatal(err)
			}
			*current = newOne
			cut := powercut.Cut{At: at, After: after}
			broken := m.pods
			broken.WriteFile = func(path string, data []byte, mode fs.FileMode) error {
				return cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
			}
			if err := broken.Settle(); err != nil && !errors.Is(err, powercut.Err) {
				t.Fatal(err)
			}
			for _, name := range []string{"kube-apiserver", "etcd"} {
				got, err := os.ReadFile(filepath.Join(m.root, manifestsDir, name+".yaml"))
				if err != nil || string(got) != podOf(name, "old") && string(got) != podOf(name, "new") {
					t.Errorf("cut at %d, after %v: %s is %q, %v", at, after, name, got, err)
				}
			}
			if !cut.Dead {
				if at < 3 {
					t.Fatalf("%d writes", at-1)
				}
				return
			}
			if err := m.pods.Settle(); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(m.root, manifestsDir, "etcd.yaml")); err != nil || string(got) != podOf("etcd", "new") {
				t.Errorf("cut at %d, after %v, and settled: %q, %v", at, after, got, err)
			}
		}
	}
}
