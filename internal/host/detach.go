package host

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// StartDetached starts a process that outlives this one: in a session of its
// own, without a terminal, with both outputs appended to the file log (mode
// 0600). It returns the pid; the caller never waits for the process.
func StartDetached(c Cmd, log string) (int, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(out)
	cmd := exec.Command(c.program(), c.Args...) //nolint:noctx // no context may end it
	cmd.Dir, cmd.Env = c.Dir, c.environ()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", c, err)
	}
	pid := cmd.Process.Pid
	return pid, cmd.Process.Release()
}

func closeQuietly(c io.Closer) { _ = c.Close() }
