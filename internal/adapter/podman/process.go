package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// machine holds the paths that matter on a host.
type machine struct {
	pidFile  string // written by podman's monitor process
	noteFile string // written by us once the process runs
	proc     string
	comm     string // the kernel's name of the process
}

var onHost = machine{pidFile: "/run/holdfast/etcd/etcd.pid", noteFile: "/run/holdfast/etcd/etcd.started", proc: "/proc", comm: "etcd"}

// Process is the state of the container's process in /proc.
type Process struct {
	Running bool
	PID     int
	// Letter is the process's state as ps shows it: S sleeps, R runs, T was
	// stopped by a signal, D waits for the disk.
	Letter string
	// Started is the time of its start, in clock ticks since the kernel's boot:
	// together with the pid it identifies the process.
	Started uint64
	// Spec is the hash of the spec from which it was started, empty if unknown.
	Spec string
}

// Frozen reports whether somebody stopped the process without ending it.
func (p Process) Frozen() bool { return p.Letter == "T" || p.Letter == "t" }

// State reads whether the container runs. It starts nothing.
func State(context.Context) (Process, error) {
	p, err := onHost.state()
	if err != nil {
		return p, fmt.Errorf("look for the container etcd: %w", err)
	}
	return p, nil
}

// Blocked reports whether a thread of a process waits in the kernel for
// something that does not come, usually a disk. The letter of the process is
// only that of its first thread, which does none of etcd's work.
func Blocked(p Process) (bool, error) { return onHost.blocked(p) }

// Kill ends the container's process at once and waits until it is gone.
func Kill(ctx context.Context) error { return onHost.kill(ctx) }

// Stop asks the container's process to end, kills it after the grace or if it
// is frozen, and waits until it is gone.
func Stop(ctx context.Context, grace time.Duration) error { return onHost.stop(ctx, grace) }

// note identifies a process that we started, in a file.
type note struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
	Spec    string `json:"spec"`
}

func (m machine) state() (Process, error) {
	pid, err := m.pid()
	if err != nil || pid == 0 {
		return Process{}, err
	}
	p, comm, err := m.process(pid)
	if err != nil || !p.Running {
		return Process{}, err
	}
	n, err := m.noted()
	if err != nil {
		return Process{}, err
	}
	switch {
	case n.PID == pid && n.Started == p.Started:
		p.Spec = n.Spec
		return p, nil
	case n.PID != pid && m.ours(comm):
		return p, nil // we started it and ended before we noted it
	default:
		return Process{}, nil // the pid belongs to another process by now
	}
}

// pid returns the pid that the monitor process wrote. If the file is missing,
// as after somebody cleaned /run, pid searches for the process; 0 if there is
// none.
func (m machine) pid() (int, error) {
	data, err := os.ReadFile(m.pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return m.find()
	}
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s holds no process id", m.pidFile)
	}
	return pid, nil
}

// find searches the process table for the container's process: the arguments of
// its parent, the monitor process, contain the pid file. It returns 0 if there
// is none.
func (m machine) find() (int, error) {
	entries, err := os.ReadDir(m.proc)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join(m.proc, e.Name(), "stat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		if st, err := host.ParseStat(data); err == nil && !st.Ended() && m.ours(st.Name) && m.monitors(st.Parent) {
			return pid, nil
		}
	}
	return 0, nil
}

// ours reports whether the container's process may have this name. Just after
// its start it still has the name of the program that creates it.
func (m machine) ours(name string) bool { return name == m.comm || strings.HasPrefix(name, "runc:[") }

// monitors reports whether a process is the monitor of our container.
func (m machine) monitors(pid int) bool {
	data, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(pid), "cmdline"))
	return err == nil && slices.Contains(strings.Split(string(data), "\x00"), m.pidFile)
}

// process reads a process's stat. A process that has ended, but that nobody has
// waited for, does not run.
func (m machine) process(pid int) (p Process, comm string, err error) {
	data, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(pid), "stat"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return p, "", nil
	}
	if err != nil {
		return p, "", err
	}
	st, err := host.ParseStat(data)
	if err != nil {
		return p, "", fmt.Errorf("process %d: %w", pid, err)
	}
	if st.Ended() {
		return p, st.Name, nil
	}
	return Process{Running: true, PID: pid, Letter: st.Letter, Started: st.Started}, st.Name, nil
}

func (m machine) blocked(p Process) (bool, error) {
	threads, err := filepath.Glob(filepath.Join(m.proc, strconv.Itoa(p.PID), "task", "*", "stat"))
	if err != nil {
		return false, fmt.Errorf("look for the threads of process %d: %w", p.PID, err)
	}
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return false, fmt.Errorf("look for the threads of process %d: %w", p.PID, err)
		}
		if st, err := host.ParseStat(data); err == nil && st.Letter == "D" {
			return true, nil
		}
	}
	return p.Letter == "D", nil
}

// noted reads our note. A torn note counts as none.
func (m machine) noted() (note, error) {
	data, err := os.ReadFile(m.noteFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return note{}, err
	}
	var n note
	if err := json.Unmarshal(data, &n); err != nil {
		n = note{}
	}
	return n, nil
}

// reserve is the file beside the note that keeps room in /run, also for the files of the
// etcd keeper there.
const reserve = "reserve"

// remember notes the spec from which a process was started. If that fails, podman is
// asked for the spec later (Adopt).
func (m machine) remember(p Process, spec string) {
	data, err := json.Marshal(note{p.PID, p.Started, spec})
	dir := filepath.Dir(m.noteFile)
	if err != nil || os.MkdirAll(dir, 0o700) != nil { // somebody may have removed the folder
		return
	}
	_ = host.WriteFileReserved(m.noteFile, filepath.Join(dir, reserve), data, 0o600)
}

// forget removes what is noted about an earlier process, and what is left of a note:
// runc creates the file rest exclusively and renames it to the pid file, so one that a
// killed runc left fails each later start.
func (m machine) forget() error {
	rest := filepath.Join(filepath.Dir(m.pidFile), "."+filepath.Base(m.pidFile))
	for _, path := range []string{m.pidFile, m.noteFile, rest} {
		if err := host.RemoveFile(path); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Dir(m.pidFile), 0o700)
}

func (m machine) kill(ctx context.Context) error { return m.stop(ctx, 0) }

// pollEvery is the interval between two looks at a process that was told to
// end.
const pollEvery = 5 * time.Millisecond

func (m machine) stop(ctx context.Context, grace time.Duration) error {
	began, sent := time.Now(), syscall.Signal(0)
	for {
		p, err := m.state()
		if err != nil {
			return fmt.Errorf("stop the container etcd: %w", err)
		}
		if !p.Running {
			return nil
		}
		want := syscall.SIGTERM
		if p.Frozen() || time.Since(began) >= grace {
			want = syscall.SIGKILL
		}
		if want != sent {
			if err := syscall.Kill(p.PID, want); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop the container etcd: signal process %d: %w", p.PID, err)
			}
			sent = want
		}
		if err := host.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("stop the container etcd: process %d still exists, in state %s: %w", p.PID, p.Letter, err)
		}
	}
}
