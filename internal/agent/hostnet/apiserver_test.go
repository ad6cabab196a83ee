package hostnet

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// TestAnAPIServerThatWasStartedAnewIsKilled: the one that answers requests ends in its own time, and the one
// that comes in its place, which heeds no request to end while it starts, is gone at once.
func TestAnAPIServerThatWasStartedAnewIsKilled(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sa.pub")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &apiServer{program: host.PodProgram{Root: dir, Name: "sh", Flag: "--reads", File: "/sa.pub"}}
	start := func(script string) (int, <-chan unix.Signal) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script+"; echo ready; read it", "name", "--reads="+file)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if said, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%q: %v", said, err)
		}
		ended := make(chan unix.Signal, 1)
		go func() {
			_ = cmd.Wait()
			ended <- cmd.ProcessState.Sys().(interface{ Signal() unix.Signal }).Signal()
		}()
		t.Cleanup(func() { _ = in.Close() })
		return cmd.Process.Pid, ended
	}

	_, first := start("true")
	s.end(t.Context())
	if by := <-first; by != unix.SIGTERM {
		t.Fatalf("the first one ended by %s", by)
	}
	kept, second := start("true")
	s.endAnew()
	if by := <-second; by != unix.SIGKILL {
		t.Errorf("one that was started in its place ended by %s", by)
	}
	if slices.Contains(s.asked, kept) {
		t.Error("it was asked")
	}

	// One that was asked, and that still answers, is left alone.
	busy, third := start("trap 'echo asked' TERM")
	s.asked = []int{busy}
	s.end(t.Context())
	s.endAnew()
	select {
	case by := <-third:
		t.Errorf("one that still answers ended by %s", by)
	default:
	}
	if err := host.KillProcess(busy, func() bool { return s.program.Is(busy) }); err != nil {
		t.Fatal(err)
	}
	if by := <-third; by != unix.SIGKILL {
		t.Errorf("it ended by %s", by)
	}
}
