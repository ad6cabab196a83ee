package takebackup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast/holdfast/internal/adapter/backup/catalogue"
	"github.com/holdfast/holdfast/internal/adapter/backup/snapshot"
	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/etcdtest"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a host with an etcd, its files and a directory as target.
type world struct {
	*Run
	etcd     *etcdtest.Server
	program  string // etcdutl
	root     string
	nas      string
	identity *age.X25519Identity
	said     []backup.State
}

// block is what a PEM file holds; the contents do not matter here.
const block = "-----BEGIN CERTIFICATE-----\nTQ==\n-----END CERTIFICATE-----\n"

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{etcd: etcdtest.Start(t), root: t.TempDir(), nas: t.TempDir()}
	for _, p := range backup.HostPaths() {
		if p.Required {
			w.write(t, p.Path, block)
		}
	}
	must(t, os.WriteFile(filepath.Join(w.nas, backup.DefaultMarker), nil, 0o600))
	var err error
	w.identity, err = age.GenerateX25519Identity()
	must(t, err)
	w.program = builttest.Program(t, "etcdutl")
	w.Run = w.run(w.etcd, filepath.Join(w.root, "var/lib/holdfast/backups"))
	w.fill(t, 10) // etcdutl says of an empty database that it is at revision 0
	return w
}

func (w *world) run(e snapshot.Etcd, dir string) *Run {
	return &Run{
		Catalogue: catalogue.Catalogue{Dir: dir}, Root: w.root, Paths: backup.HostPaths(),
		Snapshot: snapshot.Taker{Etcd: e, Program: w.program, Now: time.Now, Free: func(string) (uint64, error) { return 1 << 50, nil }},
		Release:  func() backup.Release { return backup.Release{Version: "v0.1.0", Digest: "sha256:1"} },
		Open:     target.Open, Now: time.Now, Say: func(s backup.State) { w.said = append(w.said, s) },
		Effect: func(do func() error) error { return do() },
	}
}

func (w *world) write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(w.root, path)), 0o700))
	must(t, os.WriteFile(filepath.Join(w.root, path), []byte(text), 0o600))
}

func (w *world) request(n int) backup.Request {
	return backup.Request{
		ID: backup.NewID("cp-1", noon.Add(time.Duration(n)*time.Hour)), Reason: backup.BySchedule, Site: "shop.example.com", Host: "cp-1",
		Recipients: []string{w.identity.Recipient().String()},
		Targets:    []backup.Target{{Name: "nas", Directory: &backup.Directory{Path: w.nas}}},
	}
}

// writer opens a client that retries, as the API server's does.
func (w *world) writer(t testing.TB) *clientv3.Client {
	t.Helper()
	tlsConfig, err := w.etcd.Identity.Config()
	must(t, err)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{w.etcd.URL}, TLS: tlsConfig})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) fill(t testing.TB, n int) {
	t.Helper()
	c := w.writer(t)
	for i := range n {
		_, err := c.Put(t.Context(), fmt.Sprintf("/registry/x/%d", i), strings.Repeat("v", 500))
		must(t, err)
	}
}

// names lists what lies below a folder, with the sizes of files left out.
func names(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path) // it is below
			out = append(out, rel)
		}
		return err
	}))
	return out
}

// damaging passes an etcd on and damages its snapshots.
type damaging struct {
	snapshot.Etcd
	damage func(io.Writer) io.Writer
	err    error
}

func (d damaging) Snapshot(ctx context.Context, w io.Writer) (int64, error) {
	n, err := d.Etcd.Snapshot(ctx, d.damage(w))
	return n, errors.Join(err, d.err)
}
