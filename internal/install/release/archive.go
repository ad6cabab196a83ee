package release

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// GiveEtcd gives podman the release's image of etcd by ensure, which is podman.Ensure: on
// two control planes etcd has to start while there is neither a kubelet nor a registry.
func (s *Store) GiveEtcd(ctx context.Context, ensure func(ctx context.Context, ref string, write func(io.Writer) error) error) error {
	const name = "etcd"
	image, ok := s.manifest.Image(name)
	if !ok {
		return fmt.Errorf("release %s has no etcd", s.manifest.Digest)
	}
	return ensure(ctx, image.Ref, func(w io.Writer) error { return s.WriteImageArchive(w, name) })
}

// WriteImageArchive streams images as an OCI archive, which `ctr images import`
// and `podman load` read. Without names it streams all images except the
// host's. The images keep their names.
func (s *Store) WriteImageArchive(w io.Writer, names ...string) error {
	images, err := s.images(names)
	if err != nil {
		return err
	}
	refs, err := s.blobsOf(images)
	if err != nil {
		return err
	}
	index, err := json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: images,
	})
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for _, r := range refs {
		if err := s.archiveBlob(tw, r); err != nil {
			return fmt.Errorf("archive images: %w", err)
		}
	}
	for _, f := range []entry{dataEntry("/"+indexFile, 0o644, index), dataEntry("/"+layoutFile, 0o644, []byte(layoutVersion))} {
		if err := writeEntry(tw, f); err != nil {
			return fmt.Errorf("archive images: %w", err)
		}
	}
	return tw.Close()
}

// images finds images by name. Without names it returns those that run in
// containers.
func (s *Store) images(names []string) ([]v1.Descriptor, error) {
	var out []v1.Descriptor
	if len(names) == 0 {
		for _, d := range s.index.Manifests {
			if d.Annotations[annotationImageName] != payload.HostImage {
				out = append(out, d)
			}
		}
		return out, nil
	}
	for _, n := range names {
		d, err := s.image(n)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func (s *Store) archiveBlob(tw *tar.Writer, r blobRef) error {
	h, ok := digestHex(r.digest)
	if !ok {
		return fmt.Errorf("%q is not a digest", r.digest)
	}
	header := tar.Header{Typeflag: tar.TypeReg, Name: "blobs/sha256/" + h, Mode: 0o644, Size: r.size, ModTime: layerEpoch, Format: tar.FormatUSTAR}
	if err := tw.WriteHeader(&header); err != nil {
		return err
	}
	return s.copyBlob(tw, r)
}
