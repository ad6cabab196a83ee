package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/backup"
)

// directory is a folder of this host, or a mount.
type directory struct {
	backup.Directory
	// sync is (*os.File).Sync; tests set another one.
	sync func(*os.File) error
}

func openDirectory(d backup.Directory) Target {
	if d.Marker == "" {
		d.Marker = backup.DefaultMarker
	}
	return directory{d, (*os.File).Sync}
}

// ErrNoMarker is returned for a folder without its marker. Most likely a mount is gone.
var ErrNoMarker = errors.New("its marker is not there")

// mounted returns an error if the marker is missing: then the folder may be on the host's own
// disk, below a mount that is gone, and backups would fill that disk.
func (d directory) mounted() error {
	info, err := os.Lstat(filepath.Join(d.Path, d.Marker))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: is %s mounted? If it is, and backups belong there: touch %s", ErrNoMarker, d.Path, filepath.Join(d.Path, d.Marker))
	}
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is no file", ErrNoMarker, filepath.Join(d.Path, d.Marker))
	}
	return err
}

func (d directory) at(name string) string { return filepath.Join(d.Path, filepath.FromSlash(name)) }

// Put implements Target. It looks for the marker again before the file appears, because a
// mount may go meanwhile.
func (d directory) Put(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	if err := d.mounted(); err != nil {
		return err
	}
	path := d.at(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := d.writeHalf(path+backup.HalfSuffix, from, size); err != nil {
		return errors.Join(err, host.RemoveFile(path+backup.HalfSuffix))
	}
	if err := errors.Join(context.Cause(ctx), d.mounted()); err != nil {
		return errors.Join(err, host.RemoveFile(path+backup.HalfSuffix))
	}
	if err := os.Rename(path+backup.HalfSuffix, path); err != nil {
		return errors.Join(err, host.RemoveFile(path+backup.HalfSuffix))
	}
	return host.SyncDir(filepath.Dir(path))
}

// writeHalf writes a file to the disk, and drops it from the kernel's cache, so that it is
// read back from the disk or the server.
func (d directory) writeHalf(path string, from io.Reader, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := inParts(from, func(part io.Reader) (int64, error) { return io.Copy(f, part) }, func() error { return d.sync(f) })
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("the file had %d bytes, want %d", n, size)
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) // without it the comparison proves less
	return nil
}

// Get implements Target. Like List it wants no marker for a file that is there.
func (d directory) Get(_ context.Context, name string) (io.ReadSeekCloser, error) {
	f, err := os.Open(d.at(name))
	if err == nil {
		return f, nil
	}
	if gone := d.mounted(); gone != nil {
		return nil, gone
	}
	return nil, err
}

// List implements Target. It wants no marker: who looks into a folder without one may have copied
// files there.
func (d directory) List(ctx context.Context, under string, see func(name string, size int64)) error {
	root := d.at(under)
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err = errors.Join(context.Cause(ctx), err); err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(d.Path, file)
		see(filepath.ToSlash(name), info.Size())
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Remove implements Target.
func (d directory) Remove(_ context.Context, name string) error {
	if err := d.mounted(); err != nil {
		return err
	}
	return host.RemoveFile(d.at(name))
}

// Close implements Target.
func (directory) Close() error { return nil }
