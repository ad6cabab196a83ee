package release

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// builtImage is an image that is ready for a layout.
type builtImage struct {
	spec     payload.ImageSpec
	layers   []layer
	packages []debPackage
	// config and manifest hold the bytes of the two blobs.
	config, manifest []byte
	ran              bool
}

// image builds the layers of an image: one of packages, if any, then one per
// component, so that a changed component changes one layer, and one of the extra
// files.
func (b *builder) image(ctx context.Context, spec payload.ImageSpec, done map[string]built) (builtImage, error) {
	img := builtImage{spec: spec}
	if len(spec.Packages) > 0 {
		l, packages, ran, err := b.packageLayer(ctx, spec)
		if err != nil {
			return img, err
		}
		img.layers, img.packages, img.ran = append(img.layers, l), packages, ran
	}
	for _, name := range componentsOf(spec) {
		l, ran, err := b.binaryLayer(ctx, spec, done[name])
		if err != nil {
			return img, fmt.Errorf("image %s: %w", spec.Name, err)
		}
		img.layers, img.ran = append(img.layers, l), img.ran || ran
	}
	if len(spec.Extra) > 0 {
		l, ran, err := b.extraLayer(ctx, spec)
		if err != nil {
			return img, fmt.Errorf("image %s: %w", spec.Name, err)
		}
		img.layers, img.ran = append(img.layers, l), img.ran || ran
	}
	return img, img.describe(b.tools)
}

// componentsOf returns the components of an image in the order of its files.
func componentsOf(spec payload.ImageSpec) []string {
	var names []string
	for _, f := range spec.Files {
		if !slices.Contains(names, f.Component) {
			names = append(names, f.Component)
		}
	}
	return names
}

// binaryLayer builds the layer with the files of one component.
func (b *builder) binaryLayer(ctx context.Context, spec payload.ImageSpec, c built) (layer, bool, error) {
	var files []File
	var entries []entry
	inputs := []any{"binaries", &files}
	for _, f := range spec.Files {
		if f.Component != c.Component.Name {
			continue
		}
		src, err := c.file(f.Binary)
		if err != nil {
			return layer{}, false, err
		}
		e := fileEntry(f.Path, c.binary(f.Binary), src.Size)
		if f.Setuid {
			e.mode |= fs.ModeSetuid
			inputs = append(inputs, "setuid "+f.Path)
		}
		files = append(files, File{Path: f.Path, Digest: src.Digest, Size: src.Size})
		entries = append(entries, e)
	}
	key, err := keyOf(inputs...)
	if err != nil {
		return layer{}, false, err
	}
	l, ran, err := b.layerStep(ctx, key, func(context.Context) ([]entry, []string, error) { return entries, nil, nil })
	l.Files = files
	return l, ran, err
}

// extraLayer builds the layer with the image's own files.
func (b *builder) extraLayer(ctx context.Context, spec payload.ImageSpec) (layer, bool, error) {
	key, err := keyOf("extra files", spec.Extra)
	if err != nil {
		return layer{}, false, err
	}
	return b.layerStep(ctx, key, func(context.Context) ([]entry, []string, error) {
		var entries []entry
		for _, f := range spec.Extra {
			if f.Link != "" {
				entries = append(entries, linkEntry(f.Path, f.Link))
			} else {
				entries = append(entries, dataEntry(f.Path, 0o644, f.Content))
			}
		}
		return entries, nil, nil
	})
}

// packageLayer builds the layer with the files of the distribution.
func (b *builder) packageLayer(ctx context.Context, spec payload.ImageSpec) (layer, []debPackage, bool, error) {
	packages, dir, err := b.packages(ctx, spec.Packages)
	if err != nil {
		return layer{}, nil, false, err
	}
	key, err := keyOf("packages with names", packages, spec.Keep, spec.Links)
	if err != nil {
		return layer{}, nil, false, err
	}
	l, ran, err := b.layerStep(ctx, key, func(ctx context.Context) ([]entry, []string, error) {
		return packageEntries(ctx, dir, packages, spec)
	})
	used := slices.DeleteFunc(packages, func(p debPackage) bool { return !slices.Contains(l.Packages, p.Name) })
	return l, used, ran, err
}

// describe creates the image's config and manifest.
func (img *builtImage) describe(t toolchain) error {
	config := v1.ConfigFile{
		Architecture: t.GOARCH, OS: t.GOOS,
		Config: v1.Config{
			Entrypoint: img.spec.Entrypoint, Cmd: img.spec.Cmd, User: img.spec.User,
			StopSignal: img.spec.StopSignal, Env: []string{"PATH=" + payload.SearchPath},
		},
		RootFS: v1.RootFS{Type: "layers"},
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	for _, l := range img.layers {
		h, err := v1.NewHash(l.Digest)
		if err != nil {
			return err
		}
		// Layers are stored uncompressed: a small host has no time to decompress, and
		// the digest equals the diff id.
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, h)
		manifest.Layers = append(manifest.Layers, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Size: l.Size, Digest: h})
	}
	var err error
	if img.config, err = marshalConfig(config); err != nil {
		return err
	}
	h, err := v1.NewHash(digestBytes(img.config))
	if err != nil {
		return err
	}
	manifest.Config = v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(img.config)), Digest: h}
	img.manifest, err = json.Marshal(manifest)
	return err
}

// marshalConfig omits the time of creation, which the type would write as the
// year 1.
func marshalConfig(c v1.ConfigFile) ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	delete(m, "created")
	return json.Marshal(m)
}

// descriptor returns the image's entry in the index.
func (img *builtImage) descriptor(t toolchain) (v1.Descriptor, error) {
	h, err := v1.NewHash(digestBytes(img.manifest))
	return v1.Descriptor{
		MediaType: types.OCIManifestSchema1, Size: int64(len(img.manifest)), Digest: h,
		Platform: &v1.Platform{OS: t.GOOS, Architecture: t.GOARCH},
		Annotations: map[string]string{
			annotationOCIRef: img.spec.Ref(), annotationRef: img.spec.Ref(), annotationImageName: img.spec.Name,
		},
	}, err
}

// summary returns the image's entry in release.json.
func (img *builtImage) summary() Image {
	out := Image{Name: img.spec.Name, Ref: img.spec.Ref(), Digest: digestBytes(img.manifest), Size: int64(len(img.config))}
	for _, l := range img.layers {
		out.Size += l.Size
		out.Files = append(out.Files, l.Files...)
	}
	for _, p := range img.packages {
		out.Packages = append(out.Packages, p.Name+"="+p.Version)
	}
	slices.SortFunc(out.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// packageComponents lists the packages of all images as components.
func packageComponents(images []builtImage) []Component {
	seen := map[string]Component{}
	for _, img := range images {
		for _, p := range img.packages {
			seen[p.Name] = Component{Name: p.Name, Version: p.Version, Source: p.Name + "=" + p.Version, Digest: p.Digest, Size: p.Size}
		}
	}
	out := make([]Component, 0, len(seen))
	for _, c := range seen {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Component) int { return strings.Compare(a.Name, b.Name) })
	return out
}
