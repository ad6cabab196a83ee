package kubeletcert

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Whether kubelet is another one shows in its process.
func TestAKubeletIsToldFromAnotherOne(t *testing.T) {
	root := t.TempDir()
	conf := root + state.KubeletKubeconfig
	if err := errors.Join(os.MkdirAll(filepath.Dir(conf), 0o755), os.WriteFile(conf, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for range 2 {
		if id, err := Running(root); id != "" || err != nil {
			t.Errorf("a host whose kubelet does not run has %q, %v", id, err)
		}
		// A shell that waits for its input, under the name and with the flag of a kubelet.
		runs := &exec.Cmd{Path: "/bin/sh", Args: []string{"kubelet", "-c", "read x; :", "--kubeconfig=" + conf}}
		in, err := runs.StdinPipe()
		if err == nil {
			err = runs.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		// Start returns before the kernel shows the words of the new program.
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
			if id, err := Running(root); id != "" || err != nil {
				break
			}
		}
		for range 2 {
			id, err := Running(root)
			if err != nil || strings.Count(id, "/") != 2 {
				t.Errorf("it is %q, %v", id, err)
			}
			seen = append(seen, id)
		}
		_ = in.Close() // it ends then
		_ = runs.Wait()
	}
	if seen[0] != seen[1] || seen[2] != seen[3] || seen[0] == seen[2] {
		t.Errorf("%q", seen)
	}
}
