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

// SignalPIDFile sends a signal to the process whose pid is in a file. A missing
// file, or a process that has ended, is no error: there is nobody to signal.
func SignalPIDFile(path string, sig syscall.Signal) error {
	_, err := signalPIDFile(path, sig)
	return err
}

// RunsByPIDFile reports whether the process whose pid is in a file runs.
// Without the file it returns false.
func RunsByPIDFile(path string) (bool, error) { return signalPIDFile(path, 0) }

// signalPIDFile sends a signal and reports whether a process received it;
// signal 0 only checks that.
func signalPIDFile(path string, sig syscall.Signal) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return false, fmt.Errorf("%s holds no process id", path)
	}
	switch err := syscall.Kill(pid, sig); {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.ESRCH):
		return false, nil
	default:
		return false, fmt.Errorf("signal %s to process %d: %w", sig, pid, err)
	}
}
