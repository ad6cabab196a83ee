package pacemaker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Nothing answers on this machine: that is unknown, and not a host that is alone.
func TestACorosyncThatIsSilentTellsNoMembership(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	began := time.Now()
	if got := members(t.Context(), 100*time.Millisecond); got.Known {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("it gave up after %s", took)
	}
}

// The first report that is whole counts, and the question ends with it.
func TestTheMembershipIsToldAtOnce(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\nprintf 'Quorum information\\nRing ID: 2.d\\nQuorate: Yes\\nNodeid Votes Name\\n1 1 cp-1\\n2 1 cp-2 (local)\\n\\n'\nexec sleep 60\n"
	if err := os.WriteFile(filepath.Join(bin, "stdbuf"), []byte(script), 0o700); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	got := members(t.Context(), time.Minute)
	if !got.Known || !got.Value.Quorate || !slices.Equal(got.Value.Members, []string{"cp-1", "cp-2"}) {
		t.Errorf("%+v", got)
	}
}
