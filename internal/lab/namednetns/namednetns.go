// Package namednetns makes network namespaces with a name below /run/netns,
// beside those of iproute2 and other programs.
package namednetns

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Dir is the directory of the names.
const Dir = "/run/netns"

// New makes a namespace of that name. It leaves the caller's thread, which must
// be locked, inside it.
//
// The first `ip netns add` of a machine binds the directory onto itself. Names
// that exist by then are mounted twice, below and on top, and the lower ones
// cannot be removed again: "device or resource busy". So our first namespace
// makes the same binding earlier.
func New(name string) (netns.NsHandle, error) {
	if err := share(); err != nil {
		return netns.None(), fmt.Errorf("share %s: %w", Dir, err)
	}
	return netns.NewNamed(name)
}

// share makes the directory a mount of its own, whose changes other mount
// namespaces follow, unless it is one already. It holds the lock that iproute2
// uses.
func share() error {
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(Dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	err = unix.Mount("", Dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := unix.Mount(Dir, Dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", Dir, "none", unix.MS_SHARED|unix.MS_REC, "")
}
