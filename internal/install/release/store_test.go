package release

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/holdfast/holdfast/internal/model/payload"
)

func TestEveryImageIsAValidOCIImageWithItsName(t *testing.T) {
	s := testStore(t)
	index, err := layout.ImageIndexFromPath(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range s.Manifest().Images {
		h, err := v1.NewHash(want.Digest)
		if err != nil {
			t.Fatal(err)
		}
		img, err := index.Image(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(img, validate.Fast); err != nil {
			t.Errorf("%s: %v", want.Ref, err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		m, err := img.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range m.Layers { // not compressed: both digests are equal
			if l.Digest != config.RootFS.DiffIDs[i] || l.MediaType != types.OCIUncompressedLayer {
				t.Errorf("%s: layer %d is %s %s, the config says %s", want.Ref, i, l.MediaType, l.Digest, config.RootFS.DiffIDs[i])
			}
		}
	}
	for _, d := range s.index.Manifests {
		if !strings.HasPrefix(d.Annotations[annotationRef], payload.Registry+"/") || d.Annotations[annotationOCIRef] != d.Annotations[annotationRef] {
			t.Errorf("annotations %v", d.Annotations)
		}
	}
}

func TestLayersDoNotTellWhenOrByWhomTheyWereMade(t *testing.T) {
	s := testStore(t)
	d, err := s.image(payload.HostImage)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.imageManifest(d)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range m.Layers {
		data, err := s.readBlob(refOf(l))
		if err != nil {
			t.Fatal(err)
		}
		tr := tar.NewReader(bytes.NewReader(data))
		for h, err := tr.Next(); err == nil; h, err = tr.Next() {
			names = append(names, h.Name)
			if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
				t.Errorf("%s: %v, %d:%d %q", h.Name, h.ModTime, h.Uid, h.Gid, h.Uname)
			}
		}
	}
	want := []string{"usr/", "usr/local/", "usr/local/bin/", "usr/local/bin/alphad", "opt/", "opt/two", "usr/", "usr/local/", "usr/local/bin/", "usr/local/bin/one"}
	if !slices.Equal(names, want) {
		t.Errorf("entries %q, want %q", names, want)
	}
}

func TestTheManifestSaysWhereEverythingCameFrom(t *testing.T) {
	m := testStore(t).Manifest()
	got := map[string]string{}
	for _, c := range m.Components {
		got[c.Name] = c.Source
		if c.Size == 0 || c.Digest == "" || len(c.Files) == 0 {
			t.Errorf("component %s is incomplete: %+v", c.Name, c)
		}
	}
	want := map[string]string{"alpha": "example.test/alpha@v1.0.0", "beta": "example.test/beta@v2.0.0"}
	if !maps.Equal(got, want) {
		t.Errorf("sources %v, want %v", got, want)
	}
}

func TestVerifyNamesEveryDamage(t *testing.T) {
	s := testStore(t)
	refs, err := s.blobsOf(s.index.Manifests)
	if err != nil {
		t.Fatal(err)
	}
	manifests := map[string]bool{}
	for _, d := range s.index.Manifests {
		manifests[d.Digest.String()] = true
	}
	refs = slices.DeleteFunc(refs, func(r blobRef) bool { return manifests[r.digest] })
	lost, _ := blobPath(s.dir, refs[0].digest)
	flipped, _ := blobPath(s.dir, refs[1].digest)
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	damage(t, flipped)
	write(t, filepath.Join(s.dir, manifestFile), "{}")
	err = s.Verify()
	for _, want := range []string{lost, flipped, manifestFile} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

// TestAFieldOfALaterReleaseDamagesNothing in the file that people read.
func TestAFieldOfALaterReleaseDamagesNothing(t *testing.T) {
	s := testStore(t)
	path := filepath.Join(s.dir, manifestFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Replace(string(data), "{", `{"later": ["field"],`, 1))
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	write(t, path, strings.Replace(string(data), `"version": "`, `"version": "other`, 1))
	if err := s.Verify(); err == nil || !strings.Contains(err.Error(), "does not belong to") {
		t.Errorf("another version is taken for the release's: %v", err)
	}
}

// damage changes one byte of a file that the cache may share.
func damage(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, string(data))
}

func TestOpenRefusesWhatIsNoRelease(t *testing.T) {
	empty, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, indexFile), `{"schemaVersion":2,"manifests":[]}`)
	for dir, want := range map[string]string{empty: "holdfast release build", other: "not of a Holdfast release"} {
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func untar(t *testing.T, r io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	tr := tar.NewReader(r)
	for h, err := tr.Next(); err == nil; h, err = tr.Next() {
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, h.Name), string(data))
	}
	return dir
}

func TestAnImageArchiveIsALayoutOfJustThoseImages(t *testing.T) {
	s := testStore(t)
	tests := []struct{ ask, want []string }{
		{nil, []string{"alpha", "beta"}}, // all except the host's
		{[]string{"beta"}, []string{"beta"}},
		{[]string{payload.HostImage}, []string{payload.HostImage}},
	}
	for _, test := range tests {
		var archive bytes.Buffer
		if err := s.WriteImageArchive(&archive, test.ask...); err != nil {
			t.Fatal(err)
		}
		index, err := layout.ImageIndexFromPath(untar(t, &archive))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index, validate.Fast); err != nil {
			t.Error(err)
		}
		m, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range m.Manifests {
			got = append(got, d.Annotations[annotationImageName])
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("asked for %q: got %q, want %q", test.ask, got, test.want)
		}
	}
	if err := s.WriteImageArchive(io.Discard, "nope"); err == nil || !strings.Contains(err.Error(), `no image "nope"`) {
		t.Errorf("error %v", err)
	}
}

func TestAReleaseWithoutEtcdGivesPodmanNone(t *testing.T) {
	s := testStore(t)
	err := s.GiveEtcd(t.Context(), func(context.Context, string, func(io.Writer) error) error {
		t.Error("podman is given an image")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "has no etcd") {
		t.Errorf("error %v", err)
	}
}

func TestAnArchiveOfADamagedReleaseFails(t *testing.T) {
	s := testStore(t)
	d, _ := s.image("alpha")
	m, err := s.imageManifest(d)
	if err != nil {
		t.Fatal(err)
	}
	path, _ := blobPath(s.dir, m.Layers[0].Digest.String())
	damage(t, path)
	if err := s.WriteImageArchive(io.Discard, "alpha"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error %v", err)
	}
}

func serveTest(t *testing.T, s *Store) *httptest.Server {
	t.Helper()
	h, err := s.Handler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

func TestTheRegistryRefusesEveryWrite(t *testing.T) {
	server := serveTest(t, testStore(t))
	for _, method := range []string{"PUT", "POST", "PATCH", "DELETE"} {
		for _, path := range []string{"/v2/alpha/manifests/v1", "/v2/alpha/blobs/uploads/", "/v2/", "/"} {
			req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %s", method, path, resp.Status)
			}
		}
	}
}

func TestTheRegistryAnswersWhatContainerRuntimesAsk(t *testing.T) {
	s := testStore(t)
	server := serveTest(t, s)
	img, _ := s.Manifest().Image("alpha")
	d, _ := s.image("alpha")
	m, err := s.imageManifest(d)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/v2/":                              200,
		"/v2/alpha/manifests/v1":            200,
		"/v2/alpha/manifests/" + img.Digest: 200,
		"/v2/alpha/blobs/" + m.Layers[0].Digest.String():               200,
		"/v2/alpha/blobs/sha256:" + strings.Repeat("0", 64):            404,
		"/v2/alpha/manifests/v9":                                       404,
		"/v2/" + Repository + "/manifests/" + s.Manifest().Version:     200,
		"/v2/alpha/blobs/sha256:..%2f..%2f..%2fetc%2fpasswd":           404,
		"/v2/" + Repository + "/manifests/" + s.Manifest().Digest:      200,
		"/v2/alpha/blobs/" + strings.ToUpper(m.Config.Digest.String()): 400,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s: %s, want %d", path, resp.Status, want)
		}
	}
}
