package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestAPodsProgramIsKnownByTheFileThatItReads finds a process by its program and its
// file, and ends that one alone.
func TestAPodsProgramIsKnownByTheFileThatItReads(t *testing.T) {
	dir := t.TempDir()
	start := func(file string) *exec.Cmd {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		// It reads its input for ever; what follows the script is its name and its flag.
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "read it", "name", "--reads="+filepath.Join(dir, file))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
		return cmd
	}
	own, other := start("own"), start("other")
	p := PodProgram{Root: dir, Name: "sh", Flag: "--reads", File: "/own"}
	pids, err := p.Processes()
	if err != nil || !slices.Equal(pids, []int{own.Process.Pid}) {
		t.Fatalf("found %v (%v), want %d alone, not %d", pids, err, own.Process.Pid, other.Process.Pid)
	}
	for _, wrong := range []PodProgram{
		{Root: dir, Name: "bash", Flag: "--reads", File: "/own"},
		{Root: dir, Name: "sh", Flag: "--writes", File: "/own"},
		{Root: dir, Name: "sh", Flag: "--reads", File: "/none"},
	} {
		if pids, err := wrong.Processes(); err != nil || len(pids) > 0 {
			t.Errorf("%+v is %v (%v), want none", wrong, pids, err)
		}
	}
	for _, c := range []struct {
		p    PodProgram
		runs bool
	}{
		{p, true},
		{PodProgram{Root: dir, Name: "bash", Flag: "--reads", File: "/own"}, false},
		{PodProgram{Root: dir, Name: "sh", Flag: "--reads", File: "/none"}, false},
	} {
		if runs, err := c.p.Runs(); err != nil || runs != c.runs {
			t.Errorf("%+v runs: %t (%v)", c.p, runs, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "own")); err != nil {
		t.Fatal(err)
	}
	if runs, err := p.Runs(); err != nil || !runs || p.Is(own.Process.Pid) {
		t.Errorf("its file is gone, and it runs: %t (%v)", runs, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "own"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = own.Wait() }() // until then its number is taken
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := EndProcess(ctx, own.Process.Pid, func() bool { return p.Is(own.Process.Pid) }); err != nil {
		t.Error(err)
	}
	if pids, err := p.Processes(); err != nil || len(pids) > 0 {
		t.Errorf("%v is left (%v)", pids, err)
	}
}
