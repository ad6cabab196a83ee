// Package namednetns makes network namespaces that have a name below
// /run/netns, beside those of iproute2 and of whoever else does so.
package namednetns

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Dir is where the names are.
const Dir = "/run/netns"

// New makes a namespace by that name and leaves the caller's thread, which has
// to be locked, inside it.
//
// The first `ip netns add` of a machine binds the directory onto itself. Names
// that were there by then are mounted twice, below and on top, and nobody gets
// the lower ones off again: "device or resource busy". So the first one of ours
// does the same before it.
func New(name string) (netns.NsHandle, error) {
	if err := share(); err != nil {
		return netns.None(), fmt.Errorf("share %s: %w", Dir, err)
	}
	return netns.NewNamed(name)
}

// share makes the directory a mount of its own whose changes other mount
// namespaces follow, unless it is one. It holds the lock that iproute2 holds.
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
