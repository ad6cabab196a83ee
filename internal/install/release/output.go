package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

const layoutVersion = `{"imageLayoutVersion":"1.0.0"}`

// write puts the release in place. It writes index.json last. The index names
// everything by digest, so a reader always sees a whole release, old or new.
func (b *builder) write(ctx context.Context, images []builtImage, done map[string]built) (Manifest, bool, error) {
	m := b.manifest(images, done)
	index, err := makeIndex(m, images, b.tools)
	if err != nil {
		return m, false, err
	}
	m.Digest = digestBytes(index)
	key, err := keyOf(b.opts.Output)
	if err != nil {
		return m, false, err
	}
	unlock, err := lock(ctx, filepath.Join(b.cache.dir, "locks", "output-"+key))
	if err != nil {
		return m, false, err
	}
	defer unlock()
	keep := map[string]bool{}
	for _, img := range images {
		if err := writeImage(b.opts.Output, img, keep); err != nil {
			return m, false, err
		}
	}
	if err := syncFilesystem(b.opts.Output); err != nil {
		return m, false, err
	}
	changed, err := writeIndex(b.opts.Output, index, m)
	if err != nil {
		return m, false, err
	}
	return m, changed, removeOthers(b.opts.Output, keep)
}

func (b *builder) manifest(images []builtImage, done map[string]built) Manifest {
	m := Manifest{Version: payload.Version, Platform: b.tools.platform(), GoVersion: b.tools.GOVERSION, About: b.opts.About}
	for _, c := range b.opts.Components {
		if d, ok := done[c.Name]; ok {
			m.Components = append(m.Components, d.Component)
		}
	}
	m.Components = append(m.Components, packageComponents(images)...)
	for _, img := range images {
		m.Images = append(m.Images, img.summary())
	}
	return m
}

// makeIndex returns the index of the images. It contains the manifest too, so
// that a release pulled from a registry is complete.
func makeIndex(m Manifest, images []builtImage, t toolchain) ([]byte, error) {
	about, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	index := v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Annotations: map[string]string{annotationManifest: string(about)},
	}
	for _, img := range images {
		d, err := img.descriptor(t)
		if err != nil {
			return nil, err
		}
		index.Manifests = append(index.Manifests, d)
	}
	return json.Marshal(index)
}

// writeImage puts an image's blobs in place and notes their names in keep.
func writeImage(dir string, img builtImage, keep map[string]bool) error {
	for _, l := range img.layers {
		path, err := blobPath(dir, l.Digest)
		if err != nil {
			return err
		}
		keep[filepath.Base(path)] = true
		if err := linkOrCopy(l.path, path, l.Size); err != nil {
			return err
		}
	}
	for _, data := range [][]byte{img.config, img.manifest} {
		path, err := blobPath(dir, digestBytes(data))
		if err != nil {
			return err
		}
		keep[filepath.Base(path)] = true
		if _, err := writeIfOther(path, data); err != nil {
			return err
		}
	}
	return nil
}

func writeIndex(dir string, index []byte, m Manifest) (bool, error) {
	about, err := formatManifest(m)
	if err != nil {
		return false, err
	}
	changed := false
	for _, f := range []struct {
		name string
		data []byte
	}{{layoutFile, []byte(layoutVersion)}, {manifestFile, about}, {indexFile, index}} {
		wrote, err := writeIfOther(filepath.Join(dir, f.name), f.data)
		if err != nil {
			return false, err
		}
		changed = changed || wrote
	}
	return changed, nil
}

// writeIfOther writes a file unless it already has this content.
func writeIfOther(path string, data []byte) (bool, error) {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		return false, nil
	}
	return true, host.WriteFileAtomic(path, data, 0o644)
}

// linkOrCopy gives a file another name, or copies it to another file system. An
// existing file of the right size counts as the right one: names are digests,
// and a file gets its name only when it is complete.
func linkOrCopy(from, to string, size int64) error {
	if info, err := os.Stat(to); err == nil && info.Size() == size {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	tmp := to + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(from, tmp); err != nil {
		if err := copyFile(from, tmp); err != nil {
			return err
		}
	}
	return os.Rename(tmp, to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o444)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close(), in.Close())
}

// removeOthers removes the blobs of earlier releases.
func removeOthers(dir string, keep map[string]bool) error {
	blobs := filepath.Join(dir, "blobs", "sha256")
	names, err := os.ReadDir(blobs)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range names {
		if !keep[n.Name()] {
			errs = append(errs, os.Remove(filepath.Join(blobs, n.Name())))
		}
	}
	return errors.Join(errs...)
}

// keepUnused is the time for which the cache keeps results that no build uses.
const keepUnused = 14 * 24 * time.Hour

// prune removes results that no build has used for a while, and files that a
// dead build left.
func (c *cache) prune() error {
	var errs []error
	for sub, age := range map[string]time.Duration{"steps": keepUnused, "tmp": 24 * time.Hour, "locks": keepUnused} {
		names, err := os.ReadDir(filepath.Join(c.dir, sub))
		errs = append(errs, err)
		for _, n := range names {
			info, err := n.Info()
			if err == nil && time.Since(info.ModTime()) > age {
				errs = append(errs, os.RemoveAll(filepath.Join(c.dir, sub, n.Name())))
			}
		}
	}
	return errors.Join(errs...)
}
