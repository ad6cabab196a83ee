// Package apply makes a package-based host what an Ignition configuration says,
// as an Ignition-based operating system does by itself. It fetches and merges
// the configuration, examines the host, and takes the steps that
// internal/install/plan decides.
//
// A power failure or kill -9 may cut any step. A journal says that a run began;
// the next run makes a new plan from the present state and finishes the
// work.
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

// Host is the machine to change: a root directory and all effects on it. Reads
// go directly below Root. Every change goes through one of the functions, so
// that a test can cut a run at each of them.
type Host struct {
	// Root is "/" for the running system.
	Root string
	// Live is true if the running system's systemd manages Root.
	Live bool

	// WriteFile replaces a file atomically and durably, and WriteFor does so for an
	// owner.
	WriteFile func(path string, data []byte, mode fs.FileMode) error
	WriteFor  func(path string, data []byte, mode fs.FileMode, uid, gid int) error
	Mkdir     func(path string, mode fs.FileMode) error
	Chmod     func(path string, mode fs.FileMode) error
	// Chown sets the owner of a path. If the path is a link, it sets the owner of
	// the link itself.
	Chown  func(path string, uid, gid int) error
	Remove func(path string) error
	// Symlink and Link atomically put a link in the place of path.
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
		WriteFor:  host.WriteFileFor,
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

// mkdir creates a directory durably, and missing parents with mode 0755.
func mkdir(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	// Undo the umask.
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(path))
}

func remove(path string) error {
	if err := host.RemoveFile(path); err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(path))
}

// replace creates something beside path and renames it to path.
func replace(path string, place func(tmp string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+filepath.Base(path)+".holdfast")
	if err := host.RemoveFile(tmp); err != nil {
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

// maxLinks bounds the number of links in a path.
const maxLinks = 40

// at returns the place of a host's path, below Root. It follows links among the
// parents as the host would, so that an absolute link does not lead out of
// Root. It does not follow the last element.
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
		// Join keeps "../.." below the root.
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(h.Root, at), nil
}

// systemctl returns a systemctl command for the host's root.
func (h *Host) systemctl(args ...string) host.Cmd {
	if h.Root != "/" {
		args = append([]string{"--root=" + h.Root}, args...)
	}
	return host.Command("systemctl", args...)
}
