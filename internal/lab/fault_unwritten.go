package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of the kernel's fs/ext4/ext4.h: the
// file system writes nothing any more, not even its journal.
const (
	ioctlShutdown = 0x8004587d
	noLogFlush    = 2
)

// errDiskInUse reports that something still has etcd's disk open, so it cannot be mounted anew.
var errDiskInUse = errors.New("something still uses etcd's disk of the host")

// loseUnwritten makes the file system of etcd's disk lose what nobody has synced yet, as
// memory does without power. The kernel is the machine's, so it would otherwise keep for the
// host's next boot what the host never wrote to its disk. From here on, until replug, each
// access of the directory fails.
func loseUnwritten(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(f.Fd()), ioctlShutdown, noLogFlush)
	if err != nil {
		err = fmt.Errorf("lose what etcd's disk has not written: %w", err)
	}
	return errors.Join(err, f.Close())
}

// replug mounts etcd's disk anew after loseUnwritten. The host has to be off. It ends what it
// began: a caller that gives up leaves no disk that is half away.
func (b *Lab) replug(ctx context.Context, h Host) error {
	ctx = context.WithoutCancel(ctx)
	place, err := b.placeOfDisk(ctx, h)
	if err != nil {
		return err
	}
	if err := letGo(ctx, b.etcdDir(h), filepath.Join(place, "etcd.img")); err != nil {
		return fmt.Errorf("etcd's disk of %s: %w", h.Name, err)
	}
	return b.mountEtcdDisk(ctx, h)
}

// letGoPatience bounds the time until the kernel has let go of a disk: the mount namespace of
// a host that was killed goes a moment after its last process.
const letGoPatience = 20 * time.Second

// letGo unmounts the image and returns once no loop device has it. Two devices with one
// image would be two file systems that write over each other.
func letGo(ctx context.Context, dir, image string) error {
	if !exists(image) {
		return nil // it was never mounted
	}
	ctx, cancel := context.WithTimeoutCause(ctx, letGoPatience, errDiskInUse)
	defer cancel()
	for mounted(dir) {
		if err := unix.Unmount(dir, 0); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
		if mounted(dir) && host.Sleep(ctx, hangPause) != nil {
			return context.Cause(ctx)
		}
	}
	for {
		out, err := host.Run(ctx, host.Command("losetup", "--noheadings", "--output", "NAME", "--associated", image))
		if err != nil || len(out) == 0 {
			return err
		}
		if host.Sleep(ctx, hangPause) != nil {
			return context.Cause(ctx)
		}
	}
}

// plugged makes etcd's disk ready for a boot, after a power cut or for the first time. Only a sync
// tells that it is shut down: the kernel still lists the directory from its memory.
func (m *machine) plugged(ctx context.Context) error {
	dir := m.lab.etcdDir(m.host)
	switch {
	case !mounted(dir) && m.host.Role.ControlPlane():
		return m.lab.replug(ctx, m.host)
	case !mounted(dir) || m.holdsDisk(m.host):
		return nil
	case errors.Is(host.SyncDir(dir), unix.EIO):
		return m.lab.replug(ctx, m.host)
	}
	return nil
}

// diskOfOff makes etcd's disk of a host that is off ready for a fault, or for the end of one.
func (m *machine) diskOfOff(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init != nil {
		return nil
	}
	return m.plugged(ctx)
}

// forget makes etcd's disk of a host that loses its power lose what nobody has synced. The disk is
// mounted anew by the next boot, so that a BMC is as quick as ever to say that the host is off. A disk
// that a fault holds frozen keeps everything, since the fault has it open.
func (m *machine) forget() {
	dir := m.lab.etcdDir(m.host)
	if !mounted(dir) || m.holdsDisk(m.host) {
		return
	}
	if err := loseUnwritten(dir); err != nil {
		m.log.Warn("etcd's disk keeps what nobody synced", "host", m.host.Name, "error", err)
	}
}
