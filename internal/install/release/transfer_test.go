package release

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

func TestAReleaseSurvivesPushAndPull(t *testing.T) {
	s := testStore(t)
	server := httptest.NewTLSServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	r := Remote{Ref: server.Listener.Addr().String() + "/site/holdfast:v1", CAFile: ca}
	for range 2 { // the second time there is nothing to send
		if err := s.Push(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	pulled, err := Pull(t.Context(), r, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := pulled.Verify(); err != nil {
		t.Error(err)
	}
	if !maps.Equal(snapshot(t, dir), snapshot(t, s.dir)) {
		t.Error("the pulled folder differs")
	}
}

func TestAnInterruptedPullGoesOn(t *testing.T) {
	s := testStore(t)
	r := Remote{Ref: strings.TrimPrefix(serveTest(t, s).URL, "http://") + "/" + Repository + ":" + s.Manifest().Version, PlainHTTP: true}
	dir := t.TempDir()
	if _, err := Pull(t.Context(), r, dir); err != nil {
		t.Fatal(err)
	}
	// As after a power cut: no index, one blob missing, one truncated.
	refs, err := s.blobsOf(s.index.Manifests)
	if err != nil {
		t.Fatal(err)
	}
	lost, _ := blobPath(dir, refs[0].digest)
	kept, _ := blobPath(dir, refs[1].digest)
	for _, path := range []string{filepath.Join(dir, indexFile), lost} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(filepath.Dir(lost), ".half.123"), "half a blob")
	before, err := os.Stat(kept)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := Pull(t.Context(), r, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := pulled.Verify(); err != nil {
		t.Error(err)
	}
	if after, err := os.Stat(kept); err != nil || !os.SameFile(before, after) {
		t.Errorf("a blob that was there was fetched again: %v", err)
	}
	if !maps.Equal(snapshot(t, dir), snapshot(t, s.dir)) {
		t.Error("the pulled folder differs")
	}
}

func TestAPullThatFailsKeepsTheOldRelease(t *testing.T) {
	opts := testOptions(t)
	old := open(t, build(t, opts).Output)
	dir := t.TempDir()
	from := func(s *Store) Remote {
		return Remote{Ref: strings.TrimPrefix(serveTest(t, s).URL, "http://") + "/" + Repository + ":" + s.Manifest().Version, PlainHTTP: true}
	}
	if _, err := Pull(t.Context(), from(old), dir); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(opts.Root, "alpha/main.go"), "package main\n\nfunc main() {}\n")
	opts.Output = t.TempDir()
	fresh := open(t, build(t, opts).Output)
	d, _ := fresh.image("alpha")
	m, err := fresh.imageManifest(d)
	if err != nil {
		t.Fatal(err)
	}
	remote := from(fresh)
	path, _ := blobPath(fresh.dir, m.Layers[0].Digest.String())
	damage(t, path)
	if _, err := Pull(t.Context(), remote, dir); err == nil {
		t.Error("a damaged layer was taken")
	}
	if now := open(t, dir); now.Manifest().Digest != old.Manifest().Digest || now.Verify() != nil {
		t.Errorf("the old release is gone: %v", now.Verify())
	}
}

func TestBadReferencesAreNamed(t *testing.T) {
	s := testStore(t)
	for _, ref := range []string{"", "holdfast", "host:1/UPPER:v1", "host:1/x"} {
		err := s.Push(t.Context(), Remote{Ref: ref})
		if err == nil || !strings.Contains(err.Error(), "is not REGISTRY/REPOSITORY:TAG") {
			t.Errorf("%q: error %v", ref, err)
		}
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	s := testStore(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, TLS{}) }()
	if _, err := Pull(t.Context(), Remote{Ref: l.Addr().String() + "/" + Repository + ":" + s.Manifest().Version, PlainHTTP: true}, t.TempDir()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
