package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Store is a release in a folder, opened for reading.
type Store struct {
	dir string
	// raw holds the bytes of index.json, from which the release's digest is
	// computed.
	raw      []byte
	index    v1.IndexManifest
	manifest Manifest
}

// Open opens the release in dir. It reads only the index; Verify checks the
// rest.
func Open(dir string) (*Store, error) {
	raw, err := os.ReadFile(filepath.Join(dir, indexFile))
	if err != nil {
		return nil, fmt.Errorf("no release in %s (make one with 'holdfast release build'): %w", dir, err)
	}
	s := &Store{dir: dir, raw: raw}
	if err := json.Unmarshal(raw, &s.index); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, indexFile), err)
	}
	if s.manifest, err = manifestOf(raw); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, indexFile), err)
	}
	return s, nil
}

// manifestOf reads the manifest in an index.
func manifestOf(raw []byte) (Manifest, error) {
	var index v1.IndexManifest
	var m Manifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return m, err
	}
	about, ok := index.Annotations[annotationManifest]
	if !ok {
		return m, errors.New("an image index, but not of a Holdfast release")
	}
	if err := json.Unmarshal([]byte(about), &m); err != nil {
		return m, err
	}
	m.Digest = digestBytes(raw)
	return m, nil
}

// Manifest describes the contents of the release.
func (s *Store) Manifest() Manifest { return s.manifest }

// Dir returns the folder of the release.
func (s *Store) Dir() string { return s.dir }

// blobRef is a reference to a blob in the release.
type blobRef struct {
	digest string
	size   int64
}

func refOf(d v1.Descriptor) blobRef { return blobRef{digest: d.Digest.String(), size: d.Size} }

// image finds an image by name in the index.
func (s *Store) image(name string) (v1.Descriptor, error) {
	i := slices.IndexFunc(s.index.Manifests, func(d v1.Descriptor) bool {
		return d.Annotations[annotationImageName] == name
	})
	if i < 0 {
		return v1.Descriptor{}, fmt.Errorf("the release in %s has no image %q", s.dir, name)
	}
	return s.index.Manifests[i], nil
}

// imageManifest reads an image's manifest and checks its digest.
func (s *Store) imageManifest(d v1.Descriptor) (v1.Manifest, error) {
	var m v1.Manifest
	path, err := blobPath(s.dir, d.Digest.String())
	if err != nil {
		return m, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if digestBytes(data) != d.Digest.String() {
		return m, fmt.Errorf("%s is damaged", path)
	}
	return m, json.Unmarshal(data, &m)
}

// blobsOf lists the blobs of some images, each once, sorted by digest.
func (s *Store) blobsOf(images []v1.Descriptor) ([]blobRef, error) {
	var refs []blobRef
	for _, d := range images {
		m, err := s.imageManifest(d)
		if err != nil {
			return nil, err
		}
		refs = append(refs, refOf(d), refOf(m.Config))
		for _, l := range m.Layers {
			refs = append(refs, refOf(l))
		}
	}
	slices.SortFunc(refs, func(a, b blobRef) int { return cmp.Compare(a.digest, b.digest) })
	return slices.Compact(refs), nil
}

// Verify reads every byte of the release and reports everything that is missing
// or damaged.
func (s *Store) Verify() error {
	refs, err := s.blobsOf(s.index.Manifests)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range refs {
		errs = append(errs, s.verifyBlob(r))
	}
	errs = append(errs, s.verifyManifest())
	return errors.Join(errs...)
}

func (s *Store) verifyBlob(r blobRef) error {
	path, err := blobPath(s.dir, r.digest)
	if err != nil {
		return err
	}
	digest, size, err := digestFile(path)
	if err != nil {
		return err
	}
	if digest != r.digest || size != r.size {
		return fmt.Errorf("%s is damaged: %d bytes with %s", path, size, digest)
	}
	return nil
}

// verifyManifest compares release.json, which people read, with the index. A later
// release may have fields in both that this program does not know.
func (s *Store) verifyManifest() error {
	path := filepath.Join(s.dir, manifestFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var read Manifest
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	have, haveErr := formatManifest(read)
	want, wantErr := formatManifest(s.manifest)
	if err := errors.Join(haveErr, wantErr); err != nil {
		return err
	}
	if string(have) != string(want) {
		return fmt.Errorf("%s does not belong to %s", path, filepath.Join(s.dir, indexFile))
	}
	return nil
}

func formatManifest(m Manifest) ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}

// copyBlob copies a blob to w, and fails if the content does not match the
// name.
func (s *Store) copyBlob(w io.Writer, r blobRef) error {
	path, err := blobPath(s.dir, r.digest)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if n != r.size || digestOf(h) != r.digest {
		return fmt.Errorf("%s is damaged", path)
	}
	return nil
}
