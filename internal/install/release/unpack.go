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
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// markerFile records, on a host, which files came from the release. With it an
// update need not read hundreds of megabytes to find that nothing changed, and
// it knows which files it must remove.
const markerFile = "var/lib/holdfast/release-files.json"

// marker is the content of markerFile.
type marker struct {
	Release string       `json:"release"`
	Files   []markedFile `json:"files"`
}

// markedFile is a file with its attributes in the file system right after it
// was unpacked.
type markedFile struct {
	File
	// MTime is in nanoseconds since 1970.
	MTime int64 `json:"mtime"`
}

// hostFileMode is the mode of every file of the host image: all are programs.
const hostFileMode fs.FileMode = 0o755

// UnpackHost puts the host's files below root, and removes those of an earlier
// release that this one does not have. It keeps files that are right already.
// It replaces a file in one step, so that a program in use goes on. It returns
// the absolute paths, below root, that it changed, sorted.
func (s *Store) UnpackHost(ctx context.Context, root string) ([]string, error) {
	img, ok := s.manifest.Image(payload.HostImage)
	if !ok {
		return nil, fmt.Errorf("the release in %s has no files for a host", s.dir)
	}
	if err := checkPaths(img.Files); err != nil {
		return nil, err
	}
	old, err := readMarker(root)
	if err != nil {
		return nil, err
	}
	wanted := map[string]File{}
	for _, f := range img.Files {
		if !old.holds(root, f) {
			wanted[f.Path] = f
		}
	}
	changed, err := s.extract(ctx, root, wanted)
	if err != nil {
		return changed, fmt.Errorf("unpack the host's files: %w", err)
	}
	removed, err := old.removeAllBut(root, img.Files)
	changed = append(changed, removed...)
	slices.Sort(changed)
	if err != nil {
		return changed, err
	}
	return changed, writeMarker(root, s.manifest.Digest, img.Files)
}

// checkPaths refuses a release that would write outside of root.
func checkPaths(files []File) error {
	for _, f := range files {
		if !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path || f.Path == "/" {
			return fmt.Errorf("the release names a file %q, which is no clean absolute path", f.Path)
		}
	}
	return nil
}

func readMarker(root string) (marker, error) {
	var m marker
	data, err := os.ReadFile(filepath.Join(root, markerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		m = marker{} // a damaged marker counts as empty: every file is checked again
	}
	return m, nil
}

// holds reports whether root still has the file as it was unpacked.
func (m marker) holds(root string, want File) bool {
	info, err := os.Lstat(filepath.Join(root, want.Path))
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != hostFileMode || info.Size() != want.Size {
		return false
	}
	return slices.Contains(m.Files, markedFile{File: want, MTime: info.ModTime().UnixNano()})
}

// removeAllBut removes the files of the marker that are not among files.
func (m marker) removeAllBut(root string, files []File) ([]string, error) {
	var removed []string
	for _, f := range m.Files {
		stays := slices.ContainsFunc(files, func(k File) bool { return k.Path == f.Path })
		if stays || checkPaths([]File{f.File}) != nil {
			continue
		}
		err := os.Remove(filepath.Join(root, f.Path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, err
		}
		removed = append(removed, f.Path)
	}
	return removed, nil
}

func writeMarker(root, release string, files []File) error {
	m := marker{Release: release}
	for _, f := range files {
		info, err := os.Lstat(filepath.Join(root, f.Path))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, markedFile{File: f, MTime: info.ModTime().UnixNano()})
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = writeIfOther(filepath.Join(root, markerFile), data)
	return err
}

// extract takes the wanted files from the host image's layers.
func (s *Store) extract(ctx context.Context, root string, wanted map[string]File) ([]string, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	d, err := s.image(payload.HostImage)
	if err != nil {
		return nil, err
	}
	m, err := s.imageManifest(d)
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, l := range m.Layers {
		done, err := s.extractLayer(ctx, root, l, wanted)
		changed = append(changed, done...)
		if err != nil {
			return changed, err
		}
	}
	if len(changed) != len(wanted) {
		return changed, fmt.Errorf("the release in %s lists %d files that its layers do not have", s.dir, len(wanted)-len(changed))
	}
	return changed, nil
}

func (s *Store) extractLayer(ctx context.Context, root string, l v1.Descriptor, wanted map[string]File) ([]string, error) {
	path, err := blobPath(s.dir, l.Digest.String())
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	var changed []string
	tr := tar.NewReader(f) // seeks over unwanted files
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return changed, nil
		}
		if err != nil {
			return changed, fmt.Errorf("read %s: %w", path, err)
		}
		want, ok := wanted["/"+h.Name]
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return changed, err
		}
		if err := place(filepath.Join(root, want.Path), tr, want, hostFileMode); err != nil {
			return changed, err
		}
		changed = append(changed, want.Path)
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
