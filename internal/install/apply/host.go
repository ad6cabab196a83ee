// Package apply makes a package-based host what an Ignition configuration
// says, as an Ignition-based operating system does by itself: it fetches and
// merges the configuration, looks at the host, and takes the steps of
// internal/install/plan. It decides nothing about the steps.
//
// Every step may be cut by a power failure or kill -9. A journal says that a
// run began; the next run plans anew from what it finds and finishes.
package apply

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Host is the machine that is changed: a root directory and every effect on
// it. Reading is direct, below Root; whatever changes something goes through
// one of the functions, so that a test can cut a run at each of them.
type Host struct {
	// Root is "/" for the running system.
	Root string
	// Live is true where systemd of the running system is that of Root.
	Live bool

	// WriteFile replaces a file atomically and durably.
	WriteFile func(path string, data []byte, mode fs.FileMode) error
	Mkdir     func(path string, mode fs.FileMode) error
	Chmod     func(path string, mode fs.FileMode) error
	// Chown sets the owner, of a link itself if the path is one.
	Chown  func(path string, uid, gid int) error
	Remove func(path string) error
	// Symlink and Link make a link that replaces what is at path, atomically.
	Symlink func(target, path string) error
	Link    func(target, path string) error
	// Run runs a command to its end.
	Run func(ctx context.Context, c host.Cmd) ([]byte, error)

	// Owner reads a file's owner.
	Owner func(fs.FileInfo) (uid, gid int)
}

// NewHost returns the host below root, with real effects.
func NewHost(root string) *Host {
	_, err := os.Stat("/run/systemd/system")
	return &Host{
		Root:      root,
		Live:      root == "/" && err == nil,
		WriteFile: host.WriteFileAtomic,
		Mkdir:     mkdir,
		Chmod:     os.Chmod,
		Chown:     os.Lchown,
		Remove:    remove,
		Symlink: func(target, path string) error {
			return replace(path, func(tmp string) error { return os.Symlink(target, tmp) })
		},
		Link: func(target, path string) error {
			return replace(path, func(tmp string) error { return os.Link(target, tmp) })
		},
		Run:   host.Run,
		Owner: owner,
	}
}

func owner(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return int(st.Uid), int(st.Gid)
}

// mkdir makes a directory durably, and its parents with mode 0755.
func mkdir(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	// Whatever the umask took away.
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(path))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return host.SyncDir(filepath.Dir(path))
}

// replace makes something beside path and renames it over path.
func replace(path string, place func(tmp string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+filepath.Base(path)+".holdfast")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := place(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return host.SyncDir(dir)
}

// maxLinks bounds how many links a path may lead through.
const maxLinks = 40

// at returns where a path of the host lies, below Root. Links among its
// parents are followed as the host would, so that one which is absolute does
// not lead out of Root; the last element is not followed.
func (h *Host) at(path string) (string, error) {
	if h.Root == "/" {
		return path, nil
	}
	rest, at, links := strings.Split(filepath.Clean(path), "/"), "/", 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" {
			continue
		}
		next := filepath.Join(at, name)
		target, err := os.Readlink(filepath.Join(h.Root, next))
		if err != nil || len(rest) == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		// Join keeps "../.." from climbing above the root.
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(h.Root, at), nil
}

// systemctl returns a call of systemctl for the host's root.
func (h *Host) systemctl(args ...string) host.Cmd {
	if h.Root != "/" {
		args = append([]string{"--root=" + h.Root}, args...)
	}
	return host.Command("systemctl", args...)
}
