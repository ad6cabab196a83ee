package lab

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/config"
)

// pullingLab returns a lab whose hosts pull a release without images.
func pullingLab(t *testing.T, families ...Family) *Lab {
	t.Helper()
	dir := t.TempDir()
	index := `{"schemaVersion": 2, "manifests": [], "annotations": {"internal.holdfast.release.json": "{\"version\": \"1.0\"}"}}`
	if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := New(t.TempDir(), Options{
		Spec:    Spec{Name: realName + "r", ControlPlanes: 1, Families: families, Pull: true},
		Release: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// digest returns the digest of the lab's release.
func digest(t *testing.T, b *Lab) string {
	t.Helper()
	store, err := release.Open(b.Options.Release)
	if err != nil {
		t.Fatal(err)
	}
	return store.Manifest().Digest
}

func TestHostsThatPullAreToldTheGatewaysRegistryAndTheDigest(t *testing.T) {
	for _, tt := range []struct {
		families []Family
		gateway  string
	}{
		{[]Family{V4}, "10.98.0.1:5000"},
		{[]Family{V6}, "[fd98::1]:5000"},
		{[]Family{V4, V6}, "10.98.0.1:5000"},
		{[]Family{V6, V4}, "[fd98::1]:5000"},
	} {
		b := pullingLab(t, tt.families...)
		text, err := b.installConfig()
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if want := tt.gateway + "/holdfast/release:1.0@" + digest(t, b); c.ReleaseRegistry != want {
			t.Errorf("%v: hosts pull %s, want %s", tt.families, c.ReleaseRegistry, want)
		}
	}
}

func TestAReleaseIsEitherMountedOrPulled(t *testing.T) {
	b := pullingLab(t)
	mounted := func() bool {
		return slices.ContainsFunc(b.hostMounts(b.Layout.Hosts[0]), func(m string) bool { return strings.HasPrefix(m, b.Options.Release+":") })
	}
	if mounted() {
		t.Error("a host that is to pull its release brings it along")
	}
	b.Options.Spec.Pull, b.Layout.Spec.Pull = false, false
	text, err := b.installConfig()
	if err != nil || !mounted() || strings.Contains(string(text), "releaseRegistry") || b.Layout.registries() != nil {
		t.Errorf("a host that brings its release along is sent to a registry: %v\n%s", err, text)
	}
}

func TestALabThatPullsIsNotTheSameAsOneThatDoesNot(t *testing.T) {
	spec := Spec{Name: "site", ControlPlanes: 1}.WithDefaults()
	pull := spec
	pull.Pull = true
	if spec.String() == pull.String() {
		t.Errorf("both are %q", spec)
	}
	pull.Bare = true
	if err := pull.Validate(); err == nil || !strings.HasPrefix(err.Error(), "pull: ") {
		t.Errorf("bare hosts that pull a release: %v", err)
	}
}

func TestWithoutItsReleaseALabHasNoRegistryButADaemon(t *testing.T) {
	b := pullingLab(t)
	b.Options.Release = filepath.Join(b.Dir, "gone")
	var log strings.Builder
	d := &daemon{lab: b, log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := d.startRegistry(t.Context()); err != nil || d.registries != nil || !strings.Contains(log.String(), "no release in") {
		t.Errorf("%v, serves at %v, log %q", err, d.registries, log.String())
	}
}

func TestTheRegistryOfALabIsReadOnlyAndServesAgainAfterARestart(t *testing.T) {
	needLab(t)
	b := pullingLab(t, V4, V6)
	t.Cleanup(func() {
		if err := Down(context.Background(), filepath.Dir(b.Dir), b.Options.Spec.Name); err != nil {
			t.Error(err)
		}
	})
	if err := createNetwork(t.Context(), b.Layout); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		d := &daemon{lab: b, log: slog.New(slog.DiscardHandler)}
		if err := d.startRegistry(ctx); err != nil {
			t.Fatal(err)
		}
		for _, at := range d.registries {
			tryRegistry(t, b, at)
		}
		stop()
		for _, at := range d.registries {
			untilNobodyListens(t, b, at)
		}
	}
}

// tryRegistry asks one address of a lab's registry as a host does.
func tryRegistry(t *testing.T, b *Lab, at string) {
	t.Helper()
	transport := &http.Transport{DialContext: namespace(b.Layout.Switch()).dial, DisableKeepAlives: true}
	release := fmt.Sprintf("http://%s/v2/holdfast/release/manifests/%s", at, digest(t, b))
	for method, want := range map[string]int{http.MethodGet: http.StatusOK, http.MethodPut: http.StatusMethodNotAllowed} {
		req, err := http.NewRequestWithContext(t.Context(), method, release, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || (want == http.StatusOK && !strings.Contains(string(body), "internal.holdfast.release.json")) {
			t.Errorf("%s %s: %s (%v)\n%s", method, release, resp.Status, err, body)
		}
	}
}

// untilNobodyListens waits for the end of a server.
func untilNobodyListens(t *testing.T, b *Lab, at string) {
	t.Helper()
	r := &real{t: t}
	r.eventually("nobody listens at "+at, func() bool {
		conn, err := namespace(b.Layout.Switch()).dial(t.Context(), "tcp", at)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}
