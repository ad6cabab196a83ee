package records

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// A host whose disk is full has to tell its peer by a record that it gives its data
// directory up.
func TestARecordIsWrittenOnAFullDisk(t *testing.T) {
	netnstest.NeedRoot(t)
	files := Files{Root: t.TempDir()}
	dir := filepath.Dir(files.Path(state.EtcdRecordPath))
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
	if info, err := os.Stat(reserve); err != nil || info.Size() != reserveSize || info.Mode().Perm() != 0o600 {
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
	if err := files.WriteRecord(etcdRecord); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("no room at all: %v", err)
	}
	if got, err := files.Record(); err != nil || got.Seq != 4 {
		t.Errorf("the record that could not be replaced: %+v, %v", got, err)
	}
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
