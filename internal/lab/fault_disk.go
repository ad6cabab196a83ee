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
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
)

// etcdDisk returns the size of the disk that etcd has for itself, in bytes: what a site with
// its quota asks for, and a tenth more that the file system takes for itself. It is sparse:
// only data that etcd writes takes space.
func (s Spec) etcdDisk() int64 {
	need := etcdspace.Disk(etcdpod.Quota(s.EtcdQuota))
	return max(2<<30, int64(need+need/10))
}

// filler is the file that fills etcd's disk.
const filler = ".lab-fault-filler"

func (b *Lab) etcdDir(h Host) string { return filepath.Join(b.hostDir(h), "etcd") }

// mountEtcdDisk gives a control plane its own disk for etcd, which can be
// filled and slowed down without an effect on the machine's disk.
func (b *Lab) mountEtcdDisk(ctx context.Context, h Host) error {
	dir := b.etcdDir(h)
	if mounted(dir) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	place, err := b.placeOfDisk(ctx, h)
	if err != nil {
		return fmt.Errorf("etcd's disk of %s: %w", h.Name, err)
	}
	image := filepath.Join(place, "etcd.img")
	if err := makeFileSystem(ctx, image, b.Layout.Spec.etcdDisk()); err != nil {
		return fmt.Errorf("etcd's disk of %s: %w", h.Name, err)
	}
	if _, err := host.Run(ctx, host.Command("mount", "-o", "loop,noatime", image, dir)); err != nil {
		return fmt.Errorf("etcd's disk of %s: %w", h.Name, err)
	}
	// etcd refuses to start in a directory that others may read, and is
	// irritated by lost+found.
	return errors.Join(os.Chmod(dir, 0o700), os.RemoveAll(filepath.Join(dir, "lost+found")))
}

// placeOfDisk returns the directory for the image of etcd's disk. One in memory takes what etcd
// has written there, and is gone once the lab unmounts it.
func (b *Lab) placeOfDisk(ctx context.Context, h Host) (string, error) {
	if b.Layout.Spec.EtcdDisk != DiskInMemory {
		return b.hostDir(h), nil
	}
	place := filepath.Join(b.hostDir(h), "memory")
	if mounted(place) {
		return place, nil
	}
	if err := os.MkdirAll(place, 0o700); err != nil {
		return "", err
	}
	size := b.Layout.Spec.etcdDisk() + 16<<20
	_, err := host.Run(ctx, host.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("mode=0700,size=%d", size), "holdfast-lab", place))
	return place, err
}

// makeFileSystem makes an image file of so many bytes, under another name until it is whole.
func makeFileSystem(ctx context.Context, image string, size int64) error {
	if exists(image) {
		return nil
	}
	part := image + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	if _, err := host.Run(ctx, host.Command("mkfs.ext4", "-q", "-F", "-m", "0", part)); err != nil {
		return err
	}
	return os.Rename(part, image)
}

// mounted reports whether something is mounted on a directory.
func mounted(dir string) bool {
	var here, parent unix.Stat_t
	if unix.Stat(dir, &here) != nil || unix.Stat(filepath.Dir(dir), &parent) != nil {
		return false
	}
	return here.Dev != parent.Dev
}

var errNoEtcdDisk = errors.New("the host has no etcd disk, because it is not a control plane")

// errHangs reports that etcd's disk takes no writes, not even the lab's own.
var errHangs = errors.New("the host's etcd disk hangs: clear the fault hang-disk first")

// fillDisk leaves no free byte.
func fillDisk(dir string) error {
	if !mounted(dir) {
		return errNoEtcdDisk
	}
	f, err := os.OpenFile(filepath.Join(dir, filler), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	err = unix.Fstatfs(int(f.Fd()), &st)
	// A large piece may not fit into the rest, so go on with smaller ones.
	for piece := int64(st.Bavail) * st.Bsize; err == nil && piece >= st.Bsize; {
		end, seekErr := f.Seek(0, 2)
		if seekErr != nil {
			err = seekErr
			break
		}
		if unix.Fallocate(int(f.Fd()), 0, end, piece) != nil {
			piece /= 2
		}
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func emptyDisk(dir string) error {
	err := os.Remove(filepath.Join(dir, filler))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// FIFREEZE and FITHAW of linux/fs.h: on a frozen file system every write and
// sync waits until it is thawed.
const (
	ioctlFreeze = 0xc0045877
	ioctlThaw   = 0xc0045878
)

// breath is the time for which a stalling disk works between two stalls.
const breath = 5 * time.Millisecond

// staller makes a file system stall again and again.
type staller struct {
	end  context.CancelFunc
	done chan struct{}
}

// startStaller freezes the file system again and again, with a breath between
// two stalls, until it is stopped.
func startStaller(dir string, stall time.Duration) (*staller, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	s := &staller{end: end, done: make(chan struct{})}
	go s.run(ctx, f, stall)
	return s, nil
}

func (s *staller) run(ctx context.Context, f *os.File, stall time.Duration) {
	defer close(s.done)
	defer func() { _ = f.Close() }()
	for {
		frozen := unix.IoctlSetInt(int(f.Fd()), ioctlFreeze, 0) == nil
		ended := host.Sleep(ctx, stall) != nil
		if frozen {
			_ = unix.IoctlSetInt(int(f.Fd()), ioctlThaw, 0)
		}
		if ended || host.Sleep(ctx, breath) != nil {
			return
		}
	}
}

// stop ends the stalls and returns once the file system is thawed.
func (s *staller) stop() {
	s.end()
	<-s.done
}

func (f *faults) startStalls(ctx context.Context, m *machine, stall time.Duration) error {
	if err := m.diskOfOff(ctx); err != nil {
		return err
	}
	h := m.host
	dir := f.lab.etcdDir(h)
	if !mounted(dir) {
		return errNoEtcdDisk
	}
	f.stopStalls(h)
	s, err := startStaller(dir, stall) //nolint:contextcheck // the stalls outlive the request
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stalls[h.Name] = s
	return nil
}

// holdDisk reports whether a stall or a hang has etcd's disk of a host open.
func (f *faults) holdDisk(h Host) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stalls[h.Name] != nil || f.hangs[h.Name] != nil
}

func (f *faults) stopStalls(h Host) {
	f.mu.Lock()
	s := f.stalls[h.Name]
	delete(f.stalls, h.Name)
	f.mu.Unlock()
	if s != nil {
		s.stop()
	}
}

// thaw undoes the freeze that a killed daemon may have left.
func (b *Lab) thaw(h Host) { thaw(b.etcdDir(h)) }

func thaw(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	_ = unix.IoctlSetInt(int(f.Fd()), ioctlThaw, 0) // not frozen: nothing to undo
}
