package upgrade

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheGateOfTheDiskGoesByKubeletsOwnThresholds: an installation sets an amount, since a share of
// a large disk is more than any release needs.
func TestTheGateOfTheDiskGoesByKubeletsOwnThresholds(t *testing.T) {
	const size = 250 << 30
	for what, c := range map[string]struct {
		config string
		want   uint64
	}{
		"an amount":               {"evictionHard:\n  imagefs.available: 2Gi\n", 2 << 30},
		"a share":                 {"evictionHard:\n  imagefs.available: 5%\n", size / 20},
		"no file":                 {"", size / 100 * 15},
		"a torn file":             {"evictionHard: [", size / 100 * 15},
		"nothing about images":    {"evictionHard:\n  nodefs.available: 2Gi\n", size / 100 * 15},
		"something else":          {"evictionHard:\n  imagefs.available: plenty\n", size / 100 * 15},
		"a share of nothing real": {"evictionHard:\n  imagefs.available: 900%\n", size / 100 * 15},
		"less than nothing":       {"evictionHard:\n  imagefs.available: -2Gi\n", size / 100 * 15},
	} {
		root := t.TempDir()
		if c.config != "" {
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(kubeletConfig)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, kubeletConfig), []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := line(eviction(root)["imagefs.available"], size, 15); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}
