package release

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// fetch is one run that brings a release to a shelf.
type fetch struct {
	Shelf
	// name are the digits of the release's digest.
	name string
	from []Source
	said func(have, all int64)
	have int64
	all  int64
}

// half ends the name of a blob that is fetched.
const half = ".half"

// errHere marks an error of this host, which no other source mends.
type errHere struct{ error }

func (e errHere) Unwrap() error { return e.error }

// run fetches the index, then the manifests of images, then everything that they
// name. The folder gets its name last.
func (f *fetch) run(ctx context.Context, digest string) error {
	raw, err := f.index(ctx, digest)
	if err != nil {
		return err
	}
	index, m, err := indexOf(raw, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return err
	}
	dir := f.at(f.name + unfinished)
	if err := f.effect(func() error { return makeDir(filepath.Join(dir, "blobs", "sha256")) }); err != nil {
		return err
	}
	blobs, err := f.manifests(ctx, index)
	if err != nil {
		return err
	}
	if err := f.room(blobs); err != nil {
		return err
	}
	for _, b := range blobs {
		if err := f.blob(ctx, b); err != nil {
			return err
		}
	}
	return f.finish(dir, raw, m)
}

// index returns the index of the first source that has it.
func (f *fetch) index(ctx context.Context, digest string) ([]byte, error) {
	var errs []error
	for _, s := range f.from {
		raw, err := s.Index(ctx, digest)
		if err == nil && digestBytes(raw) != digest {
			err = fmt.Errorf("it gave %s for that name", digestBytes(raw))
		}
		if err == nil {
			return raw, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		errs = append(errs, fmt.Errorf("%s: %w", s, err))
	}
	if len(errs) == 0 {
		return nil, errors.New("nobody has named a place that has it")
	}
	return nil, errors.Join(errs...)
}

// manifests fetches the manifests of all images, and returns the other blobs of the
// release, each once.
func (f *fetch) manifests(ctx context.Context, index v1.IndexManifest) ([]Blob, error) {
	var out []Blob
	seen := map[string]bool{}
	for _, d := range index.Manifests {
		if err := f.blob(ctx, Blob{Digest: d.Digest.String(), Size: d.Size, Manifest: true}); err != nil {
			return nil, err
		}
		path, err := f.path(d.Digest.String())
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var m v1.Manifest
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
		for _, b := range append([]v1.Descriptor{m.Config}, m.Layers...) {
			if !seen[b.Digest.String()] {
				seen[b.Digest.String()] = true
				out = append(out, Blob{Digest: b.Digest.String(), Size: b.Size})
			}
		}
	}
	return out, nil
}

func (f *fetch) path(digest string) (string, error) { return blobPath(f.at(f.name+unfinished), digest) }

// room returns an error if the disk has no room for the blobs that are missing.
func (f *fetch) room(blobs []Blob) error {
	need := uint64(folderRoom)
	f.have, f.all = 0, 0
	for _, b := range blobs {
		path, err := f.path(b.Digest)
		if err != nil {
			return err
		}
		f.all += b.Size
		if info, err := os.Stat(path); err == nil && info.Size() == b.Size {
			f.have += b.Size
			continue
		}
		lies := int64(0)
		if info, err := os.Stat(path + half); err == nil {
			lies = min(info.Size(), b.Size)
		}
		need += uint64(b.Size-lies) + blockSize //nolint:gosec // sizes are not negative
	}
	free, err := f.free(f.at())
	if err != nil {
		return err
	}
	if free < need+f.Line {
		return fmt.Errorf("it needs %d MiB in %s beside the %d MiB that must stay free there, and %d MiB are free: make room on that file system",
			need>>20+1, f.at(), f.Line>>20, free>>20)
	}
	return nil
}

// blob fetches a blob from the first source that has it right.
func (f *fetch) blob(ctx context.Context, b Blob) error {
	path, err := f.path(b.Digest)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() == b.Size {
		return nil
	}
	var errs []error
	for _, s := range f.from {
		err := f.blobFrom(ctx, s, b, path)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if here, ok := errors.AsType[errHere](err); ok {
			return fmt.Errorf("write blob %s: %w", b.Digest, here.error)
		}
		errs = append(errs, fmt.Errorf("%s: %w", s, err))
	}
	return fmt.Errorf("blob %s: %w", b.Digest, errors.Join(errs...))
}

// errOther says that a source gave other bytes than the digest asks for.
var errOther = errors.New("its content is not what the digest says")

// blobFrom fetches a blob from one source. What lies there of it is kept; if that
// was wrong, the blob is fetched once more from its beginning.
func (f *fetch) blobFrom(ctx context.Context, s Source, b Blob, path string) error {
	for {
		resumed, err := f.attempt(ctx, s, b, path)
		if !errors.Is(err, errOther) || !resumed {
			return err
		}
	}
}

// attempt goes on with a blob, and reports whether something of it lay there. After
// errOther nothing of it does.
func (f *fetch) attempt(ctx context.Context, s Source, b Blob, path string) (resumed bool, err error) {
	file, err := os.OpenFile(path+half, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return false, errHere{err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	h := sha256.New()
	lies, err := io.Copy(h, io.LimitReader(file, b.Size+1))
	if err != nil {
		return false, errHere{err}
	}
	f.tell(lies)
	if lies < b.Size {
		in, err := s.Blob(ctx, b, lies)
		if err != nil {
			return lies > 0, err
		}
		err = f.copy(ctx, file, h, in, b.Size-lies)
		if err := errors.Join(err, in.Close()); err != nil {
			return lies > 0, err
		}
	}
	if lies > b.Size || digestOf(h) != b.Digest {
		if err := f.effect(func() error { return removeFile(path + half) }); err != nil {
			return lies > 0, errHere{err}
		}
		f.tell(-lies)
		return lies > 0, errOther
	}
	return lies > 0, f.keep(file, path)
}

func (f *fetch) tell(n int64) {
	if f.have += n; f.said != nil {
		f.said(f.have, f.all)
	}
}

// copy appends the rest of a blob to a file, in pieces of which few are not yet on
// the disk.
func (f *fetch) copy(ctx context.Context, file *os.File, h hash.Hash, in io.Reader, rest int64) error {
	piece := make([]byte, f.chunk)
	for dirty := 0; rest > 0; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := io.ReadFull(in, piece[:min(int64(len(piece)), rest)])
		if n > 0 {
			if err := f.effect(func() error { _, err := file.Write(piece[:n]); return err }); err != nil {
				return errHere{err}
			}
			_, _ = h.Write(piece[:n]) // a hash takes everything
			f.tell(int64(n))
		}
		if rest -= int64(n); err != nil {
			return fmt.Errorf("it ended %d bytes too early: %w", rest, err)
		}
		if dirty += n; dirty >= syncAfter {
			if err := f.effect(file.Sync); err != nil {
				return errHere{err}
			}
			dirty = 0
		}
	}
	return nil
}

// keep gives a blob, which is right, its name.
func (f *fetch) keep(file *os.File, path string) error {
	for _, do := range []func() error{
		file.Sync,
		func() error { return os.Chmod(path+half, 0o444) },
		func() error { return os.Rename(path+half, path) },
		func() error { return host.SyncDir(filepath.Dir(path)) },
	} {
		if err := f.effect(do); err != nil {
			return errHere{err}
		}
	}
	return nil
}

// finish writes the index, and gives the folder its name.
func (f *fetch) finish(dir string, raw []byte, m Manifest) error {
	about, err := formatManifest(m)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{layoutFile, []byte(layoutVersion)}, {manifestFile, about}, {indexFile, raw}} {
		err := f.effect(func() error { return host.WriteFileAtomic(filepath.Join(dir, file.name), file.data, 0o444) })
		if err != nil {
			return err
		}
	}
	if err := f.effect(func() error { return syncTree(dir) }); err != nil {
		return err
	}
	err = f.effect(func() error { return os.Rename(dir, f.at(f.name)) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.effect(func() error { return host.SyncDir(f.at()) })
}
