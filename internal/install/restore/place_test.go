package restore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// cutDisk is a disk whose power may be cut between any two changes. What was not synced may be lost
// then, and what was renamed may have its old name: each alone, since a file system orders neither.
type cutDisk struct {
	powercut.Cut
	t *testing.T
	w work
	// synced is true once the data are on the disk, and named once their name is.
	synced, named bool
}

// newCutDisk returns one with data that no one has synced.
func newCutDisk(t *testing.T) *cutDisk {
	t.Helper()
	dir := t.TempDir()
	d := &cutDisk{t: t, w: work{Options: Options{DataDir: dir, SHA256: "sum"}, dir: filepath.Join(dir, workName)}}
	d.unpacked()
	return d
}

// unpacked is the disk as the steps before place leave it, which begin anew after a cut.
func (d *cutDisk) unpacked() {
	d.t.Helper()
	must(d.t, os.RemoveAll(d.w.dir))
	db := filepath.Join(d.w.data(), memberName, "snap", "db")
	must(d.t, os.MkdirAll(filepath.Dir(db), 0o700))
	must(d.t, os.WriteFile(db, []byte("data"), 0o600))
	d.synced, d.named = false, false
}

// disk returns the changes, each of which is an effect.
func (d *cutDisk) disk() disk {
	return disk{
		write: func(path string, data []byte, mode fs.FileMode) error { // it syncs what it writes
			return d.Effect(func() error { return host.WriteFileAtomic(path, data, mode) })
		},
		syncFilesystem: func(path string) error {
			return d.Effect(func() error { d.synced, d.named = true, true; return host.SyncFilesystem(path) })
		},
		rename: func(from, to string) error {
			return d.Effect(func() error { d.named = false; return os.Rename(from, to) })
		},
		syncDir: func(dir string) error {
			return d.Effect(func() error { d.named = d.named || dir == d.w.DataDir; return host.SyncDir(dir) })
		},
		removeAll: func(path string) error {
			return d.Effect(func() error { return os.RemoveAll(path) })
		},
	}
}

// off cuts the power. What is not on the disk under its new name has its old one if back is true; the
// data are empty if they were not synced.
func (d *cutDisk) off(back bool) {
	d.t.Helper()
	before, after := filepath.Join(d.w.data(), memberName), filepath.Join(d.w.DataDir, memberName)
	if back && !d.named && host.Exists(after) {
		must(d.t, os.MkdirAll(d.w.data(), 0o700))
		must(d.t, os.Rename(after, before))
	}
	for _, dir := range []string{before, after} {
		if db := filepath.Join(dir, "snap", "db"); !d.synced && host.Exists(db) {
			must(d.t, os.Truncate(db, 0))
		}
	}
}

// TestThePowerMayBeCutAtAnyLine: a restore is done if and only if its data are whole, and one that said
// so stays done.
func TestThePowerMayBeCutAtAnyLine(t *testing.T) {
	for at := 1; ; at++ {
		dead := false
		for _, way := range []struct{ after, back bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
			d := newCutDisk(t)
			d.Cut = powercut.Cut{At: at, After: way.after}
			err := d.w.place(d.disk(), Report{SHA256: d.w.SHA256})
			if dead = d.Dead; dead && !errors.Is(err, powercut.Err) || !dead && err != nil {
				t.Fatalf("cut at %d: %v", at, err)
			}
			d.off(way.back)
			_, done, failure := d.w.done()
			db, _ := os.ReadFile(filepath.Join(d.w.DataDir, memberName, "snap", "db"))
			if failure != nil || done != (string(db) == "data") || !done && err == nil {
				t.Errorf("cut at %d, %+v: it said %v; then done is %v (%v), and etcd has %q", at, way, err, done, failure, db)
			}
			if done || failure != nil {
				continue
			}
			d.unpacked()
			d.Cut = powercut.Cut{}
			if err := d.w.place(d.disk(), Report{SHA256: d.w.SHA256}); err != nil {
				t.Errorf("after a cut at %d: %v", at, err)
			}
		}
		if !dead {
			if at != 6 {
				t.Errorf("%d effects, want 5", at-1)
			}
			return
		}
	}
}
