package release

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// Place puts the host's programs of the release into a folder of their own below
// root. The folder gets its name when every file is written, verified and on the
// disk. What runs on the host does not change: see Switch. A release that is there
// whole is not written again; files of it that are lost or changed are. A folder
// that an earlier Place left unfinished is removed. If the disk lacks room, the
// error says how much, and nothing is changed.
func (s *Store) Place(ctx context.Context, root string) error { return on(root).place(ctx, s) }

func (d disk) place(ctx context.Context, s *Store) error {
	img, ok := s.manifest.Image(payload.HostImage)
	if !ok {
		return fmt.Errorf("the release in %s has no files for a host", s.dir)
	}
	name, ok := digestHex(s.manifest.Digest)
	if !ok {
		return fmt.Errorf("the release in %s has %q for its digest", s.dir, s.manifest.Digest)
	}
	if err := checkPaths(img.Files); err != nil {
		return err
	}
	unlock, err := d.open()
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.clean(); err != nil {
		return err
	}
	have, err := d.read(name)
	if err != nil {
		have = record{} // without a record that can be read every file is written again
	}
	missing := lost(d.at(name), have.Files, img.Files)
	if len(missing) == 0 {
		return nil
	}
	if err := d.room(missing); err != nil {
		return err
	}
	to := record{Format: recordFormat, Release: s.manifest.Digest, Version: s.manifest.Version}
	if err := d.fill(ctx, s, name, to, img.Files, missing); err != nil {
		full := errors.Is(err, unix.ENOSPC)
		err = errors.Join(fmt.Errorf("put the release into %s: %w", d.at(name), err), d.clean())
		if full {
			err = errors.Join(err, d.room(missing))
		}
		return err
	}
	return nil
}

// fill writes the missing files: into a new folder, or into that of a release
// that has lost some, each in one step.
func (d disk) fill(ctx context.Context, s *Store, name string, to record, files, missing []File) error {
	dir := name
	if !host.Exists(d.at(name)) {
		dir += unfinished
	} else if err := d.sweep(name, files); err != nil {
		return err
	}
	wanted := map[string]File{}
	for _, f := range missing {
		wanted[f.Path] = f
	}
	put := func(f File, r io.Reader) error {
		return d.effect(func() error {
			path := filepath.Join(d.at(dir), f.Path)
			if err := place(path, r, f, hostFileMode); err != nil {
				return err
			}
			return host.SetLabel(path, host.Label(existing(filepath.Join(d.root, f.Path))))
		})
	}
	if err := s.extract(ctx, wanted, put); err != nil {
		return err
	}
	return d.finish(dir, name, to, files)
}

// sweep removes from a release's folder what an interrupted repair left there.
func (d disk) sweep(name string, files []File) error {
	known := map[string]bool{d.at(name, manifestFile): true}
	for _, f := range files {
		known[filepath.Join(d.at(name), f.Path)] = true
	}
	return filepath.WalkDir(d.at(name), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || known[path] {
			return err
		}
		return d.effect(func() error { return os.Remove(path) })
	})
}

// existing returns the nearest folder above a path that exists. Its SELinux label
// is what a program would inherit at that path.
func existing(path string) string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if host.Exists(dir) || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// finish records what is in a folder, makes it durable, and gives it its name.
func (d disk) finish(dir, name string, to record, files []File) (err error) {
	if to.Files, err = marked(d.at(dir), files); err != nil {
		return err
	}
	data, err := json.Marshal(to)
	if err != nil {
		return err
	}
	err = d.effect(func() error { return host.WriteFileAtomic(d.at(dir, manifestFile), append(data, '\n'), 0o444) })
	if err != nil {
		return err
	}
	if err := syncTree(d.at(dir)); err != nil {
		return err
	}
	if dir != name {
		if err := d.effect(func() error { return os.Rename(d.at(dir), d.at(name)) }); err != nil {
			return err
		}
	}
	return host.SyncDir(d.at())
}

// syncTree makes the folders of a tree durable, and lets everybody read them.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return errors.Join(os.Chmod(path, 0o755), host.SyncDir(path)) //nolint:gosec // only root writes below the folder of the releases
	})
}

// Beside its content a file fills the rest of its last block, and its folders
// need some.
const (
	blockSize  = 4096
	folderRoom = 1 << 20
)

// room returns an error if the folder of the releases has no room for files, or if
// programs there could not run.
func (d disk) room(files []File) error {
	need := uint64(folderRoom)
	for _, f := range files {
		need += uint64(f.Size) + blockSize //nolint:gosec // a file has a size
	}
	free, err := d.free(d.at())
	if err != nil {
		return err
	}
	if free < need {
		return fmt.Errorf("the release needs %d MiB in %s, and %d MiB are free there: make room on that file system, then try again",
			need>>20+1, d.at(), free>>20)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.at(), &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s is mounted with noexec, so no program of the release could run there: mount it without", d.at())
	}
	return nil
}

// extract takes the wanted files from the host image's layers, and gives each to
// put.
func (s *Store) extract(ctx context.Context, wanted map[string]File, put func(File, io.Reader) error) error {
	d, err := s.image(payload.HostImage)
	if err != nil {
		return err
	}
	m, err := s.imageManifest(d)
	if err != nil {
		return err
	}
	missing := len(wanted)
	for _, l := range m.Layers {
		n, err := s.extractLayer(ctx, l, wanted, put)
		if err != nil {
			return err
		}
		missing -= n
	}
	if missing != 0 {
		return fmt.Errorf("the release in %s lists %d files that its layers do not have", s.dir, missing)
	}
	return nil
}

// extractLayer returns how many of the wanted files the layer has.
func (s *Store) extractLayer(ctx context.Context, l v1.Descriptor, wanted map[string]File, put func(File, io.Reader) error) (int, error) {
	path, err := blobPath(s.dir, l.Digest.String())
	if err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	tr := tar.NewReader(f)           // seeks over unwanted files
	for n := 0; ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("read %s: %w", path, err)
		}
		want, ok := wanted["/"+h.Name]
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		if err := put(want, tr); err != nil {
			return n, err
		}
		n++
	}
}

// place writes one file, checks it and puts it in the place of the old one.
func place(path string, r io.Reader, want File, mode fs.FileMode) error {
	return host.WriteAtomic(path, mode, func(w io.Writer) error {
		h := sha256.New()
		// One byte too many is enough to detect another file; the holes of a sparse
		// one would fill the disk.
		if _, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(r, want.Size+1)); err != nil {
			return err
		}
		if got := digestOf(h); got != want.Digest {
			return fmt.Errorf("its content is %s, not %s: the release is damaged", got, want.Digest)
		}
		return nil
	})
}
