package install

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pushRelease serves a release without images and returns its reference.
func pushRelease(t *testing.T) (string, *httptest.Server) {
	t.Helper()
	return pushReleaseFor(t, ownPlatform)
}

func pushReleaseFor(t *testing.T, platform string) (string, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref := strings.TrimPrefix(server.URL, "http://") + "/holdfast/release"
	tag, err := name.NewTag(ref + ":" + payload.Version)
	if err != nil {
		t.Fatal(err)
	}
	image := mutate.IndexAddendum{Add: mutate.MediaType(empty.Image, types.OCIManifestSchema1)}
	index, ok := mutate.Annotations(mutate.AppendManifests(empty.Index, image), map[string]string{
		"internal.holdfast.release.json": `{"version":"` + payload.Version + `","platform":"` + platform + `"}`,
	}).(v1.ImageIndex)
	if !ok {
		t.Fatal("not an index")
	}
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref + "@" + digest.String(), server
}

func TestAHostPullsAReleaseOnceAndThenNeedsNoRegistry(t *testing.T) {
	ref, server := pushRelease(t)
	for _, form := range []string{ref, strings.Split(ref, "@")[0]} {
		r, said := newRun(t, state.RoleWorker)
		r.Site.Config.ReleaseRegistry = form
		r.start("open release")
		if err := r.openRelease(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.store.Manifest().Version != payload.Version || !strings.Contains(said.String(), "pulling ") {
			t.Errorf("%+v, log %q", r.store.Manifest(), said)
		}
		r.store = nil
		r.Site.Config.ReleaseRegistry = ""
		if err := r.openRelease(t.Context()); err != nil || r.store == nil {
			t.Errorf("a second time, without a registry: %v", err)
		}
	}
	server.Close()
}

func TestAReleaseThatTheHostBringsComesFirst(t *testing.T) {
	ref, _ := pushRelease(t)
	r, said := newRun(t, state.RoleWorker)
	r.Site.Config.ReleaseRegistry = ref
	r.start("open release")
	if err := r.openRelease(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.pulled, r.Release); err != nil {
		t.Fatal(err)
	}
	said.Reset()
	if err := r.openRelease(t.Context()); err != nil || r.store.Dir() != r.Release || said.Len() > 0 {
		t.Errorf("opened %s: %v, %s", r.store.Dir(), err, said)
	}
}

func TestAHostWithoutAReleaseSaysWhatToDo(t *testing.T) {
	r, _ := newRun(t, state.RoleWorker)
	r.start("open release")
	err := r.openRelease(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no release at "+r.Release) || !strings.Contains(err.Error(), "releaseRegistry") {
		t.Errorf("got %v", err)
	}
	if err := os.MkdirAll(r.Release, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Release, "index.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.openRelease(t.Context()); err == nil || strings.Contains(err.Error(), "releaseRegistry") {
		t.Errorf("a damaged release: %v", err)
	}
}

func TestAReferenceWithoutVersionMeansThisOne(t *testing.T) {
	for ref, want := range map[string]string{
		"r.test:5000/holdfast/release":                ":" + payload.Version,
		"r.test:5000/holdfast/release:1.0":            "",
		"r.test/holdfast/release@sha256:0123456789ab": "",
	} {
		if got := versioned(ref); got != ref+want {
			t.Errorf("%s: got %s", ref, got)
		}
	}
}

// The site was installed with one release, and runs another one since an upgrade.
func TestAHostThatJoinsGetsTheReleaseThatTheSiteRuns(t *testing.T) {
	first, _ := pushRelease(t)
	brought, _ := newRun(t, state.RoleWorker)
	brought.Site.Config.ReleaseRegistry = first
	brought.start("open release")
	if err := brought.openRelease(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, said := newRun(t, state.RoleWorker)
	r.Release = brought.pulled // an image brings the first release
	r.start("open release")
	const other = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	r.Site.Release = other
	err := r.openRelease(t.Context())
	if err == nil || r.store != nil || !strings.Contains(err.Error(), "the site runs the release "+other+", and the one in "+r.Release+" is "+payload.Version) {
		t.Errorf("without a registry: %v", err)
	}
	_, digest, _ := strings.Cut(first, "@")
	r.Site.Release = digest
	if err := r.openRelease(t.Context()); err != nil || r.store.Dir() != r.Release {
		t.Errorf("the one of the site: %v", err)
	}
	// The registry has the second one, which differs in what it says of itself.
	second, _ := pushReleaseFor(t, "")
	repository, digest, _ := strings.Cut(second, "@")
	r.Site.Config.ReleaseRegistry, r.Site.Release = repository+"@"+other, digest
	if err := r.openRelease(t.Context()); err != nil || r.store.Dir() != r.pulled || r.store.Manifest().Digest != digest {
		t.Errorf("from the registry: %v, %s", err, said)
	}
	r.Site.Config.ReleaseRegistry = ""
	if err := r.openRelease(t.Context()); err != nil || r.store.Dir() != r.pulled {
		t.Errorf("a second time, without a registry: %v", err)
	}
}

func TestWhereTheReleaseOfTheSiteIs(t *testing.T) {
	const running = "sha256:abcd"
	for ref, want := range map[string]string{
		"r.test:5000/holdfast/release":              "r.test:5000/holdfast/release@sha256:abcd",
		"r.test:5000/holdfast/release:1.0":          "r.test:5000/holdfast/release@sha256:abcd",
		"r.test/holdfast/release@sha256:0123":       "r.test/holdfast/release@sha256:abcd",
		"r.test:5000/holdfast/release:1.0@sha256:0": "r.test:5000/holdfast/release@sha256:abcd",
	} {
		if got := sites(ref, running); got != want {
			t.Errorf("%s: got %s", ref, got)
		}
		if got := sites(ref, ""); got != versioned(ref) {
			t.Errorf("%s, and nobody knows what runs: got %s", ref, got)
		}
	}
}
