package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// hangPause is the interval at which a hanging disk checks whether its host is
// dying, and tries again to freeze what something else has frozen.
const hangPause = 50 * time.Millisecond

// startHang freezes the file system until it is stopped, except while the host
// is dying. On a real machine a process that a power cut ends waits for no
// disk. Here it would, because all hosts share one kernel.
func startHang(dir string, dying func() bool) (*staller, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	s := &staller{end: end, done: make(chan struct{})}
	go s.hang(ctx, f, dying)
	return s, nil
}

func (s *staller) hang(ctx context.Context, f *os.File, dying func() bool) {
	defer close(s.done)
	defer func() { _ = f.Close() }()
	frozen := false
	for ended := false; !ended; ended = host.Sleep(ctx, hangPause) != nil {
		switch now := dying(); {
		case now && frozen:
			_ = unix.IoctlSetInt(int(f.Fd()), ioctlThaw, 0)
			frozen = false
		case !now && !frozen:
			frozen = unix.IoctlSetInt(int(f.Fd()), ioctlFreeze, 0) == nil
		}
	}
	if frozen {
		_ = unix.IoctlSetInt(int(f.Fd()), ioctlThaw, 0)
	}
}

// hangDisk makes etcd's disk of a host hang.
func (f *faults) hangDisk(ctx context.Context, m *machine) error {
	if err := m.diskOfOff(ctx); err != nil {
		return err
	}
	dir := f.lab.etcdDir(m.host)
	if !mounted(dir) {
		return errNoEtcdDisk
	}
	f.releaseDisk(m.host)
	s, err := startHang(dir, m.dying) //nolint:contextcheck // the disk hangs beyond the request
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs[m.host.Name] = s
	return nil
}

func (f *faults) releaseDisk(h Host) {
	f.mu.Lock()
	s := f.hangs[h.Name]
	delete(f.hangs, h.Name)
	f.mu.Unlock()
	if s != nil {
		s.stop()
	}
}

// written runs do on etcd's disk of a host, unless the disk hangs. What it writes outlasts a
// power cut.
func (f *faults) written(ctx context.Context, m *machine, do func(dir string) error) error {
	f.mu.Lock()
	hangs := f.hangs[m.host.Name] != nil
	f.mu.Unlock()
	if hangs {
		return errHangs
	}
	if err := m.diskOfOff(ctx); err != nil {
		return err
	}
	dir := f.lab.etcdDir(m.host)
	if err := do(dir); err != nil || !mounted(dir) {
		return err
	}
	return host.SyncFilesystem(dir)
}

// dying reports whether the host's init is about to end. It never waits,
// because a power cut holds the machine's lock until the host is gone.
func (m *machine) dying() bool {
	pid := m.initPID.Load()
	return pid != 0 && exiting(int(pid))
}

// exitingFlag is PF_EXITING among the flags of a process (linux/sched.h).
const exitingFlag = 0x4

// exiting reports whether a process has begun to end, or is gone.
func exiting(pid int) bool {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	// The name in parentheses may hold spaces; the flags are field 9.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err == nil && flags&exitingFlag != 0
}

// thawAll undoes the freezes that a killed daemon may have left below a lab's
// directory. Otherwise nobody could end or unmount anything there: it would
// wait forever.
func thawAll(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "hosts", "*", "etcd"))
	if err != nil {
		return fmt.Errorf("disks of etcd below %s: %w", dir, err)
	}
	for _, disk := range found {
		if mounted(disk) {
			thaw(disk)
		}
	}
	return nil
}
