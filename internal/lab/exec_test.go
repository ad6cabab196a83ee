package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// TestACommandOnAHostEndsWithTheHost plays the shutdown of a host, whose first process stops
// all others, has them go on, and kills them. nsenter's own child left nsenter stopped, and with
// it the host's first process.
func TestACommandOnAHostEndsWithTheHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	down := filepath.Join(t.TempDir(), "down")
	shutdown := "while [ ! -e " + down + " ]; do sleep 0.05; done; sleep 0.2; kill -STOP -1; sleep 0.2; kill -CONT -1; kill -KILL -1; wait"
	first := exec.CommandContext(t.Context(), "unshare", "--pid", "--mount-proc", "--fork", "--kill-child", "bash", "-c", shutdown) // #nosec G204 -- a test's own words
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = first.Wait() }()
	pid := 0
	for range 100 {
		out, _ := exec.CommandContext(t.Context(), "pgrep", "--parent", strconv.Itoa(first.Process.Pid)).Output() // #nosec G204 -- a number
		if pid, _ = strconv.Atoi(strings.TrimSpace(string(out))); pid != 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if pid == 0 {
		t.Fatal("unshare has no child")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if out, err := host.Run(ctx, entering(pid, []string{"sh", "-c", "test -e /proc/self/stat && ps -p 1 -o comm=; exit 3"})); host.ExitCode(err) != 3 || string(out) != "bash\n" {
		t.Errorf("%q, %v", out, err)
	}
	began := time.Now()
	_, err := host.Run(ctx, entering(pid, []string{"sh", "-c", "touch " + down + "; sleep 60"}))
	if took := time.Since(began); err == nil || took > 10*time.Second {
		t.Errorf("it ends after %s (%v)", took, err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the host's first process waits for the command")
	}
}
