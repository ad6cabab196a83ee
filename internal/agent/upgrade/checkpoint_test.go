package upgrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestU9_ATornMemoryOfKubeletIsMovedAwayOnceAndAWholeOneStays: kubelet does not start with
// the first.
func TestU9_ATornMemoryOfKubeletIsMovedAwayOnceAndAWholeOneStays(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, kubeletFolder, name) }
	whole := `{"policyName":"static","defaultCpuSet":"0-1","checksum":1}`
	putFile(t, at("cpu_manager_state"), whole[:20])                            // cut off
	putFile(t, at("allocated_pods_state"), "")                                 // never written
	putFile(t, at("memory_manager_state"), strings.Repeat("\x00", len(whole))) // the length without the data
	putFile(t, at("actuated_pods_state"), whole)
	putFile(t, at("config.yaml"), "a: b\n") // no checkpoint
	before := len(files(t, root))
	said, err := mendCheckpoints(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, torn := range map[string]bool{"cpu_manager_state": true, "allocated_pods_state": true, "memory_manager_state": true, "actuated_pods_state": false, "config.yaml": false} {
		_, there := os.Stat(at(name))
		_, aside := os.Stat(at(name + setAside))
		if (there == nil) == torn || (aside == nil) != torn || strings.Contains(said, at(name)) != torn {
			t.Errorf("%s: torn %v: there %v, aside %v, said %q", name, torn, there, aside, said)
		}
	}
	if said, err := mendCheckpoints(root); said != "" || err != nil || len(files(t, root)) != before {
		t.Errorf("the second time: %q %v", said, err)
	}
	// The next torn one takes the place of the first: they do not pile up.
	putFile(t, at("cpu_manager_state"), "{")
	if said, err := mendCheckpoints(root); said == "" || err != nil || len(files(t, root)) != before {
		t.Errorf("torn again: %q %v", said, err)
	}
}

// TestU9_AMemoryThatCannotBeReadStays: nobody knows what is in it, and kubelet says so.
func TestU9_AMemoryThatCannotBeReadStays(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, kubeletFolder, "cpu_manager_state")
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if said, err := mendCheckpoints(root); said != "" || err == nil {
		t.Errorf("%q %v", said, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
