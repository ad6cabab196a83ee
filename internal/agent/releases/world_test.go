package releases

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// oldRelease, newRelease, otherRelease and thirdRelease are folders with releases, which
// TestMain builds. otherRelease names images as newRelease does, with other contents.
var oldRelease, newRelease, otherRelease, thirdRelease string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "releases-")
	if err == nil {
		err = buildAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // below the folder for temporary files
	os.Exit(code)
}

func buildAll(dir string) error {
	for _, r := range []struct {
		to        *string
		name, tag string
	}{{&oldRelease, "old", "v1"}, {&newRelease, "new", "v2"}, {&otherRelease, "other", "v2"}, {&thirdRelease, "third", "v3"}} {
		root := filepath.Join(dir, r.name)
		for path, text := range map[string]string{
			"go.mod": "module example.test/root\n\ngo 1.26.0\n", "p/go.mod": "module example.test/p\n\ngo 1.26.0\n",
			"p/main.go": "package main\n\nfunc main() { println(\"" + r.name + "\") }\n",
		} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
				return err
			}
		}
		extra := func(name, tag, text string) payload.ImageSpec {
			return payload.ImageSpec{Name: name, Tag: tag, Extra: []payload.ExtraFile{{Path: "/text", Content: []byte(text)}}}
		}
		res, err := release.Build(context.Background(), release.Options{
			Root: root, Cache: filepath.Join(dir, "cache"),
			Components: []payload.Component{{
				Name: "p", Version: r.tag, Source: "example.test/p", Dir: "p", Binaries: []payload.Binary{{Name: "kubelet", Package: "."}},
			}},
			Images: []payload.ImageSpec{
				extra("pause", "v1", "the same"), extra("kube-proxy", r.tag, r.name), extra("etcd", r.tag, r.name),
				{Name: payload.HostImage, Tag: r.tag, Files: []payload.ImageFile{{Component: "p", Binary: "kubelet", Path: "/usr/local/bin/kubelet"}}},
			},
		})
		if err != nil {
			return err
		}
		*r.to = res.Output
	}
	return nil
}

func opened(t *testing.T, dir string) *release.Store {
	t.Helper()
	s, err := release.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// world is a host with its containerd and podman.
type world struct {
	*Fetcher
	t      *testing.T
	cut    powercut.Cut
	images map[string]Held
	podman map[string]bool
	// etcd is the image of which podman's container was made.
	etcd string
	// runs has the releases of which a program runs.
	runs map[string]bool
	from []release.Source
	said []State
	free uint64
	// asked counts the questions to containerd.
	asked int
}

// newWorld returns a host on which the old release was installed, and is current.
func newWorld(t *testing.T) *world {
	t.Helper()
	root := t.TempDir()
	w := &world{t: t, images: map[string]Held{}, podman: map[string]bool{}, runs: map[string]bool{}, from: []release.Source{release.Folder(newRelease)}, free: 1 << 40}
	h := Host{Root: root, Shelf: release.NewShelf(root, 0), Installed: []string{filepath.Join(root, "installed")}, ControlPlane: true, Images: w}
	w.Fetcher = &Fetcher{
		Host: h, Sources: func(annotation.Sources) []release.Source { return w.from },
		Place: func(ctx context.Context, s *release.Store) error {
			return w.cut.Effect(func() error { return s.Place(ctx, root) })
		},
		Remove: func(digest string) error { return w.cut.Effect(func() error { return w.remove(digest) }) },
		Kept:   h.kept, Free: func() (uint64, error) { return w.free, nil }, Say: func(s State) { w.said = append(w.said, s) },
		Etcd: func(_ context.Context, name string, write func(io.Writer) error) error {
			return w.cut.Effect(func() error { w.podman[name] = true; return write(io.Discard) })
		},
		Forget: func(_ context.Context, name string) error {
			if name == w.etcd {
				return fmt.Errorf("image %s is in use", name)
			}
			return w.cut.Effect(func() error { delete(w.podman, name); return nil })
		},
	}
	if err := os.CopyFS(h.Installed[0], os.DirFS(oldRelease)); err != nil {
		t.Fatal(err)
	}
	old := opened(t, oldRelease)
	if err := errors.Join(old.Place(t.Context(), root), release.Switch(root, old.Manifest().Digest)); err != nil {
		t.Fatal(err)
	}
	for _, i := range old.Manifest().Images {
		if i.Name != payload.HostImage {
			w.images[i.Ref] = Held{Digest: i.Digest, Pinned: true}
		}
	}
	return w
}

// remove is release.Remove without its look at processes, which a test may not see.
func (w *world) remove(digest string) error {
	kept, err := w.kept()
	switch {
	case err != nil:
		return err
	case slices.Contains(kept, digest):
		return errors.New("it is current or previous")
	case w.runs[digest]:
		return errors.New("its programs still run")
	}
	return os.RemoveAll(filepath.Join(w.Root, payload.ReleasesDir, strings.TrimPrefix(digest, "sha256:")))
}

func (w *world) List(context.Context) (map[string]Held, error) {
	w.asked++
	return maps.Clone(w.images), nil
}

// Import reads the names of an archive as containerd does.
func (w *world) Import(_ context.Context, archive io.Reader) error {
	return w.cut.Effect(func() error {
		for tr := tar.NewReader(archive); ; {
			head, err := tr.Next()
			if err != nil {
				return errors.Join(errors.New("there is no index"), err)
			}
			if head.Name != "index.json" {
				continue
			}
			var index v1.IndexManifest
			if err := json.NewDecoder(tr).Decode(&index); err != nil {
				return err
			}
			for _, d := range index.Manifests {
				w.images[d.Annotations["io.containerd.image.name"]] = Held{Digest: d.Digest.String()}
			}
			_, err = io.Copy(io.Discard, archive)
			return err
		}
	})
}

func (w *world) Pin(_ context.Context, name string, pinned bool) error {
	return w.cut.Effect(func() error {
		have, ok := w.images[name]
		if !ok {
			return fmt.Errorf("no image %s", name)
		}
		have.Pinned = pinned
		w.images[name] = have
		return nil
	})
}

// wants returns the request for releases.
func wants(t *testing.T, digests ...string) string {
	t.Helper()
	text, err := annotation.Encode(annotation.Fetch{Wanted: digests})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (w *world) whole() []string {
	w.t.Helper()
	got := w.Whole(w.t.Context())
	if !got.Known {
		w.t.Fatal("which releases are whole is unknown")
	}
	return got.Value
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return list
}

// only returns a folder that has no release.
func only(t *testing.T) release.Source { return release.Folder(t.TempDir()) }

func contains(text string, words ...string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}
