package installer

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// lock keeps other runs from the directory until release is called: two runs
// that make keys for the same directory would mix them. The kernel drops the
// lock when the process ends. The caller reports a missing directory.
func (in *Installer) lock() (release func(), err error) {
	fd, err := unix.Open(in.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", in.Dir, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another holdfast works in %s: wait for it, then run this again", in.Dir)
		}
		return nil, fmt.Errorf("lock %s: %w", in.Dir, err)
	}
	return func() { _ = unix.Close(fd) }, nil
}
