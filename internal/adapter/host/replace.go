package host

import (
	"fmt"
	"os"
	"syscall"
)

// ExecInPlace makes this process run another program, which keeps the process id,
// the terminal and the environment: signals reach it, and its exit code is this
// process's. called is the name under which the program sees itself called.
// ExecInPlace returns only if it fails.
func ExecInPlace(path, called string, args []string) error {
	if err := syscall.Exec(path, append([]string{called}, args...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}
