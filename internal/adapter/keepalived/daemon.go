// Package keepalived is the adapter of the daemon that speaks VRRP on a host:
// its process, the addresses that it may leave behind, and other hosts that
// send VRRP to it. It decides nothing; decide/vrrp does.
package keepalived

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// command is the kernel's name of the daemon's processes.
const command = "keepalived"

// Daemon is one process of keepalived.
type Daemon struct{ PID int }

// ByPIDFile returns the process whose pid is in a file; ok is false if no such
// process runs, or if it is not keepalived. found reports whether the file
// exists: a file without a process is left by a process that crashed.
func ByPIDFile(path string) (d Daemon, found, ok bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Daemon{}, false, false, nil
	}
	if err != nil {
		return Daemon{}, false, false, err
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data))) // 0 while the file is being written
	d = Daemon{pid}
	return d, true, pid > 1 && d.runs(), nil
}

// runs reports whether the process exists, is keepalived and has not ended.
func (d Daemon) runs() bool {
	name, err := os.ReadFile(d.proc("comm"))
	if err != nil || strings.TrimSpace(string(name)) != command {
		return false
	}
	data, err := d.status()
	if err != nil {
		return false
	}
	state, err := field(data, "State:")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func (d Daemon) proc(file string) string { return fmt.Sprintf("/proc/%d/%s", d.PID, file) }

// ProcessState is the state of the process at one moment.
type ProcessState struct {
	// Sleeps counts how often it went to sleep voluntarily.
	Sleeps uint64
	// Wants reports whether it wants to run: it waits for a processor or for a
	// disk. A process that is stopped, or that waits for nothing, does not.
	Wants bool
}

// statusSize is more than the kernel writes about a process, about 1.5 kB.
const statusSize = 8 << 10

// status returns what the kernel says of the process, by one read: it is asked five times a second.
func (d Daemon) status() ([]byte, error) {
	file, err := unix.Open(d.proc("status"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(file) }()
	data := make([]byte, statusSize)
	n, err := unix.Read(file, data)
	return data[:max(n, 0)], err
}

// ReadState reads the state of the process.
func (d Daemon) ReadState() (ProcessState, error) {
	data, err := d.status()
	if err != nil {
		return ProcessState{}, err
	}
	state, err := field(data, "State:")
	if err != nil {
		return ProcessState{}, err
	}
	sleeps, err := field(data, "voluntary_ctxt_switches:")
	if err != nil {
		return ProcessState{}, err
	}
	n, err := strconv.ParseUint(sleeps, 10, 64)
	return ProcessState{Sleeps: n, Wants: strings.HasPrefix(state, "R") || strings.HasPrefix(state, "D")}, err
}

// Poke wakes the process without an effect: it is told that a child has ended,
// and finds none. A process that is stopped or in a loop does not wake.
func (d Daemon) Poke() error {
	if err := unix.Kill(d.PID, syscall.SIGCHLD); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("wake keepalived (process %d): %w", d.PID, err)
	}
	return nil
}

// Follows reports whether the process follows files. It cannot if root had used
// up its inotify instances when the process started
// (fs.inotify.max_user_instances, 128 on many hosts, for all containers
// together). It then logs that once and goes on as if each file contained 0,
// even after it has read its configuration again (seen with 2.2.7).
func (d Daemon) Follows() (bool, error) {
	list, err := os.ReadDir(d.proc("fd"))
	if err != nil {
		return false, err
	}
	for _, e := range list {
		if to, err := os.Readlink(d.proc("fd/" + e.Name())); err == nil && strings.Contains(to, "inotify") {
			return true, nil
		}
	}
	return false, nil
}

// field returns one field of a process's status.
func field(status []byte, name string) (string, error) {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return strings.TrimSpace(string(rest)), nil
		}
	}
	return "", fmt.Errorf("the status of a process has no %s", name)
}

// AwaitEnd returns as soon as the process has ended, or with the cause of the
// context's end.
func (d Daemon) AwaitEnd(ctx context.Context) error { return host.AwaitEnd(ctx, d.PID) }

// Reload makes the process read its configuration again.
func (d Daemon) Reload() error {
	if err := unix.Kill(d.PID, syscall.SIGHUP); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("reload keepalived (process %d): %w", d.PID, err)
	}
	return nil
}

// Kill ends the process at once.
func (d Daemon) Kill() error {
	if err := unix.Kill(d.PID, syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill keepalived (process %d): %w", d.PID, err)
	}
	return nil
}

// realtimePriority is above ordinary programs and below the kernel's own
// threads, which have 50.
const realtimePriority = 40

// mostFavoured is the lowest nice value.
const mostFavoured = -20

// Favour lets the process run before every ordinary program, so that a busy
// host sends its adverts in time. Processes that it starts do not inherit this.
// If the kernel refuses real-time scheduling, as in control groups without a
// share of it, Favour gives the process the lowest nice value instead, and
// returns an error that tells so.
func (d Daemon) Favour() error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: realtimePriority}
	refused := unix.SchedSetAttr(d.PID, &attr, 0)
	if refused == nil {
		return nil
	}
	err := unix.Setpriority(unix.PRIO_PROCESS, d.PID, mostFavoured)
	return fmt.Errorf("real-time scheduling for keepalived (process %d) is refused, it only gets the lowest nice value: %w", d.PID, errors.Join(refused, err))
}
