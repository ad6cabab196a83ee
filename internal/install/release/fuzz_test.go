package release

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// FuzzIndex opens a release with an arbitrary index.
func FuzzIndex(f *testing.F) {
	about, err := json.Marshal(Manifest{Images: []Image{{Name: "host", Files: []File{{Path: "/usr/bin/x", Digest: "sha256:00", Size: 1}}}}})
	if err != nil {
		f.Fatal(err)
	}
	index, err := json.Marshal(v1.IndexManifest{Annotations: map[string]string{annotationManifest: string(about)}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(index), `{}`, `[]`, `null`, `{"annotations":{"` + annotationManifest + `":"{"}}`, `{"manifests":[{"digest":"sha256:../../x","size":-1}]}`} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(filepath.Join(dir, indexFile), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if err != nil {
			return
		}
		_ = s.Verify() // there is nothing beside the index
		for _, d := range s.index.Manifests {
			if path, err := blobPath(dir, d.Digest.String()); err == nil && filepath.Dir(path) != filepath.Join(dir, "blobs", "sha256") {
				t.Errorf("a blob lies at %s", path)
			}
		}
		for _, img := range s.Manifest().Images {
			for _, file := range img.Files {
				if checkPaths([]File{file}) == nil && !strings.HasPrefix(filepath.Join("/root", file.Path), "/root/") {
					t.Errorf("%q leads out of the root", file.Path)
				}
			}
		}
	})
}

func tarOf(f *testing.F, headers ...tar.Header) []byte {
	f.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		data := []byte("data")
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(data))
		}
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			_, _ = w.Write(data)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return out.Bytes()
}

// FuzzLayer unpacks an arbitrary layer over a root: it may write only files
// that the manifest names, with the contents that it names.
func FuzzLayer(f *testing.F) {
	f.Add(tarOf(f, tar.Header{Name: "usr/bin/x", Typeflag: tar.TypeReg, Mode: 0o755}))
	f.Add(tarOf(f, tar.Header{Name: "../../usr/bin/x", Typeflag: tar.TypeReg}, tar.Header{Name: "usr/bin/x", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}))
	f.Add(tarOf(f, tar.Header{Name: "usr", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, tar.Header{Name: "usr/bin/x", Typeflag: tar.TypeReg}))
	f.Add([]byte("no tar"))
	want := File{Path: "/usr/bin/x", Digest: digestBytes([]byte("data")), Size: 4}
	f.Fuzz(func(t *testing.T, layer []byte) {
		dir, root := t.TempDir(), t.TempDir()
		s := &Store{dir: dir}
		digest := digestBytes(layer)
		path, err := blobPath(dir, digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, layer, 0o600); err != nil {
			t.Fatal(err)
		}
		hash, err := v1.NewHash(digest)
		if err != nil {
			t.Fatal(err)
		}
		put := func(f File, r io.Reader) error { return place(filepath.Join(root, f.Path), r, f, hostFileMode) }
		_, _ = s.extractLayer(t.Context(), v1.Descriptor{Digest: hash}, map[string]File{want.Path: want}, put)
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if path != filepath.Join(root, want.Path) || !d.Type().IsRegular() || err != nil || digestBytes(data) != want.Digest {
				t.Errorf("%s was written: %v, %v", path, d.Type(), err)
			}
			return nil
		})
	})
}

// FuzzTree reads an arbitrary package of a distribution, and picks the files
// that a program needs.
func FuzzTree(f *testing.F) {
	f.Add(tarOf(f, tar.Header{Name: "./usr/bin/x", Typeflag: tar.TypeReg}, tar.Header{Name: "./bin/y", Typeflag: tar.TypeSymlink, Linkname: "../usr/bin/x"}))
	f.Add(tarOf(f, tar.Header{Name: "usr/bin/a", Typeflag: tar.TypeSymlink, Linkname: "b"}, tar.Header{Name: "usr/bin/b", Typeflag: tar.TypeSymlink, Linkname: "a"}))
	f.Add(tarOf(f, tar.Header{Name: "usr/bin/a", Typeflag: tar.TypeLink, Linkname: "usr/bin/none"}))
	f.Fuzz(func(t *testing.T, content []byte) {
		tr := &tree{files: map[string]treeFile{}}
		if tr.add("x", bytes.NewReader(content)) != nil {
			return
		}
		for name := range tr.files {
			if !strings.HasPrefix(name, "/") || strings.Contains(name, "/../") {
				t.Errorf("%q is a file of the image", name)
			}
		}
		_, _, _ = tr.pick([]string{"/usr/bin/*", "/*"})
	})
}

// FuzzSources parses an arbitrary list of repositories of the build machine.
func FuzzSources(f *testing.F) {
	f.Add("deb [signed-by=/k arch=amd64] http://deb.example/debian bookworm main\n")
	f.Add("Types: deb\nURIs: x\nSuites: bookworm bookworm-updates\nEnabled: no\n\nSuites: bookworm\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, stanza := range append(fromLines(text, "bookworm"), fromStanzas(text, "bookworm")...) {
			if !strings.Contains(strings.ToLower(stanza), "suites:") || strings.Contains(stanza, "\n\n") {
				t.Errorf("%q became %q", text, stanza)
			}
		}
	})
}

// endless is a file that claims to be short and is not, like one of holes.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAFileLongerThanTheReleaseSaysFillsNoDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := place(path, endless{}, File{Path: "/x", Digest: digestBytes([]byte("data")), Size: 4}, hostFileMode); err == nil {
		t.Error("it was unpacked")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("it is there")
	}
}
