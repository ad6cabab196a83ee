package badrelease

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// The names in a release, as package release writes them. Opening what was made shows that
// they are the same.
const (
	indexFile     = "index.json"
	manifestFile  = "release.json"
	layoutFile    = "oci-layout"
	unfinished    = ".part"
	nameOf        = "internal.holdfast.image"
	manifestOf    = "internal.holdfast.release.json"
	containerdRef = "io.containerd.image.name"
	ociRef        = "org.opencontainers.image.ref.name"
)

// Copy makes a copy of a release. Both have the same files on the disk, where that is one.
func Copy(from, to string) error {
	return place(to, func(part string) error { return copied(from, part) })
}

// Make makes a bad release in a folder out of a good one. program is what the bad program is.
// It replaces a release that lies in the folder.
func Make(k Kind, from, to string, program []byte) error {
	err := place(to, func(part string) error {
		if err := copied(from, part); err != nil {
			return err
		}
		e, err := open(part)
		if err != nil {
			return err
		}
		return e.make(k, program)
	})
	if err != nil {
		return fmt.Errorf("make a release whose %s is bad: %w", k.Name, err)
	}
	return verify(to)
}

// verify reads every byte, as a host does.
func verify(dir string) error {
	store, err := release.Open(dir)
	if err != nil {
		return err
	}
	return store.Verify()
}

// place has a folder made beside its name, and gives it the name once it is whole.
func place(to string, write func(part string) error) error {
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		if _, err := release.Open(to); err != nil {
			return fmt.Errorf("%s is not empty, and is no release: name another folder", to)
		}
	}
	part := to + unfinished
	err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)) // #nosec G301 -- a release is for everybody
	if err == nil {
		err = write(part)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return errors.Join(os.RemoveAll(to), os.Rename(part, to))
}

// copied gives the blobs of a release second names, and copies the few other files.
func copied(from, to string) error {
	if err := os.MkdirAll(blob(to, ""), 0o755); err != nil { // #nosec G301 -- a release is for everybody
		return err
	}
	blobs, err := os.ReadDir(blob(from, ""))
	if err != nil {
		return err
	}
	for _, b := range blobs {
		if err := linked(blob(from, b.Name()), blob(to, b.Name())); err != nil {
			return err
		}
	}
	for _, name := range []string{layoutFile, manifestFile, indexFile} {
		data, err := os.ReadFile(filepath.Join(from, name)) // #nosec G304 -- a test's own folder
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil { // #nosec G306 -- a release is for everybody
			return err
		}
	}
	return nil
}

func linked(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from) // #nosec G304 -- a test's own folder
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o444) // #nosec G306 -- as all blobs
}

func blob(dir, name string) string { return filepath.Join(dir, "blobs", "sha256", name) }

// edit is a release that is being changed where it lies.
type edit struct {
	dir      string
	index    v1.IndexManifest
	manifest release.Manifest
}

func open(dir string) (*edit, error) {
	raw, err := os.ReadFile(filepath.Join(dir, indexFile)) // #nosec G304 -- a test's own folder
	if err != nil {
		return nil, err
	}
	e := &edit{dir: dir}
	if err := json.Unmarshal(raw, &e.index); err != nil {
		return nil, err
	}
	return e, json.Unmarshal([]byte(e.index.Annotations[manifestOf]), &e.manifest)
}

func (e *edit) make(k Kind, program []byte) error {
	tags := map[string]string{}
	for _, i := range e.manifest.Images {
		tags[i.Name] = i.Ref[strings.LastIndexByte(i.Ref, ':')+1:]
	}
	p, err := planOf(k, e.manifest.Version, tags, program)
	if err != nil {
		return err
	}
	e.manifest.Version = p.version
	for i := range e.index.Manifests {
		if err := e.image(&e.index.Manifests[i], p); err != nil {
			return err
		}
	}
	return errors.Join(e.write(), e.forget())
}

// image changes one image, if the plan says so.
func (e *edit) image(d *v1.Descriptor, p plan) error {
	name := d.Annotations[nameOf]
	if tag := p.tags[name]; tag != "" {
		ref := payload.Registry + "/" + name + ":" + tag
		d.Annotations[containerdRef], d.Annotations[ociRef] = ref, ref
		e.about(name).Ref = ref
	}
	if len(p.files[name]) == 0 {
		return nil
	}
	if err := e.contents(d, p.files[name]); err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	return nil
}

// about returns what release.json says of an image.
func (e *edit) about(name string) *release.Image {
	for i := range e.manifest.Images {
		if e.manifest.Images[i].Name == name {
			return &e.manifest.Images[i]
		}
	}
	return &release.Image{} // Verify finds that
}

// contents changes files of an image: its layers, and all that names them.
func (e *edit) contents(d *v1.Descriptor, files map[string]change) error {
	var m v1.Manifest
	if err := e.read(d.Digest, &m); err != nil {
		return err
	}
	var config map[string]any
	if err := e.read(m.Config.Digest, &config); err != nil {
		return err
	}
	about := e.about(d.Annotations[nameOf])
	left := len(files)
	var layers []any
	about.Size = 0
	for i := range m.Layers {
		l, found, err := relayer(e.dir, m.Layers[i], files)
		if err != nil {
			return err
		}
		left -= len(found)
		m.Layers[i] = l
		layers = append(layers, l.Digest.String())
		about.Size += l.Size
		for j, f := range about.Files {
			if now, is := found[f.Path]; is {
				about.Files[j] = now
			}
		}
	}
	if left != 0 {
		return fmt.Errorf("%d of the files that are to change are not in it", left)
	}
	rootfs, is := config["rootfs"].(map[string]any)
	if !is {
		return errors.New("its configuration names no layers")
	}
	rootfs["diff_ids"] = layers
	var err error
	if m.Config.Digest, m.Config.Size, err = e.put(config); err != nil {
		return err
	}
	about.Size += m.Config.Size
	if d.Digest, d.Size, err = e.put(m); err != nil {
		return err
	}
	about.Digest = d.Digest.String()
	return nil
}

// read reads a blob of JSON.
func (e *edit) read(digest v1.Hash, into any) error {
	data, err := os.ReadFile(blob(e.dir, digest.Hex))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// put writes a blob of JSON.
func (e *edit) put(what any) (v1.Hash, int64, error) {
	data, err := json.Marshal(what)
	if err != nil {
		return v1.Hash{}, 0, err
	}
	h := hashOf(data)
	at := blob(e.dir, h.Hex)
	if _, err := os.Stat(at); err == nil { // it may be the file of the good release
		return h, int64(len(data)), nil
	}
	return h, int64(len(data)), os.WriteFile(at, data, 0o644) // #nosec G306 -- as all blobs
}

func hashOf(data []byte) v1.Hash {
	sum := sha256.Sum256(data)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// write writes the index, which has what release.json says in it, and release.json, which has
// the digest of the index besides.
func (e *edit) write() error {
	e.manifest.Digest = ""
	text, err := json.Marshal(e.manifest)
	if err != nil {
		return err
	}
	e.index.Annotations[manifestOf] = string(text)
	index, err := json.Marshal(e.index)
	if err != nil {
		return err
	}
	e.manifest.Digest = hashOf(index).String()
	about, err := json.MarshalIndent(e.manifest, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(e.dir, manifestFile), append(about, '\n'), 0o644), // #nosec G306 -- a release is for everybody
		os.WriteFile(filepath.Join(e.dir, indexFile), index, 0o644),                  // #nosec G306 -- a release is for everybody
	)
}

// forget removes the blobs that nothing names any more.
func (e *edit) forget() error {
	keep := map[string]bool{}
	for _, d := range e.index.Manifests {
		var m v1.Manifest
		if err := e.read(d.Digest, &m); err != nil {
			return err
		}
		keep[d.Digest.Hex], keep[m.Config.Digest.Hex] = true, true
		for _, l := range m.Layers {
			keep[l.Digest.Hex] = true
		}
	}
	return filepath.WalkDir(blob(e.dir, ""), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || keep[d.Name()] {
			return err
		}
		return os.Remove(path)
	})
}
