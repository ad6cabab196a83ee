package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// Shelf is the folder of a host with the releases that it fetched, each in the OCI
// layout. A folder that is named by the digits of a digest was compared with that
// digest, blob by blob, before it got its name. One that is fetched ends in ".part";
// what lies in it whole is not fetched again, also after a power cut.
type Shelf struct {
	// Root is the host's root, "/" except in tests.
	Root string
	// Line is how many bytes must stay free on the disk of the folder.
	Line uint64
	// free returns how many bytes may still be written to the disk of a folder.
	free func(dir string) (uint64, error)
	// effect carries out one change of the disk.
	effect func(do func() error) error
	// chunk is how many bytes are written at once.
	chunk int
}

// Chunks are small enough that few bytes are lost by a cut, and that a fetch makes
// the disk of etcd wait for no more than syncAfter.
const (
	chunkSize = 1 << 20
	syncAfter = 16 << 20
)

// NewShelf returns the folder of a host. Line is as in Shelf.
func NewShelf(root string, line uint64) Shelf {
	return Shelf{Root: root, Line: line, free: host.FreeSpace, effect: func(do func() error) error { return do() }, chunk: chunkSize}
}

func (s Shelf) at(names ...string) string {
	return filepath.Join(append([]string{s.Root, payload.LayoutsDir}, names...)...)
}

// Digests lists the releases that were fetched whole, sorted.
func (s Shelf) Digests() ([]string, error) {
	entries, err := os.ReadDir(s.at())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if _, ok := digestHex("sha256:" + e.Name()); ok && e.IsDir() {
			out = append(out, "sha256:"+e.Name())
		}
	}
	return out, nil
}

// Installed returns the folders below root in which an installation leaves its release:
// it brought the release along, or pulled it.
func Installed(root string) []string {
	return []string{filepath.Join(root, payload.HostDir), filepath.Join(root, "/var/lib/holdfast/release")}
}

// Find opens a release on the shelf, or in one of the folders beside it. Without it the
// error is fs.ErrNotExist.
func (s Shelf) Find(digest string, beside []string) (*Store, error) {
	store, err := s.Open(digest)
	if !errors.Is(err, fs.ErrNotExist) {
		return store, err
	}
	for _, dir := range beside {
		if other, err := Open(dir); err == nil && other.Manifest().Digest == digest {
			return other, nil
		}
	}
	return nil, fmt.Errorf("it does not lie on this host: %w", fs.ErrNotExist)
}

// Open opens a release that was fetched whole. Without it the error is
// fs.ErrNotExist.
func (s Shelf) Open(digest string) (*Store, error) {
	hex, ok := digestHex(digest)
	if !ok {
		return nil, fmt.Errorf("%q is not the digest of a release", digest)
	}
	store, err := Open(s.at(hex))
	if err == nil && store.manifest.Digest != digest {
		err = fmt.Errorf("%s holds %s", s.at(hex), store.manifest.Digest)
	}
	return store, err
}

// Fetch brings a release to the shelf, unless it lies there, and opens it. For the
// index and for each blob the sources are asked in their order. The error names
// source and blob. said hears how many bytes lie there, of how many; it may be nil.
func (s Shelf) Fetch(ctx context.Context, digest string, from []Source, said func(have, all int64)) (*Store, error) {
	store, err := s.Open(digest)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return store, err
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	f := fetch{Shelf: s, name: strings.TrimPrefix(digest, "sha256:"), from: from, said: said}
	if err := f.run(ctx, digest); err != nil {
		return nil, fmt.Errorf("fetch release %s: %w", digest, err)
	}
	return s.Open(digest)
}

// lock keeps others from fetching until unlock is called.
func (s Shelf) lock() (unlock func(), err error) {
	if err := s.effect(func() error { return makeDir(s.at()) }); err != nil {
		return nil, err
	}
	dir, err := os.Open(s.at())
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("a release is fetched to this host already")
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", s.at(), err), dir.Close())
	}
	return func() { _ = dir.Close() }, nil // it was opened for the lock alone
}

// Damaged takes a release, of which Compare found a damage, off the shelf. The next
// Fetch keeps its sound blobs.
func (s Shelf) Damaged(digest string) error {
	store, err := s.Open(digest)
	if err != nil {
		return err
	}
	refs, err := store.blobsOf(store.index.Manifests)
	if err != nil { // an image's manifest is damaged: nobody knows the other blobs
		return s.Remove(digest)
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	name := strings.TrimPrefix(digest, "sha256:")
	err = s.effect(func() error {
		return errors.Join(os.RemoveAll(s.at(name+unfinished)), os.Rename(s.at(name), s.at(name+unfinished)), host.SyncDir(s.at()))
	})
	if err != nil {
		return err
	}
	store.dir = s.at(name + unfinished)
	for _, r := range refs {
		if store.verifyBlob(r) == nil {
			continue
		}
		path, err := blobPath(store.dir, r.digest)
		if err != nil {
			return err
		}
		if err := s.effect(func() error { return removeFile(path) }); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a release from the shelf, and what was fetched of it. One that is
// not there is no error. It does not look who needs it.
func (s Shelf) Remove(digest string) error {
	name, ok := digestHex(digest)
	if !ok {
		return fmt.Errorf("%q is not the digest of a release", digest)
	}
	if !host.Exists(s.at(name)) && !host.Exists(s.at(name+unfinished)) {
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.effect(func() error { return os.RemoveAll(s.at(name + unfinished)) }); err != nil {
		return err
	}
	err = s.effect(func() error { return os.Rename(s.at(name), s.at(name+unfinished)) })
	if errors.Is(err, fs.ErrNotExist) {
		return host.SyncDir(s.at())
	}
	if err != nil {
		return err
	}
	return s.effect(func() error { return os.RemoveAll(s.at(name + unfinished)) })
}

// Begun lists the releases of which something lies there, though not all, sorted.
func (s Shelf) Begun() ([]string, error) {
	found, err := filepath.Glob(s.at("*" + unfinished))
	var out []string
	for _, path := range found {
		if digest := "sha256:" + strings.TrimSuffix(filepath.Base(path), unfinished); !slices.Contains(out, digest) {
			if _, ok := digestHex(digest); ok {
				out = append(out, digest)
			}
		}
	}
	return out, err
}

// Compare reads every blob of a release and reports each that is missing or not as
// its digest says.
func (s *Store) Compare(ctx context.Context) error {
	if digestBytes(s.raw) != s.manifest.Digest {
		return fmt.Errorf("the index in %s is damaged", s.dir)
	}
	refs, err := s.blobsOf(s.index.Manifests)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range refs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		errs = append(errs, s.verifyBlob(r))
	}
	return errors.Join(errs...)
}

// Handler serves the releases of the shelf to a peer's Registry, as the repository
// Repository. Nobody can write by it, and nothing in a release is secret.
func (s Shelf) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v2/"+Repository+"/manifests/{digest}", func(w http.ResponseWriter, r *http.Request) {
		digest := r.PathValue("digest")
		kind := types.OCIManifestSchema1
		if hex, ok := digestHex(digest); ok && host.Exists(s.at(hex)) {
			w.Header().Set("Content-Type", string(types.OCIImageIndex))
			http.ServeFile(w, r, s.at(hex, indexFile))
			return
		}
		w.Header().Set("Content-Type", string(kind))
		s.serveBlob(w, r, digest)
	})
	mux.HandleFunc("GET /v2/"+Repository+"/blobs/{digest}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		s.serveBlob(w, r, r.PathValue("digest"))
	})
	return mux
}

func (s Shelf) serveBlob(w http.ResponseWriter, r *http.Request, digest string) {
	body, err := Folder(s.at()).Blob(r.Context(), Blob{Digest: digest}, 0)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer func() { _ = body.Close() }() // only read
	file, ok := body.(*os.File)
	if !ok {
		http.NotFound(w, r)
		return
	}
	info, err := file.Stat()
	if err != nil {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// indexOf reads the bytes of a release's index for this platform.
func indexOf(raw []byte, platform string) (v1.IndexManifest, Manifest, error) {
	var index v1.IndexManifest
	m, err := manifestOf(raw)
	if err == nil {
		err = json.Unmarshal(raw, &index)
	}
	if err != nil {
		return index, m, err
	}
	if m.Platform != platform {
		return index, m, fmt.Errorf("it is for %s, and this host is %s", m.Platform, platform)
	}
	for _, d := range index.Manifests {
		if d.MediaType != types.OCIManifestSchema1 {
			return index, m, fmt.Errorf("%s is a %s, which a release does not contain", d.Digest, d.MediaType)
		}
	}
	return index, m, nil
}
