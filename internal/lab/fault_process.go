package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Signals of the process faults.
const (
	sigKill = unix.SIGKILL
	sigStop = unix.SIGSTOP
	sigCont = unix.SIGCONT
)

// errNoProcess says that no process of the wanted name runs on the host.
var errNoProcess = errors.New("no such process on the host")

func ignoreNoProcess(err error) error {
	if errors.Is(err, errNoProcess) {
		return nil
	}
	return err
}

// signalProcesses sends a signal to every process of a name on a host,
// including those in the host's own containers.
func signalProcesses(ctx context.Context, h Host, name string, sig unix.Signal) error {
	out, err := podman(ctx, "container", "inspect", "--format", "{{.Id}}", h.Container)
	if err != nil {
		return err
	}
	pids := processesOf(strings.TrimSpace(string(out)), name)
	if len(pids) == 0 {
		return fmt.Errorf("%w: %s", errNoProcess, name)
	}
	var errs []error
	for _, pid := range pids {
		if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("signal %s (process %d): %w", name, pid, err))
		}
	}
	return errors.Join(errs...)
}

// processesOf returns the processes of a name below a container. A container
// within the host lies below it in the tree of control groups, whatever pid
// namespace it has.
func processesOf(container, name string) []int {
	var out []int
	found, _ := filepath.Glob("/proc/[0-9]*/cgroup") // the pattern is valid
	for _, file := range found {
		groups, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(groups, []byte(container)) {
			continue
		}
		dir := filepath.Dir(file)
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && named(dir, name) {
			out = append(out, pid)
		}
	}
	return out
}

// named reports whether a process's program has the name.
func named(dir, name string) bool {
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return false
	}
	program, _, _ := bytes.Cut(line, []byte{0})
	return filepath.Base(string(program)) == name
}
