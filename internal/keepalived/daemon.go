// Package keepalived is the adapter of the daemon that speaks VRRP on a host:
// its process, the addresses that it may leave behind, and who else speaks VRRP
// to it. It decides nothing; decide/vrrp does.
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

	"github.com/holdfast/holdfast/internal/host"
)

// command is how the kernel calls the daemon's processes.
const command = "keepalived"

// Daemon is one process of keepalived.
type Daemon struct{ PID int }

// ByPIDFile returns the process whose pid a file holds; ok is false where there
// is none, or where it is not keepalived. found is whether there is a file: one
// without a process is that of a process that crashed.
func ByPIDFile(path string) (d Daemon, found, ok bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Daemon{}, false, false, nil
	}
	if err != nil {
		return Daemon{}, false, false, err
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data))) // 0 while it is being written
	d = Daemon{pid}
	return d, true, pid > 1 && d.runs(), nil
}

// runs reports whether the process is there, is keepalived and is not about to
// be buried.
func (d Daemon) runs() bool {
	name, err := os.ReadFile(d.proc("comm"))
	if err != nil || strings.TrimSpace(string(name)) != command {
		return false
	}
	state, err := d.status("State:")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func (d Daemon) proc(file string) string { return fmt.Sprintf("/proc/%d/%s", d.PID, file) }

// Sleeps is how often the process has gone to sleep of its own will.
func (d Daemon) Sleeps() (uint64, error) {
	value, err := d.status("voluntary_ctxt_switches:")
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(value, 10, 64)
}

// Wants reports whether the process wants to run: it waits for a processor, or
// for a disk. One that is stopped, or that waits for nothing, does not.
func (d Daemon) Wants() (bool, error) {
	state, err := d.status("State:")
	return strings.HasPrefix(state, "R") || strings.HasPrefix(state, "D"), err
}

// Follows reports whether the process follows files. It cannot where root has
// used up its inotify instances when it starts (fs.inotify.max_user_instances,
// 128 on many hosts, for all containers together), and goes on without a word.
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

// status returns one field of the process's status.
func (d Daemon) status(field string) (string, error) {
	data, err := os.ReadFile(d.proc("status"))
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
			return strings.TrimSpace(string(rest)), nil
		}
	}
	return "", fmt.Errorf("%s: no %s", d.proc("status"), field)
}

// AwaitEnd returns as soon as the process has ended, or with the cause of the
// context's end.
func (d Daemon) AwaitEnd(ctx context.Context) error { return host.AwaitEnd(ctx, d.PID) }

// Reload makes the process read its configuration.
func (d Daemon) Reload() error {
	if err := unix.Kill(d.PID, syscall.SIGHUP); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("tell keepalived (process %d) of its configuration: %w", d.PID, err)
	}
	return nil
}

// Kill ends the process at once.
func (d Daemon) Kill() error {
	if err := unix.Kill(d.PID, syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end keepalived (process %d): %w", d.PID, err)
	}
	return nil
}

// realtimePriority is above ordinary programs and below the kernel's own
// threads, which have 50.
const realtimePriority = 40

// mostFavoured is the lowest nice value.
const mostFavoured = -20

// Favour lets the process run before every ordinary program, so that a busy
// host sends its adverts in time. What the process starts does not inherit it.
// Where the kernel refuses real-time scheduling, as in control groups without a
// share of it, the process is favoured over the others as far as that goes, and
// the error says so.
func (d Daemon) Favour() error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: realtimePriority}
	refused := unix.SchedSetAttr(d.PID, &attr, 0)
	if refused == nil {
		return nil
	}
	err := unix.Setpriority(unix.PRIO_PROCESS, d.PID, mostFavoured)
	return fmt.Errorf("real-time scheduling for keepalived (process %d) is refused, it is only favoured: %w", d.PID, errors.Join(refused, err))
}
