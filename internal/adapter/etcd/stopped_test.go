package etcd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
)

// TestAMemberThatLostAllOthersStillGivesWhatItHas: alone it serves nobody, and a copy of its data
// does, with the last write that both acknowledged. Its own data stay as they were.
func TestAMemberThatLostAllOthersStillGivesWhatItHas(t *testing.T) {
	old := program
	t.Cleanup(func() { program = old })
	program = builttest.Program(t, "etcd-standin")
	alpha, _ := founded(t, newAuthority(t, t.TempDir()))
	beta, _ := joined(t, alpha)
	_, err := pb.NewKVClient(alpha.etcd.conn).Put(t.Context(), &pb.PutRequest{Key: []byte("/registry/last"), Value: []byte("write")})
	must(t, err)
	beta.kill()

	folder := filepath.Join(t.TempDir(), "copy")
	s := Scratch{Program: builttest.Program(t, "etcd"), DataDir: alpha.dir, Name: "copy", PeerURL: "http://copy.invalid:2380", Log: io.Discard}
	if _, err := OpenStopped(t.Context(), s, folder); !errors.Is(err, ErrRuns) {
		t.Errorf("while it runs: %v", err)
	}
	alpha.kill()
	must(t, os.MkdirAll(filepath.Join(aside(alpha.dir), "20200101T000000.000Z", "member"), 0o700))
	before := contents(t, alpha.dir)
	a, err := OpenStopped(t.Context(), s, folder)
	must(t, err)
	client := a.Client()
	eventually(t, "the copy serves alone", func(ctx context.Context) error {
		status, err := client.Status(ctx)
		if err == nil && (!status.Votes() || len(status.Members) != 1) {
			err = errors.New("it does not vote alone")
		}
		return err
	})
	var got string
	_, err = a.Each(t.Context(), "/registry/", func(_ string, value []byte) error { got = string(value); return nil })
	must(t, err)
	if _, err := client.Snapshot(t.Context(), io.Discard); err != nil || got != "write" {
		t.Errorf("it has %q, and its snapshot: %v", got, err)
	}
	must(t, a.Close())
	if after := contents(t, alpha.dir); after != before || !host.Exists(filepath.Join(aside(alpha.dir), "20200101T000000.000Z")) {
		t.Error("the data of the member, or what was set aside beside them, were changed")
	}
	s.DataDir = t.TempDir()
	if _, err := OpenStopped(t.Context(), s, folder); !errors.Is(err, ErrNoData) {
		t.Errorf("without data: %v", err)
	}
}

// TestAnEtcdThatStartsWaitsUntilItsDataAreCopied: the agent may put the manifest of a stopped etcd back
// at any moment. A torn copy would pass, since it is only compared with itself.
func TestAnEtcdThatStartsWaitsUntilItsDataAreCopied(t *testing.T) {
	was, onDisk := program, syncFile
	t.Cleanup(func() { program, syncFile = was, onDisk })
	program = "/nowhere" // no etcd is started over the copy
	dir := copyOf(t, "member/snap/db", "member/wal/0.wal")
	starts := func() error { // as bbolt does for etcd
		db, err := os.OpenFile(filepath.Join(dir, "member/snap/db"), os.O_RDWR, 0)
		must(t, err)
		defer func() { must(t, db.Close()) }()
		return unix.Flock(int(db.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	copied := 0
	syncFile = func(*os.File) error {
		copied++
		if err := starts(); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("an etcd started while its data were copied: %v", err)
		}
		return nil
	}
	if _, err := OpenStopped(t.Context(), Scratch{DataDir: dir}, t.TempDir()); err == nil || copied != 2 {
		t.Errorf("%d files are copied: %v", copied, err)
	}
	if err := starts(); err != nil {
		t.Errorf("after the copy: %v", err)
	}
}

// contents returns all bytes below a folder.
func contents(t *testing.T, dir string) string {
	t.Helper()
	files, _, err := measure(dir)
	must(t, err)
	var all []byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		must(t, err)
		all = append(append(all, f...), data...)
	}
	return string(all)
}
