package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/model/state"
)

// WriteFileAtomic writes data to path as WriteAtomic does.
func WriteFileAtomic(path string, data []byte, mode fs.FileMode) error {
	return WriteAtomic(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteAtomic writes a file so that a reader sees either the old file or the
// complete new one, even after a power cut: fill writes a temporary file beside
// it, which is synced and renamed to path, and the directory is synced. If fill
// fails, the old file stays. Parent directories are created with mode 0755.
func WriteAtomic(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	return writeAtomic(path, mode, os.Geteuid(), os.Getegid(), fill)
}

// WriteFileFor writes a file like WriteFileAtomic, but for another owner, which has
// it from the moment at which the file is there.
func WriteFileFor(path string, data []byte, mode fs.FileMode, uid, gid int) error {
	return writeAtomic(path, mode, uid, gid, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func writeAtomic(path string, mode fs.FileMode, uid, gid int, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if err := complete(tmp, mode, uid, gid, fill); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), tmp.Close())
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return errors.Join(err, tmp.Close())
	}
	return errors.Join(syncRenamed(tmp), tmp.Close(), SyncDir(dir))
}

// syncRenamed makes durable where the data of a file is that took the place of another one.
// FAT, which firmware reads, keeps that in the folder, and does not write it with the folder
// but with the file: a power cut in between would leave the place of the former data, which
// is free by then.
func syncRenamed(f *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Type != unix.MSDOS_SUPER_MAGIC {
		return err
	}
	return f.Sync()
}

// complete sets the owner before the mode, because a change of the owner clears
// setuid and setgid.
func complete(f *os.File, mode fs.FileMode, uid, gid int, fill func(io.Writer) error) error {
	if uid != os.Geteuid() || gid != os.Getegid() {
		if err := f.Chown(uid, gid); err != nil {
			return err
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := fill(f); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncFilesystem makes everything durable that was written to the file system
// of path.
func SyncFilesystem(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return errors.Join(fmt.Errorf("sync file system of %s: %w", path, err), f.Close())
	}
	return f.Close()
}

// ext4Checkpoint is EXT4_IOC_CHECKPOINT of Linux' ext4.h.
const ext4Checkpoint = 0x4004662b

// SettleFilesystem makes durable what was written to the file system of path, if there is
// such a path, and has ext4 move it from its journal to its place. A boot loader reads a
// file system without the journal: it would boot with what was there before.
func SettleFilesystem(path string) error {
	if !Exists(path) {
		return nil
	}
	if err := SyncFilesystem(path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	// Other file systems know no such call. There a power cut within seconds costs a boot
	// with the former arguments.
	_ = unix.IoctlSetPointerInt(int(f.Fd()), ext4Checkpoint, 0)
	return f.Close()
}

// RemoveFile removes a file. One that is not there is no error.
func RemoveFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// WriteFiles writes each file below root with WriteFileAtomic, except files
// that already have the wanted content and mode. It returns the paths that it
// wrote.
func WriteFiles(root string, files []state.File) ([]string, error) {
	var wrote []string
	for _, f := range files {
		path := filepath.Join(root, f.Path)
		if sameFile(path, f) {
			continue
		}
		if err := WriteFileAtomic(path, f.Data, f.Perm()); err != nil {
			return wrote, err
		}
		wrote = append(wrote, path)
	}
	return wrote, nil
}

func sameFile(path string, want state.File) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != want.Perm() {
		return false
	}
	have, err := os.ReadFile(path)
	return err == nil && bytes.Equal(have, want.Data)
}

// FreeSpace returns how many bytes root may still write to the file system of
// dir.
func FreeSpace(dir string) (uint64, error) {
	free, _, err := Space(dir)
	return free, err
}

// Space returns FreeSpace, and the size of that file system in bytes.
func Space(dir string) (free, size uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	block := uint64(st.Bsize) //nolint:gosec // a block has a size
	return st.Bavail * block, st.Blocks * block, nil
}

// Exists reports whether a path leads to something that can be read with stat.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
