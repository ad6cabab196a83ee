package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/etcdtest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compacting is an etcd that is compacted between its hash and its snapshot, the first so many
// times.
type compacting struct {
	*etcdtest.Server
	left int
}

func (c *compacting) HashKV(ctx context.Context, rev int64) (etcd.KVHash, error) {
	h, err := c.Server.HashKV(ctx, rev)
	if c.left--; c.left >= 0 {
		h.CompactRevision++
	}
	return h, err
}

func taker(t testing.TB, e Etcd) Taker {
	t.Helper()
	return Taker{Etcd: e, Program: builttest.Program(t, "etcdutl"), Now: time.Now, Free: func(string) (uint64, error) { return 1 << 40, nil }}
}

func verify(t *testing.T, taker Taker, dir string) (backup.Database, []backup.Check) {
	t.Helper()
	seen, err := taker.Look(t.Context(), dir)
	must(t, err)
	seen, err = taker.Take(t.Context(), dir, seen)
	must(t, err)
	db, checks, err := taker.Verify(t.Context(), dir, seen)
	must(t, err)
	return db, checks
}

func TestACompactionInBetweenIsToldFromDamage(t *testing.T) {
	c := &compacting{Server: etcdtest.Start(t), left: 1}
	must(t, c.Pulse(t.Context()))
	dir := t.TempDir()
	db, checks := verify(t, taker(t, c), dir)
	if last := checks[len(checks)-1]; last.OK || last.Name != CheckHash || !(backup.Entry{Checks: checks}).Again() {
		t.Errorf("%+v", checks)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || db.Revision == 0 {
		t.Errorf("%v %v %+v: only the snapshot stays", left, err, db)
	}
	if _, checks := verify(t, taker(t, c), dir); (backup.Entry{Checks: checks}).Again() || !checks[len(checks)-1].OK {
		t.Errorf("%+v", checks)
	}
}

// TestKeysWithLeasesAreCompared: an API server writes each event with a lease, and etcdutl
// 3.6 cannot hash such a key.
func TestKeysWithLeasesAreCompared(t *testing.T) {
	c := etcdtest.Start(t)
	c.Ctl(t, "put", "/registry/events/x", "y", "--lease", c.Lease(t))
	_, checks := verify(t, taker(t, c), t.TempDir())
	if last := checks[len(checks)-1]; !last.OK || last.Name != CheckHash {
		t.Errorf("%+v", checks)
	}
}

// big is an etcd that says that its database is big.
type big struct {
	*etcdtest.Server
	asked int
}

func (b *big) Status(ctx context.Context) (etcd.MemberStatus, error) {
	s, err := b.Server.Status(ctx)
	s.DBSize = hashLimit + 1
	return s, err
}

func (b *big) HashKV(context.Context, int64) (etcd.KVHash, error) {
	b.asked++
	return etcd.KVHash{}, errors.New("writes wait")
}

func TestABigDatabaseIsNotHashedByTheLivingEtcd(t *testing.T) {
	b := &big{Server: etcdtest.Start(t)}
	must(t, b.Pulse(t.Context()))
	db, checks := verify(t, taker(t, b), t.TempDir())
	if last := checks[len(checks)-1]; b.asked > 0 || !last.OK || last.Name != CheckHash || db.Hash == 0 || !bytes.Contains([]byte(last.Says), []byte("not compared with the living etcd")) {
		t.Errorf("asked %d times, %+v", b.asked, checks)
	}
}

func TestAnAlarmOfEtcdIsInTheEntry(t *testing.T) {
	s := etcdtest.Start(t, "--quota-backend-bytes", "100000")
	for status := (etcd.MemberStatus{}); len(status.Errors) == 0; { // until it is full
		must(t, s.Pulse(t.Context()))
		var err error
		status, err = s.Status(t.Context())
		must(t, err)
	}
	db, checks := verify(t, taker(t, s), t.TempDir())
	if len(db.Alarms) == 0 || !(backup.Entry{Checks: checks}).Judge().Good {
		t.Errorf("%+v, %+v: a full etcd has a backup, which a restore disarms", db, checks)
	}
}

// A file that is no database makes etcdutl fail or panic; this process only reads that.
func TestAFileThatMakesEtcdutlPanicIsBad(t *testing.T) {
	s := etcdtest.Start(t)
	must(t, s.Pulse(t.Context()))
	var whole bytes.Buffer
	_, err := s.Snapshot(t.Context(), &whole)
	must(t, err)
	for name, text := range map[string][]byte{
		"empty": {}, "cut after a page": whole.Bytes()[:4096], "cut in half": whole.Bytes()[:whole.Len()/2], "noise": bytes.Repeat([]byte{0xa5}, 20480),
		"pages lost": append(bytes.Clone(whole.Bytes()[:8192]), make([]byte, whole.Len()-8192)...),
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, Name), text, 0o600))
		_, checks, err := taker(t, s).Verify(t.Context(), dir, Seen{})
		if err != nil || (backup.Entry{Checks: checks}).Judge().Good {
			t.Errorf("%s: %+v %v", name, checks, err)
		}
	}
}

func TestASnapshotEndsWithItsContext(t *testing.T) {
	s := etcdtest.Start(t)
	must(t, s.Pulse(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	k := taker(t, s)
	k.Through = func(_ context.Context, w io.Writer) io.Writer { cancel(); return w }
	if _, err := k.Take(ctx, t.TempDir(), Seen{}); err == nil {
		t.Error("it goes on")
	}
}

// etcd runs in a folder of its own, where a path that is not absolute leads elsewhere.
func TestTheEtcdBesideAnEtcdutlHasAnAbsolutePath(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "etcdutl"), []byte("#!/bin/sh\n"), 0o700))
	t.Chdir(dir)
	for _, etcdutl := range []string{"./etcdutl", filepath.Join(dir, "etcdutl")} {
		if got, err := EtcdBeside(etcdutl); err != nil || got != filepath.Join(dir, "etcd") {
			t.Errorf("%s: %q, %v", etcdutl, got, err)
		}
	}
	if got, err := EtcdBeside("./none"); err == nil {
		t.Errorf("beside nothing: %q", got)
	}
}
