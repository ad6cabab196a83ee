package badrelease

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
)

const (
	program = "it breaks"
	version = "v0.1.0"
)

// contents are the files of each image of a small release; its programs have the names of
// images built in as real ones do, one text after the other.
func contents() map[string]map[string]string {
	built := "release.holdfast.internal" + payload.TraefikVersion + payload.FlannelVersion + "standin" + version + "hidden"
	const bin = "/usr/local/bin/"
	return map[string]map[string]string{
		"etcd":                    {bin + "etcd": "etcd", bin + "etcdctl": "etcdctl"},
		"kube-apiserver":          {bin + "kube-apiserver": "API server"},
		"keepalived":              {"/usr/sbin/keepalived": "keepalived"},
		payload.ImageFlannel:      {bin + "flanneld": "flanneld", "/usr/sbin/nft": "nft"},
		payload.ImageRouter:       {bin + "traefik": "traefik"},
		operatorImage:             {bin + "holdfast-operator": "operator " + built},
		payload.HostImage:         {bin + "holdfast-agent": "agent " + built, bin + "holdfast": "holdfast", bin + "etcd": "etcd", bin + "kubelet": "kubelet", bin + "containerd": "containerd", payload.FenceAgent: "fence", payload.ResourceAgent: "keeper " + version},
		payload.ImageCoreDNS:      {bin + "coredns": "CoreDNS"},
		"kube-controller-manager": {bin + "kube-controller-manager": "controllers"},
	}
}

func tagOf(image string) string {
	switch image {
	case "keepalived", operatorImage, payload.HostImage:
		return version
	}
	return payload.ImageTag(image)
}

// good writes a small release, and returns its folder.
func good(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "good")
	if err := os.MkdirAll(blob(dir, ""), 0o755); err != nil {
		t.Fatal(err)
	}
	e := &edit{dir: dir, index: v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Annotations: map[string]string{}}}
	e.manifest = release.Manifest{Version: version, Platform: "linux/amd64", GoVersion: "go1"}
	all := contents()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e.add(t, name, all[name])
	}
	check(t, e.write())
	check(t, os.WriteFile(filepath.Join(dir, layoutFile), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
	check(t, verify(dir))
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// add adds an image of one layer.
func (e *edit) add(t *testing.T, name string, files map[string]string) {
	t.Helper()
	var layer bytes.Buffer
	tw := tar.NewWriter(&layer)
	about := release.Image{Name: name, Ref: payload.Registry + "/" + name + ":" + tagOf(name)}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		text := files[path]
		check(t, tw.WriteHeader(&tar.Header{Name: path[1:], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(text)), Format: tar.FormatUSTAR}))
		_, err := io.WriteString(tw, text)
		check(t, err)
		about.Files = append(about.Files, release.File{Path: path, Digest: hashOf([]byte(text)).String(), Size: int64(len(text))})
	}
	check(t, tw.Close())
	l := v1.Descriptor{MediaType: types.OCIUncompressedLayer, Digest: hashOf(layer.Bytes()), Size: int64(layer.Len())}
	check(t, os.WriteFile(blob(e.dir, l.Digest.Hex), layer.Bytes(), 0o444))
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: []v1.Descriptor{l}, Config: v1.Descriptor{MediaType: types.OCIConfigJSON}}
	var err error
	config := map[string]any{"os": "linux", "config": map[string]any{"User": "0"}, "rootfs": map[string]any{"type": "layers", "diff_ids": []any{l.Digest.String()}}}
	m.Config.Digest, m.Config.Size, err = e.put(config)
	check(t, err)
	d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Annotations: map[string]string{nameOf: name, containerdRef: about.Ref, ociRef: about.Ref}}
	d.Digest, d.Size, err = e.put(m)
	check(t, err)
	about.Digest, about.Size = d.Digest.String(), l.Size+m.Config.Size
	e.index.Manifests, e.manifest.Images = append(e.index.Manifests, d), append(e.manifest.Images, about)
}

// files returns the files that lie in the images of a release, as containers and hosts would
// have them.
func files(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	e, err := open(dir)
	check(t, err)
	out := map[string]map[string]string{}
	for _, d := range e.index.Manifests {
		var m v1.Manifest
		check(t, e.read(d.Digest, &m))
		var config struct {
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			} `json:"rootfs"`
			Config struct{ User string } `json:"config"`
		}
		check(t, e.read(m.Config.Digest, &config))
		if config.Config.User != "0" || len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != m.Layers[0].Digest.String() {
			t.Errorf("%s: the configuration is %+v, the layer %s", d.Annotations[nameOf], config, m.Layers[0].Digest)
		}
		data, err := os.ReadFile(blob(dir, m.Layers[0].Digest.Hex))
		check(t, err)
		in := map[string]string{}
		for tr := tar.NewReader(bytes.NewReader(data)); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			check(t, err)
			text, err := io.ReadAll(tr)
			check(t, err)
			if h.Mode != 0o755 {
				t.Errorf("%s has mode %o", h.Name, h.Mode)
			}
			in[pathIn(h)] = string(text)
		}
		out[d.Annotations[nameOf]] = in
	}
	return out
}

func images(t *testing.T, dir string) map[string]release.Image {
	t.Helper()
	store, err := release.Open(dir)
	check(t, err)
	out := map[string]release.Image{}
	for _, i := range store.Manifest().Images {
		out[i.Name] = i
	}
	return out
}

// TestABadReleaseHasOneOtherProgramAndNoNameWithTwoContents makes each kind. A host that has
// the good release takes it: it is whole by its own digests, and names no image as the good
// one does that has other contents.
func TestABadReleaseHasOneOtherProgramAndNoNameWithTwoContents(t *testing.T) {
	from := good(t)
	was, before := files(t, from), images(t, from)
	seen, contentsOf := map[string]string{}, map[string]string{}
	for _, i := range before {
		contentsOf[i.Ref] = i.Digest
	}
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), k.Name)
			check(t, Make(k, from, to, []byte(program)))
			store, err := release.Open(to)
			check(t, err)
			if other := seen[store.Manifest().Digest]; other != "" {
				t.Errorf("it is the release of %s", other)
			}
			seen[store.Manifest().Digest] = k.Name
			now, after := files(t, to), images(t, to)
			for name, in := range was {
				for path, text := range in {
					switch got := now[name][path]; {
					case name == k.image && path == k.path:
						if got != program {
							t.Errorf("%s of %s is %q", path, name, got)
						}
					case !slices.Contains(k.renames, name) && got != text:
						t.Errorf("%s of %s is %q, was %q", path, name, got, text)
					case len(got) != len(text):
						t.Errorf("%s of %s is %q, was %q: another length", path, name, got, text)
					}
				}
				now := after[name]
				if had := contentsOf[now.Ref]; had != "" && had != now.Digest && name != payload.HostImage {
					t.Errorf("%s has two contents, %s and %s", now.Ref, had, now.Digest)
				}
				contentsOf[now.Ref] = now.Digest
			}
			leftover(t, to)
		})
	}
	check(t, verify(from))
	if got := files(t, from); got["etcd"]["/usr/local/bin/etcd"] != "etcd" {
		t.Errorf("the good release has changed: %v", got)
	}
}

// leftover fails the test if a blob lies there that nothing names.
func leftover(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(blob(dir, ""))
	check(t, err)
	if want := 3 * len(contents()); len(entries) != want {
		t.Errorf("%d blobs, want %d", len(entries), want)
	}
}

func marked(tag string) string { return Kind{mark: "x"}.other(tag) }

// TestWhoMakesPodsOfABadImageAsksForItByItsName: the agent brings the pod network, and the
// operator makes routers; both have the names built in.
func TestWhoMakesPodsOfABadImageAsksForItByItsName(t *testing.T) {
	from := good(t)
	for _, tt := range []struct {
		kind, in, path string
		has, not       []string
	}{
		{Network, payload.HostImage, "/usr/local/bin/holdfast-agent", []string{marked(payload.FlannelVersion), payload.TraefikVersion, version}, []string{payload.FlannelVersion}},
		{Network, operatorImage, "/usr/local/bin/holdfast-operator", []string{version}, []string{marked(payload.FlannelVersion)}},
		{Routers, payload.HostImage, "/usr/local/bin/holdfast-agent", []string{marked(payload.TraefikVersion), next(version), payload.FlannelVersion}, []string{payload.TraefikVersion, version}},
		{Routers, operatorImage, "/usr/local/bin/holdfast-operator", []string{marked(payload.TraefikVersion), next(version)}, []string{payload.TraefikVersion, version}},
		{Routers, payload.HostImage, payload.ResourceAgent, []string{next(version)}, []string{version}},
	} {
		k, err := Named(tt.kind)
		check(t, err)
		to := filepath.Join(t.TempDir(), "bad")
		check(t, Make(k, from, to, []byte(program)))
		got := files(t, to)[tt.in][tt.path]
		for _, text := range tt.has {
			if !strings.Contains(got, text) {
				t.Errorf("%s: %s of %s has no %q: %q", tt.kind, tt.path, tt.in, text, got)
			}
		}
		for _, text := range tt.not {
			if strings.Contains(got, text) {
				t.Errorf("%s: %s of %s still has %q: %q", tt.kind, tt.path, tt.in, text, got)
			}
		}
		if tt.kind == Routers {
			store, err := release.Open(to)
			check(t, err)
			operator, _ := store.Manifest().Image(operatorImage)
			keepalived, _ := store.Manifest().Image("keepalived")
			if store.Manifest().Version != next(version) || !strings.HasSuffix(operator.Ref, ":"+next(version)) || !strings.HasSuffix(keepalived.Ref, ":"+next(version)) {
				t.Errorf("version %s, operator %s, keepalived %s", store.Manifest().Version, operator.Ref, keepalived.Ref)
			}
		}
	}
}

func TestAProgramThatNamesImagesOtherwiseIsNotTakenForChanged(t *testing.T) {
	for _, path := range builds {
		if _, err := renamed(path, [][2]string{{"v1.2.3", "v1.2.x"}})([]byte("v1.2.4")); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := renamed("/usr/local/bin/holdfast", [][2]string{{"v1.2.3", "v1.2.x"}})([]byte("v1.2.4")); err != nil {
		t.Error(err)
	}
	if _, err := renamed("/usr/local/bin/holdfast", [][2]string{{"v1.2.3", "v1.2.30"}})([]byte("v1.2.3")); err == nil {
		t.Error("a longer text was written over what comes after it")
	}
}

func TestAFolderThatIsNoReleaseIsLeftAlone(t *testing.T) {
	from, to := good(t), t.TempDir()
	mine := filepath.Join(to, "mine")
	check(t, os.WriteFile(mine, nil, 0o600))
	if err := Copy(from, to); err == nil || !strings.Contains(err.Error(), "name another folder") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
	empty := t.TempDir()
	for range 2 { // the second time over a release
		check(t, Copy(from, empty))
		check(t, verify(empty))
	}
	twice := filepath.Join(t.TempDir(), "twice")
	check(t, Make(Kinds()[0], from, twice, []byte(program)))
	if err := Make(Kinds()[0], twice, filepath.Join(t.TempDir(), "bad"), []byte(program)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a bad release was made of a bad one: %v", err)
	}
	if _, err := Named("kernel"); err == nil || !strings.Contains(err.Error(), Etcd+", "+APIServer) {
		t.Errorf("%v", err)
	}
}

// TestTheNamesAreThoseOfThisRelease compares what is written here with what a build takes.
func TestTheNamesAreThoseOfThisRelease(t *testing.T) {
	tags := map[string]string{}
	for _, spec := range payload.Images() {
		tags[spec.Name] = spec.Tag
	}
	for _, k := range Kinds() {
		p, err := planOf(k, payload.Version, tags, nil)
		check(t, err)
		i := slices.IndexFunc(payload.Images(), func(s payload.ImageSpec) bool {
			return s.Name == k.image && slices.ContainsFunc(s.Files, func(f payload.ImageFile) bool { return f.Path == k.path })
		})
		if i < 0 {
			t.Errorf("%s: no image %s has %s", k.Name, k.image, k.path)
		}
		for image, tag := range p.tags {
			if tags[image] == tag || len(tags[image]) != len(tag) {
				t.Errorf("%s: the tag of %s is %q, was %q", k.Name, image, tag, tags[image])
			}
		}
	}
	for image, file := range map[string]string{operatorImage: builds[1], payload.HostImage: builds[0]} {
		if own := ownPrograms(image); !slices.Contains(own, file) {
			t.Errorf("%s has %q of ours", image, own)
		}
	}
	raw, err := json.Marshal(Kinds())
	if err != nil || bytes.Count(raw, []byte(`"Name"`)) != 7 {
		t.Errorf("%s, %v", raw, err)
	}
}
