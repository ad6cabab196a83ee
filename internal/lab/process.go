package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// processID identifies one process forever: a pid is used again, a pid with its
// start time is not.
type processID struct {
	PID int `json:"pid"`
	// Start is the process's start time, in clock ticks since boot.
	Start  string `json:"start"`
	zombie bool
}

// self identifies the calling process.
func self() (processID, error) { return identify(os.Getpid()) }

func identify(pid int) (processID, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return processID{}, err
	}
	// The name in parentheses may hold spaces; the start time is field 22.
	_, rest, ok := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return processID{}, fmt.Errorf("read start time of process %d: unexpected format", pid)
	}
	return processID{PID: pid, Start: fields[19], zombie: fields[0] == "Z"}, nil
}

// running reports whether exactly this process still runs. A process that has
// ended but was not yet waited for does not count.
func (p processID) running() bool {
	if p.PID == 0 {
		return false
	}
	now, err := identify(p.PID)
	return err == nil && now.Start == p.Start && !now.zombie
}

// lock takes an exclusive lock on a file, which it makes if need be, or on a
// directory. It does not wait: it returns errLocked if somebody else holds the
// lock. The lock ends with release or with the process.
func lock(path string) (release func(), err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = unix.Close(fd) }, nil
}

// waitLock waits until it gets a lock.
func waitLock(ctx context.Context, path string) (release func(), err error) {
	for {
		release, err := lock(path)
		if !errors.Is(err, errLocked) {
			return release, err
		}
		if err := host.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

var errLocked = errors.New("locked by another process")

// commandPatience bounds how long a command waits for the lock of a lab. A
// command that was killed while it started a program leaves a process that holds
// its lock until that program has begun.
const commandPatience = 2 * time.Second

// lockLab takes the lock by which one command at a time works on a lab.
func lockLab(ctx context.Context, dir, name string) (release func(), err error) {
	brief, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	release, err = waitLock(brief, dir)
	if err != nil && ctx.Err() == nil && brief.Err() != nil {
		return nil, fmt.Errorf("lab %s: another holdfast command works on it: wait for it or stop it first", name)
	}
	return release, err
}

// leftBehindPatience bounds the time in which a podman that outlived its
// holdfast makes, removes or starts the hosts of a lab.
const leftBehindPatience = time.Minute

// waitForLeftBehind waits until no podman makes or removes hosts of a lab. A
// holdfast that was killed leaves such a podman behind, which would remove a
// host that the next command has found and relies on. The caller holds the
// lab's lock, so no podman of a living holdfast is found.
func waitForLeftBehind(ctx context.Context, name string) error {
	return waitForPodman(ctx, name, labelOf(name))
}

// waitForPodman waits until no podman has word in its command line: the label of
// a lab's hosts, or the container of one.
func waitForPodman(ctx context.Context, lab, word string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leftBehindPatience,
		fmt.Errorf("a podman process of an earlier command still works on lab %s", lab))
	defer cancel()
	for {
		found, err := leftBehind(word)
		if err != nil || !found {
			return err
		}
		if err := host.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// leftBehind reports whether a podman runs that has word in its command line.
func leftBehind(word string) (bool, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return false, err
	}
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(line), "\x00")
		if filepath.Base(args[0]) == "podman" && slices.ContainsFunc(args[1:], func(arg string) bool {
			return strings.TrimPrefix(arg, "label=") == word
		}) {
			return true, nil
		}
	}
	return false, nil
}
