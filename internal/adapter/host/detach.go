package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// StartDetached starts a process that outlives this one: in its own session,
// without a terminal, with both outputs appended to the file log (mode 0600).
// If the command has a Stdin or a Stdout, it must be a file, since nobody stays
// to copy; a lock on it is then held until both processes have released it.
// StartDetached returns the pid; the caller never waits for the process.
func StartDetached(c Cmd, log string) (int, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(out)
	cmd := exec.Command(c.program(), c.Args...) //nolint:noctx // no context may end it
	cmd.Dir, cmd.Env = c.Dir, c.environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, out, out
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if err := onlyFiles(cmd.Stdin, cmd.Stdout); err != nil {
		return 0, fmt.Errorf("start %s: %w", c, err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", c, err)
	}
	pid := cmd.Process.Pid
	return pid, cmd.Process.Release()
}

func onlyFiles(streams ...any) error {
	for _, s := range streams {
		if _, ok := s.(*os.File); s != nil && !ok {
			return errors.New("what outlives this process can only read and write files")
		}
	}
	return nil
}

func closeQuietly(c io.Closer) { _ = c.Close() }
