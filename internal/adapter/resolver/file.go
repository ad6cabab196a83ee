package resolver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// temporary returns the name beside path under which a new file is written.
// There is only one, so that a killed writer leaves at most one file behind,
// which the next writer removes.
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".holdfast")
}

// replace puts a file at path in place of whatever is there. A reader finds
// either the complete old file or the complete new one, at any moment and also
// after a power cut. host.WriteFileAtomic would be enough, except for the
// label: the file must have it before it gets its name.
func replace(path string, data []byte, mode fs.FileMode) error {
	return renamed(path, func(tmp string) error { return create(tmp, data, mode, host.Label(path)) }, os.Rename)
}

// exchange does the same as replace, for a file that another tool may be
// writing at this very moment. It returns the file that it replaced, still
// open: whatever that tool has yet to write will be there.
func exchange(path string, data []byte, mode fs.FileMode) (displaced *os.File, err error) {
	makeIt := func(tmp string) error { return create(tmp, data, mode, host.Label(path)) }
	err = renamed(path, makeIt, func(tmp, path string) error {
		err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
		if err != nil { // the file is gone, or this file system does not support it
			return os.Rename(tmp, path)
		}
		if displaced, err = os.Open(tmp); err != nil {
			return err
		}
		return os.Remove(tmp)
	})
	if err != nil && displaced != nil {
		_ = displaced.Close() // it was opened only for reading
		displaced = nil
	}
	return displaced, err
}

// create makes a new file and syncs it to the disk.
func create(path string, data []byte, mode fs.FileMode, selinux []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(fill(f, data, mode, selinux), f.Close())
}

func fill(f *os.File, data []byte, mode fs.FileMode, selinux []byte) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := host.SetLabel(f.Name(), selinux); err != nil {
		return err
	}
	return f.Sync()
}

// replaceLink puts a symbolic link at path as replace puts a file.
func replaceLink(path, target string) error {
	return renamed(path, func(tmp string) error {
		if err := os.Symlink(target, tmp); err != nil {
			return err
		}
		return host.SetLabel(tmp, host.Label(path))
	}, os.Rename)
}

// renamed calls makeIt with a temporary name and put to move the result to
// path.
func renamed(path string, makeIt func(tmp string) error, put func(tmp, path string) error) (err error) {
	tmp := temporary(path)
	if err := os.Remove(tmp); err != nil && !os.IsNotExist(err) {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp) // it may be renamed already
		}
	}()
	if err := makeIt(tmp); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := put(tmp, path); err != nil {
		return fmt.Errorf("replace %s (is it a mount of its own, or its directory read-only?): %w", path, err)
	}
	return host.SyncDir(filepath.Dir(path))
}

// immutable reports whether a file has the immutable attribute, so that not
// even root may write it.
func immutable(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_IMMUTABLE != 0
}

// read returns a file's content, nil if the file does not exist.
func read(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	return data, err
}
