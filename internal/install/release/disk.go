package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// disk is the folder of a host's disk with the programs of its releases. Each
// release has a folder there, named by the hex digits of its digest, and below it
// the host's paths. The links current and previous name two of the folders. A
// path outside, like /usr/local/bin/kubelet, is a stable link through current, so
// that one rename changes all programs.
type disk struct {
	// root is the host's root as this process sees it.
	root string
	// proc is where the host's processes are shown.
	proc string
	// free returns how many bytes may still be written to the disk of a folder.
	free func(dir string) (uint64, error)
	// effect carries out one change of the disk.
	effect func(do func() error) error
}

func on(root string) disk {
	return disk{root: root, proc: "/proc", free: host.FreeSpace, effect: func(do func() error) error { return do() }}
}

const (
	currentLink  = "current"
	previousLink = "previous"
	// unfinished ends the name of a release's folder while it is written or removed.
	unfinished = ".part"
)

// at returns a path in the folder of the releases.
func (d disk) at(names ...string) string {
	return filepath.Join(append([]string{d.root, payload.ReleasesDir}, names...)...)
}

// record is release.json in a release's folder: what was put there. A reader
// ignores fields that it does not know.
type record struct {
	// Format is the number of this form. It rises if an older reader would draw a
	// wrong conclusion.
	Format int `json:"format"`
	// Release is the release's digest.
	Release string `json:"release"`
	// Version is the version of Holdfast, empty if it is not known.
	Version string       `json:"version,omitempty"`
	Files   []markedFile `json:"files"`
}

const recordFormat = 1

// markedFile is a file with its attributes in the file system right after it
// was written.
type markedFile struct {
	File
	// MTime is in nanoseconds since 1970.
	MTime int64 `json:"mtime"`
}

// hostFileMode is the mode of every program of a release. adoptedMode is that of
// programs that an earlier Holdfast wrote.
const (
	hostFileMode fs.FileMode = 0o555
	adoptedMode  fs.FileMode = 0o755
)

// read returns the record of a folder. Without a record the error is
// fs.ErrNotExist.
func (d disk) read(name string) (record, error) {
	var r record
	path := d.at(name, manifestFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("read %s: %w", path, err)
	}
	if r.Format != recordFormat {
		return record{}, fmt.Errorf("read %s: it has format %d, and this version of Holdfast knows %d", path, r.Format, recordFormat)
	}
	return r, r.check(path, name)
}

// check refuses a record that would have somebody write at another place.
func (r record) check(path, name string) error {
	if hex, ok := digestHex(r.Release); !ok || hex != name {
		return fmt.Errorf("read %s: it is the record of another release, %q", path, r.Release)
	}
	if err := checkPaths(r.files()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func (r record) files() []File {
	var out []File
	for _, f := range r.Files {
		out = append(out, f.File)
	}
	return out
}

// marked returns files below dir with the attributes that they have now.
func marked(dir string, files []File) ([]markedFile, error) {
	var out []markedFile
	for _, f := range files {
		info, err := os.Lstat(filepath.Join(dir, f.Path))
		if err != nil {
			return nil, err
		}
		out = append(out, markedFile{File: f, MTime: info.ModTime().UnixNano()})
	}
	return out, nil
}

// holds reports whether dir still has a file as it was written. It reads
// attributes, not the content.
func holds(dir string, have []markedFile, want File) bool {
	info, err := os.Lstat(filepath.Join(dir, want.Path))
	if err != nil || !info.Mode().IsRegular() || info.Size() != want.Size {
		return false
	}
	if mode := info.Mode() &^ fs.ModeType; mode != hostFileMode && mode != adoptedMode {
		return false
	}
	return slices.Contains(have, markedFile{File: want, MTime: info.ModTime().UnixNano()})
}

// lost returns those files that dir does not have as they were written.
func lost(dir string, have []markedFile, want []File) []File {
	return slices.DeleteFunc(slices.Clone(want), func(f File) bool { return holds(dir, have, f) })
}

// checkPaths refuses files outside of the host's root, and in the folder of the
// releases itself.
func checkPaths(files []File) error {
	for _, f := range files {
		if !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path || f.Path == "/" {
			return fmt.Errorf("the release names a file %q, which is no clean absolute path", f.Path)
		}
		if within(f.Path, payload.ReleasesDir) || within(payload.ReleasesDir, f.Path) || f.Path == "/"+manifestFile {
			return fmt.Errorf("the release names a file %q, which is a place of Holdfast's own", f.Path)
		}
	}
	return nil
}

// within reports whether a path is a folder or below it.
func within(path, folder string) bool { return strings.HasPrefix(path+"/", folder+"/") }

// open makes the folder of the releases if it is missing, and keeps others from
// changing anything there until unlock is called.
func (d disk) open() (unlock func(), err error) {
	if err := d.effect(func() error { return makeDir(d.at()) }); err != nil {
		return nil, fmt.Errorf("make the folder of the releases: %w", err)
	}
	f, err := os.Open(d.at())
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another program changes the releases of this host now; try again when it has ended")
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", d.at(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil // it was opened for the lock alone
}

// makeDir makes a folder that everybody may read, and those above it, durably.
func makeDir(path string) error {
	if host.Exists(path) {
		return nil
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chmod(path, 0o755); err != nil { // whatever the umask is
		return err
	}
	return host.SyncDir(filepath.Dir(path))
}

// setLink makes a link, in place of whatever file or link is there, in one step.
// The caller makes it durable.
func (d disk) setLink(path, target string) error {
	if have, err := os.Readlink(path); err == nil && have == target {
		return nil
	}
	if err := d.effect(func() error { return makeDir(filepath.Dir(path)) }); err != nil {
		return err
	}
	temporary := besideOf(path)
	err := d.effect(func() error { return errors.Join(removeFile(temporary), os.Symlink(target, temporary)) })
	if err != nil {
		return err
	}
	if err := d.effect(func() error { return os.Rename(temporary, path) }); err != nil {
		return fmt.Errorf("replace %s by a link (is it a folder, or a mount of its own?): %w", path, err)
	}
	return nil
}

// besideOf returns the one temporary name of a link. A hidden file is no agent to
// Pacemaker, and no plug-in to containerd.
func besideOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".holdfast")
}

// removeFile removes a file or link. One that is not there is no error.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// named returns the digest of the release that a link names, empty without a link.
func (d disk) named(link string) (string, error) {
	target, err := os.Readlink(d.at(link))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	digest := "sha256:" + target
	if _, ok := digestHex(digest); !ok {
		return "", fmt.Errorf("%s leads to %q, which is no release: remove that link, then switch again", d.at(link), target)
	}
	return digest, nil
}

// placed returns the names of the folders of whole releases.
func (d disk) placed() ([]string, error) {
	entries, err := os.ReadDir(d.at())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if _, ok := digestHex("sha256:" + e.Name()); ok && e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// clean removes releases that were not written, or not removed, to the end.
func (d disk) clean() error {
	entries, err := os.ReadDir(d.at())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), unfinished) {
			continue
		}
		if err := d.effect(func() error { return os.RemoveAll(d.at(e.Name())) }); err != nil {
			return fmt.Errorf("remove an unfinished release: %w", err)
		}
	}
	return nil
}
