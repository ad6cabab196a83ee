package release

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// entry is a file, a link or a folder in a layer.
type entry struct {
	// path is absolute and clean.
	path string
	mode fs.FileMode
	// link is the target of a symbolic link; otherwise empty.
	link string
	size int64
	// open returns a regular file's content; nil for a link or a folder.
	open func() (io.ReadCloser, error)
}

// layerEpoch is the time of every file in a layer. With the time of the build,
// each build would differ.
var layerEpoch = time.Unix(0, 0)

func fileEntry(path, from string, size int64) entry {
	return entry{path: path, mode: 0o755, size: size, open: func() (io.ReadCloser, error) { return os.Open(from) }}
}

func dataEntry(path string, mode fs.FileMode, data []byte) entry {
	return entry{path: path, mode: mode, size: int64(len(data)), open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

func linkEntry(path, target string) entry { return entry{path: path, mode: 0o777, link: target} }

func dirEntry(path string, mode fs.FileMode) entry { return entry{path: path, mode: mode | fs.ModeDir} }

// writeLayer writes entries as a tar file, with an order, owners and times that
// do not depend on where or when it is written. It adds parent folders.
func writeLayer(w io.Writer, entries []entry) error {
	all := map[string]entry{}
	for _, e := range entries {
		for dir := path.Dir(e.path); dir != "/"; dir = path.Dir(dir) {
			if _, ok := all[dir]; !ok {
				all[dir] = dirEntry(dir, 0o755)
			}
		}
		all[e.path] = e
	}
	tw := tar.NewWriter(w)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if err := writeEntry(tw, all[p]); err != nil {
			return fmt.Errorf("write %s: %w", p, err)
		}
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, e entry) error {
	h := &tar.Header{Name: e.path[1:], Mode: int64(tarMode(e.mode)), ModTime: layerEpoch, Format: tar.FormatUSTAR}
	switch {
	case e.link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
	case e.mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.size
	}
	if err := tw.WriteHeader(h); err != nil || e.open == nil {
		return err
	}
	r, err := e.open()
	if err != nil {
		return err
	}
	_, err = io.Copy(tw, r)
	return errors.Join(err, r.Close())
}

func tarMode(m fs.FileMode) fs.FileMode {
	mode := m.Perm()
	if m&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	if m&fs.ModeSetuid != 0 {
		mode |= 0o4000
	}
	return mode
}

// layer is a finished layer in the cache.
type layer struct {
	Digest string
	Size   int64
	// Files lists the regular files in it that came from components.
	Files []File
	// Packages lists the packages that contributed files.
	Packages []string
	// path is the path of the layer's file.
	path string
}

const layerFile = "layer.tar"

// content returns the entries of a layer, and the names of their packages.
type content func(ctx context.Context) ([]entry, []string, error)

// layerStep makes a layer from the result of fn. It calls fn only if the step
// has to run. key must stand for everything that fn returns.
func (b *builder) layerStep(ctx context.Context, key string, fn content) (layer, bool, error) {
	var l layer
	res, err := b.cache.do(ctx, step{kind: "layer", key: key, run: func(ctx context.Context, dir string) (any, error) {
		entries, packages, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		l, err := storeLayer(filepath.Join(dir, layerFile), entries)
		l.Packages = packages
		return l, err
	}}, &l)
	l.path = filepath.Join(res.dir, layerFile)
	return l, res.ran, err
}

func storeLayer(path string, entries []entry) (layer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o444)
	if err != nil {
		return layer{}, err
	}
	if err := errors.Join(writeLayer(f, entries), f.Close()); err != nil {
		return layer{}, err
	}
	digest, size, err := digestFile(path)
	return layer{Digest: digest, Size: size}, err
}
