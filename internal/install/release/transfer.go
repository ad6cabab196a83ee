package release

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Remote describes a registry and the way to reach it.
type Remote struct {
	// Ref is REGISTRY/REPOSITORY:TAG.
	Ref string
	// PlainHTTP allows a registry without TLS.
	PlainHTTP bool
	// CAFile holds certificates to trust in addition to the system's.
	CAFile string
	// Accept is called with the manifest before the release is pulled; nil accepts
	// everything.
	Accept func(Manifest) error
}

// tagOf returns the tag of a full reference.
func tagOf(ref string) string { return ref[strings.LastIndexByte(ref, ':')+1:] }

func (r Remote) reference() (name.Reference, error) {
	opts := []name.Option{name.StrictValidation}
	if r.PlainHTTP {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(r.Ref, opts...)
	if err != nil {
		return nil, fmt.Errorf("%q is not REGISTRY/REPOSITORY:TAG: %w", r.Ref, err)
	}
	return ref, nil
}

// options returns the options of one transfer. The credentials are those that
// container tools keep for this user.
func (r Remote) options(ctx context.Context) ([]remote.Option, error) {
	opts := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithJobs(2)}
	if r.CAFile == "" {
		return opts, nil
	}
	transport, err := transportWith(r.CAFile, nil)
	if err != nil {
		return nil, err
	}
	return append(opts, remote.WithTransport(transport)), nil
}

// poolWith returns the system's certificates and those of a file.
func poolWith(caFile string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	return pool, nil
}

// Push copies the release to a registry. It does not send blobs that the
// registry has already.
func (s *Store) Push(ctx context.Context, to Remote) error {
	ref, err := to.reference()
	if err != nil {
		return err
	}
	opts, err := to.options(ctx)
	if err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(s.dir)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, opts...); err != nil {
		return fmt.Errorf("push the release to %s: %w", to.Ref, err)
	}
	return nil
}

// Pull copies a release from a registry into dir and opens it. It keeps blobs
// that dir has already, so an interrupted pull continues where it was. The
// folder shows the new release only when that is complete.
func Pull(ctx context.Context, from Remote, dir string) (*Store, error) {
	raw, index, err := pullIndex(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("pull the release from %s: %w", from.Ref, err)
	}
	m, err := manifestOf(raw)
	if err != nil {
		return nil, fmt.Errorf("pull the release from %s: %w", from.Ref, err)
	}
	if from.Accept != nil {
		if err := from.Accept(m); err != nil {
			return nil, err
		}
	}
	keep := map[string]bool{}
	if err := pullImages(index, dir, keep); err != nil {
		return nil, fmt.Errorf("pull the release from %s: %w", from.Ref, err)
	}
	if _, err := writeIndex(dir, raw, m); err != nil {
		return nil, err
	}
	if err := removeOthers(dir, keep); err != nil {
		return nil, err
	}
	return Open(dir)
}

func pullIndex(ctx context.Context, from Remote) ([]byte, v1.ImageIndex, error) {
	ref, err := from.reference()
	if err != nil {
		return nil, nil, err
	}
	opts, err := from.options(ctx)
	if err != nil {
		return nil, nil, err
	}
	index, err := remote.Index(ref, opts...)
	if err != nil {
		return nil, nil, err
	}
	raw, err := index.RawManifest()
	return raw, index, err
}

func pullImages(index v1.ImageIndex, dir string, keep map[string]bool) error {
	list, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range list.Manifests {
		if d.MediaType != types.OCIManifestSchema1 {
			return fmt.Errorf("%s is a %s, which a release does not contain", d.Digest, d.MediaType)
		}
		img, err := index.Image(d.Digest)
		if err != nil {
			return err
		}
		if err := pullImage(img, dir, keep); err != nil {
			return fmt.Errorf("image %s: %w", d.Annotations[annotationImageName], err)
		}
	}
	return nil
}

func pullImage(img v1.Image, dir string, keep map[string]bool) error {
	manifest, err := img.RawManifest()
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	var m v1.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for i, l := range layers {
		r := refOf(m.Layers[i])
		if err := storeBlob(dir, r, keep, l.Compressed); err != nil {
			return err
		}
	}
	for _, data := range [][]byte{config, manifest} {
		r := blobRef{digest: digestBytes(data), size: int64(len(data))}
		open := func() (io.ReadCloser, error) { return dataEntry("", 0, data).open() }
		if err := storeBlob(dir, r, keep, open); err != nil {
			return err
		}
	}
	return nil
}

// storeBlob writes a blob under its name, unless it exists. The name appears
// only when the blob is complete and right.
func storeBlob(dir string, r blobRef, keep map[string]bool, open func() (io.ReadCloser, error)) error {
	path, err := blobPath(dir, r.digest)
	if err != nil {
		return err
	}
	keep[filepath.Base(path)] = true
	if info, err := os.Stat(path); err == nil && info.Size() == r.size {
		return nil
	}
	in, err := open()
	if err != nil {
		return err
	}
	want := File{Digest: r.digest, Size: r.size}
	return errors.Join(place(path, in, want, 0o444), in.Close())
}

func (s *Store) readBlob(r blobRef) ([]byte, error) {
	var out strings.Builder
	err := s.copyBlob(&out, r)
	return []byte(out.String()), err
}
