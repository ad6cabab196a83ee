package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// SignalPIDFile sends a signal to the process whose pid a file holds. A file
// that is not there, or a process that has ended, is no error: there is
// nobody to tell.
func SignalPIDFile(path string, sig syscall.Signal) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("%s holds no process id", path)
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s to process %d: %w", sig, pid, err)
	}
	return nil
}
