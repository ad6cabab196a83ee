package records

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// A host whose disk is full has to tell its peer by a record that it gives its data
// directory up.
func TestARecordIsWrittenOnAFullDisk(t *testing.T) {
	netnstest.NeedRoot(t)
	files := Files{Root: t.TempDir()}
	dir := filepath.Dir(files.Path(state.EtcdRecordPath))
	small(t, dir)
	write := func(seq uint64) {
		t.Helper()
		r := etcdRecord
		r.Seq = seq
		if err := files.WriteRecord(r); err != nil {
			t.Fatal(err)
		}
		if got, err := files.Record(); err != nil || got.Seq != seq {
			t.Fatalf("record %d is read as %+v, %v", seq, got, err)
		}
	}
	reserve := files.Path(state.EtcdReservePath)
	write(1)
	if info, err := os.Stat(reserve); err != nil || info.Size() != host.ReserveSize || info.Mode().Perm() != 0o600 {
		t.Fatalf("the reserve: %v, %v", info, err)
	}
	write(2) // the reserve stays as it is
	fill(t, filepath.Join(dir, "other"))
	write(3)
	write(4) // the old record made room for another reserve
	if err := os.Remove(reserve); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "more"))
	if err := files.WriteRecord(etcdRecord); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("no room at all: %v", err)
	}
	if got, err := files.Record(); err != nil || got.Seq != 4 {
		t.Errorf("the record that could not be replaced: %+v, %v", got, err)
	}
}

// Whoever fills /run must not make a fence that worked count as failed, nor end the etcd
// keeper's loop or Pacemaker's stop.
func TestAProofIsWrittenThoughRunIsFull(t *testing.T) {
	netnstest.NeedRoot(t)
	files := Files{Root: t.TempDir()}
	run := files.Path("/run")
	small(t, run)
	if err := files.WriteWish(state.EtcdWishNote{Wish: state.EtcdStarted, Boot: "b"}); err != nil {
		t.Fatal(err)
	}
	for what, write := range map[string]func() error{
		"a proof": func() error { return files.WriteFenced(state.EtcdFenced{Target: "cp-2", State: "Off", Boot: "b"}) },
		"a word":  func() error { return files.WriteConfirmation(state.Confirmation{Who: "ops", Boot: "b"}) },
		"a wish":  func() error { return files.WriteWish(state.EtcdWishNote{Wish: state.EtcdStopped, Boot: "b"}) },
	} {
		fill(t, filepath.Join(run, "other"))
		if err := write(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := os.Remove(filepath.Join(run, "other")); err != nil {
			t.Fatal(err)
		}
		if err := write(); err != nil || !host.Exists(files.Path(state.RunReservePath)) {
			t.Errorf("%s: no room is kept for the next one: %v", what, err)
		}
	}
	fill(t, filepath.Join(run, "other"))
	if err := os.Remove(files.Path(state.RunReservePath)); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(run, "more"))
	if err := files.WriteFenced(state.EtcdFenced{Target: "cp-3"}); err == nil || !strings.Contains(err.Error(), "make room there: df -h "+run) {
		t.Errorf("no room at all: %v", err)
	}
}

// small mounts a file system of 1 MiB.
func small(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// fill writes a file until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
