package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// script replaces the stand-in's program in one test.
func script(t *testing.T, text string) {
	t.Helper()
	old := program
	t.Cleanup(func() { program = old })
	program = filepath.Join(t.TempDir(), "etcd-standin")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
}

func TestWhatInspectPrintsIsUnderstood(t *testing.T) {
	script(t, `[ "$*" = "inspect -data-dir /data" ] || exit 9
echo '{"copy":"whole","cluster":"c1","member":"fedcba9876543210","members":[{"id":"a1","name":"cp-1"},{"id":"a2","learner":true}],"reason":"x"}'`)
	got, err := Inspect(t.Context(), "/data")
	want := state.EtcdData{
		Copy: state.CopyWhole, Cluster: 0xc1, Member: 0xfedcba9876543210, Reason: "x",
		Members: []state.EtcdMember{{ID: 0xa1, Name: "cp-1"}, {ID: 0xa2, Learner: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestWhatTheProgramRefusesIsRecognised(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		do     func() error
		want   error
	}{
		"a running etcd": {
			"echo 'open db: etcd runs; stop it first' >&2; exit 3",
			func() error { _, err := Inspect(t.Context(), "/data"); return err }, ErrRuns,
		},
		"a log without its end": {
			"echo 'settle /data: it ends at 7' >&2; exit 5",
			func() error { return Settle(t.Context(), "/data") }, ErrLogShort,
		},
	} {
		t.Run(name, func(t *testing.T) {
			script(t, c.script)
			if err := c.do(); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	script(t, "echo 'settle /data: the log lost its end' >&2; exit 3")
	if err := Settle(t.Context(), "/data"); err == nil || errors.Is(err, ErrLogShort) {
		t.Errorf("a refusal that quotes the text: %v", err)
	}
	script(t, "echo 'no such program'; exit 1")
	if _, err := Inspect(t.Context(), "/data"); err == nil || errors.Is(err, ErrRuns) {
		t.Errorf("a failure: %v", err)
	}
	script(t, "echo '{\"copy\":'")
	if got, err := Inspect(t.Context(), "/data"); err == nil {
		t.Errorf("half an answer is %+v", got)
	}
}

// copyOf creates a data folder with these files and the record beside them.
func copyOf(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range append(files, "holdfast-record.json") {
		path := filepath.Join(dir, f)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(f), 0o600))
	}
	return dir
}

func held(t *testing.T, dir string) []string {
	t.Helper()
	list, _, err := measure(dir)
	must(t, err)
	for i := range list {
		list[i], err = filepath.Rel(dir, list[i])
		must(t, err)
	}
	return list
}

func TestACopyInUseIsKnownAndNeverEmptied(t *testing.T) {
	dir := copyOf(t, "member/snap/db")
	if locked, err := Locked(dir); locked || err != nil {
		t.Errorf("a copy that nobody uses: %v, %v", locked, err)
	}
	db, err := os.Open(filepath.Join(dir, "member/snap/db"))
	must(t, err)
	must(t, unix.Flock(int(db.Fd()), unix.LOCK_SH))
	if locked, err := Locked(dir); locked || err != nil {
		t.Errorf("a copy that is only examined: %v, %v", locked, err)
	}
	must(t, unix.Flock(int(db.Fd()), unix.LOCK_EX))
	if locked, err := Locked(dir); !locked || err != nil {
		t.Errorf("a copy in use: %v, %v", locked, err)
	}
	if err := Empty(dir); !errors.Is(err, ErrRuns) {
		t.Errorf("a copy in use was emptied: %v", err)
	}
	must(t, db.Close())
	must(t, Empty(dir))
}

func TestNoCopyIsNotInUse(t *testing.T) {
	for _, dir := range []string{"/nowhere", t.TempDir(), copyOf(t, "member")} {
		if locked, err := Locked(dir); locked || err != nil {
			t.Errorf("%s: %v, %v", dir, locked, err)
		}
	}
}

func TestEmptyingEndsWhatAPowerCutLeft(t *testing.T) {
	for name, left := range map[string][]string{
		"nothing done yet":                {"member/snap/db", "member/wal/0.wal"},
		"renamed, not removed":            {"member.emptying/snap/db", "member.emptying/wal/0.wal"},
		"half removed":                    {"member.emptying/wal/0.wal"},
		"half removed, and a second copy": {"member.emptying/wal/0.wal", "member/snap/db"},
		"all done":                        nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, left...)
			must(t, Empty(dir))
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 || entries[0].Name() != "holdfast-record.json" {
				t.Errorf("left are %v (%v)", entries, err)
			}
		})
	}
	if err := Empty(filepath.Join(t.TempDir(), "gone")); err != nil {
		t.Errorf("no folder at all: %v", err)
	}
}

func TestABackupHoldsTheCopyAndNothingElse(t *testing.T) {
	dir, to := copyOf(t, "member/snap/db", "member/wal/0.wal"), filepath.Join(t.TempDir(), "backups")
	made, err := Backup(t.Context(), dir, to, 2, 1<<20)
	must(t, err)
	if got := held(t, made); !slices.Equal(got, []string{"member/snap/db", "member/wal/0.wal"}) {
		t.Errorf("it holds %v", got)
	}
	for _, f := range held(t, made) {
		if data, err := os.ReadFile(filepath.Join(made, f)); string(data) != f {
			t.Errorf("%s holds %q (%v)", f, data, err)
		}
	}
	if made, err := Backup(t.Context(), t.TempDir(), to, 2, 1<<20); made != "" || err != nil {
		t.Errorf("of nothing: %s, %v", made, err)
	}
}

func TestOnlyTheNewestBackupsAreKept(t *testing.T) {
	dir, to := copyOf(t, "member/snap/db"), t.TempDir()
	for _, old := range []string{"20200101T000000.000Z", "20210101T000000.000Z", "20220101T000000.000Z.unfinished", "mine"} {
		must(t, os.MkdirAll(filepath.Join(to, old), 0o700))
	}
	made, err := Backup(t.Context(), dir, to, 2, 1<<20)
	must(t, err)
	entries, err := os.ReadDir(to)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"20210101T000000.000Z", filepath.Base(made), "mine"}; !slices.Equal(names, want) {
		t.Errorf("left are %v, want %v", names, want)
	}
}

func TestABackupThatCannotBeMadeLeavesNothing(t *testing.T) {
	dir, to := copyOf(t, "member/snap/db"), t.TempDir()
	if _, err := Backup(t.Context(), dir, to, 1, 3); err == nil || !strings.Contains(err.Error(), "skipped") {
		t.Errorf("of too much: %v", err)
	}
	ctx, cancel := contextThatEnded(t)
	defer cancel()
	if _, err := Backup(ctx, dir, to, 1, 1<<20); err == nil {
		t.Error("it was made although time was over")
	}
	if entries, err := os.ReadDir(to); err != nil || len(entries) != 0 {
		t.Errorf("left are %v (%v)", entries, err)
	}
}

// TestABackupThatIsCutLeavesThoseOfBefore: the only good copy goes once another one is whole.
func TestABackupThatIsCutLeavesThoseOfBefore(t *testing.T) {
	dir, to := copyOf(t, "member/snap/db"), t.TempDir()
	old := filepath.Join(to, "20200101T000000.000Z")
	must(t, os.MkdirAll(old, 0o700))
	ctx, cancel := contextThatEnded(t)
	defer cancel()
	if _, err := Backup(ctx, dir, to, 1, 1<<20); err == nil || !host.Exists(old) {
		t.Errorf("%v, and the old copy is there: %t", err, host.Exists(old))
	}
	if made, err := Backup(t.Context(), dir, to, 1, 1<<20); err != nil || host.Exists(old) || !host.Exists(made) {
		t.Errorf("%s, %v, and the old copy is there: %t", made, err, host.Exists(old))
	}
}

// TestDataThatAreSetAsideCountAsABackup, below the backups or, where that is not possible, beside
// etcd's data.
func TestDataThatAreSetAsideCountAsABackup(t *testing.T) {
	for name, beside := range map[string]bool{"below the backups": false, "beside the data": true} {
		t.Run(name, func(t *testing.T) {
			dir, to := copyOf(t, "member/snap/db", "member/wal/0.wal"), filepath.Join(t.TempDir(), "backups")
			place := to
			if beside {
				place = aside(dir)
				must(t, os.WriteFile(to, nil, 0o600)) // no folder, as if it were on another file system
				to = filepath.Join(to, "x")
			}
			older := filepath.Join(place, "20200101T000000.000Z")
			must(t, os.MkdirAll(older, 0o700))
			made, err := SetAside(dir, to, 1, false)
			if err != nil || filepath.Dir(made) != place || host.Exists(older) || host.Exists(filepath.Join(dir, "member")) {
				t.Fatalf("%s, %v, the older one is there: %t", made, err, host.Exists(older))
			}
			want := []string{"member/snap/db", "member/wal/0.wal"}
			if beside {
				want = append(want, replaceable)
			}
			if got := held(t, made); !slices.Equal(got, want) {
				t.Errorf("it holds %v", got)
			}
			must(t, Empty(dir))
			if nothing, err := SetAside(dir, to, 1, false); nothing != "" || err != nil {
				t.Errorf("of nothing: %s, %v", nothing, err)
			}
			old := filepath.Join(place, "20210101T000000.000Z") // nothing else has its name, however fast the test is
			must(t, os.Rename(made, old))
			must(t, os.MkdirAll(filepath.Join(dir, "member"), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, "member/x"), nil, 0o600))
			if _, err := Backup(t.Context(), dir, t.TempDir(), 1, 1<<20); err != nil || beside && host.Exists(old) {
				t.Errorf("%v, and a newer backup leaves it: %t", err, host.Exists(old))
			}
		})
	}
}

// TestDataThatWereSetAsideGoUnlessTheyMayBeTheOnlyOnes: those of a peer that was forced to lead stay, those
// that an earlier release set aside, and what is not ours.
func TestDataThatWereSetAsideGoUnlessTheyMayBeTheOnlyOnes(t *testing.T) {
	dir, to := copyOf(t, "member/snap/db"), filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(to, nil, 0o600)) // no folder, as if it were on another file system
	if gone, err := DropAside(dir); len(gone) > 0 || err != nil {
		t.Errorf("of nothing: %v %v", gone, err)
	}
	precious, err := SetAside(dir, filepath.Join(to, "x"), 9, true)
	must(t, err)
	earlier, ours, theirs := filepath.Join(aside(dir), "20200101T000000.000Z"), filepath.Join(aside(dir), "20210101T000000.000Z"), filepath.Join(aside(dir), "mine")
	for _, d := range []string{earlier, ours, theirs} {
		must(t, os.MkdirAll(filepath.Join(d, "member/snap"), 0o700))
	}
	for _, d := range []string{ours, theirs} {
		must(t, os.WriteFile(filepath.Join(d, replaceable), nil, 0o600))
	}
	if gone, err := DropAside(dir); err != nil || !slices.Equal(gone, []string{ours}) || host.Exists(ours) || !host.Exists(filepath.Join(precious, "member/snap/db")) || !host.Exists(earlier) || !host.Exists(theirs) {
		t.Errorf("%v %v", gone, err)
	}
	for _, d := range []string{precious, earlier, theirs} {
		must(t, os.RemoveAll(d))
	}
	must(t, os.MkdirAll(filepath.Join(dir, "member"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "member/x"), nil, 0o600))
	made, err := SetAside(dir, filepath.Join(to, "x"), 9, false)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "member"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "member/y"), nil, 0o600))
	if gone, err := DropAside(dir); err != nil || !slices.Equal(gone, []string{made}) || host.Exists(aside(dir)) || !host.Exists(filepath.Join(dir, "member/y")) {
		t.Errorf("%v %v", gone, err)
	}
}

// TestDataAreSetAsideWithRoomForNewOnesOrIfTheyArePrecious, and never while etcd runs on them.
func TestDataAreSetAsideWithRoomForNewOnesOrIfTheyArePrecious(t *testing.T) {
	dir, to := copyOf(t, "member/snap/db"), t.TempDir()
	db := filepath.Join(dir, "member/snap/db")
	must(t, os.Truncate(db, 1<<42)) // holds nothing, and no disk of a test has room for it twice
	if made, err := SetAside(dir, to, 1, false); err == nil || made != "" || !host.Exists(db) {
		t.Errorf("without room: %s, %v", made, err)
	}
	f, err := os.Open(db)
	must(t, err)
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	if _, err := SetAside(dir, to, 1, true); !errors.Is(err, ErrRuns) {
		t.Errorf("while etcd runs: %v", err)
	}
	must(t, f.Close())
	if made, err := SetAside(dir, to, 1, true); err != nil || !host.Exists(filepath.Join(made, "member/snap/db")) {
		t.Errorf("precious: %s, %v", made, err)
	}
}

// TestABackupIsDurableAndStopsAtTheNextChunk: the disk decides how long a copy takes, and
// the context for how long somebody waits.
func TestABackupIsDurableAndStopsAtTheNextChunk(t *testing.T) {
	dir, to := copyOf(t, "member/snap/db", "member/wal/0.wal"), filepath.Join(t.TempDir(), "backups")
	must(t, os.Truncate(filepath.Join(dir, "member/snap/db"), 3*chunk))
	var files, folders []string
	last, stop := 4, func() {}
	onDisk := syncFile
	defer func() { syncFile, syncDir = onDisk, host.SyncDir }()
	syncFile = func(f *os.File) error {
		info, err := f.Stat()
		must(t, err)
		if files = append(files, fmt.Sprintf("%s %d", filepath.Base(f.Name()), info.Size()/chunk)); len(files) == last {
			stop()
		}
		return onDisk(f)
	}
	syncDir = func(dir string) error {
		rel, err := filepath.Rel(filepath.Dir(to), dir)
		must(t, err)
		_, in, _ := strings.Cut(rel, unfinished)
		folders = append(folders, in)
		return host.SyncDir(dir)
	}
	_, err := Backup(t.Context(), dir, to, 1, 1<<30)
	must(t, err)
	slices.Sort(folders)
	if want := []string{"db 1", "db 2", "db 3", "db 3", "0.wal 0"}; !slices.Equal(files, want) {
		t.Errorf("durable are %q, want %q", files, want)
	}
	if want := []string{"", "", "/member", "/member/snap", "/member/wal"}; !slices.Equal(folders, want) {
		t.Errorf("durable folders are %q, want %q", folders, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	files, last, stop = nil, 2, cancel
	if _, err := Backup(ctx, dir, to, 1, 1<<30); !errors.Is(err, context.Canceled) || !slices.Equal(files, []string{"db 1", "db 2"}) {
		t.Errorf("%v, durable are %q", err, files)
	}
}
