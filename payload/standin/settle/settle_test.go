package settle

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// data makes a data directory. Its log ends at last and has the commit index
// committed; its database holds entries up to applied.
func data(t *testing.T, last, committed, applied uint64) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "member/snap"), 0o700))
	w, err := wal.Create(zap.NewNop(), filepath.Join(dir, "member/wal"), []byte("meta"))
	must(t, err)
	must(t, w.SaveSnapshot(walpb.Snapshot{ConfState: &raftpb.ConfState{}}))
	var entries []raftpb.Entry
	for i := uint64(1); i <= last; i++ {
		entries = append(entries, raftpb.Entry{Term: 3, Index: i, Data: []byte("some data of an entry")})
	}
	must(t, w.Save(raftpb.HardState{Term: 4, Vote: 7, Commit: committed}, entries))
	must(t, w.Close())
	db := database(t, dir)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists([]byte("meta"))
		if err != nil {
			return err
		}
		return meta.Put([]byte("consistent_index"), binary.BigEndian.AppendUint64(nil, applied))
	}))
	must(t, db.Close())
	return dir
}

func database(t *testing.T, dir string) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, "member/snap/db"), 0o600, nil)
	must(t, err)
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		last, committed, applied uint64
		settled                  bool
		want                     error
	}{
		"what the database proves is written down": {9, 5, 8, true, nil},
		"a log that knows it is left alone":        {9, 8, 8, false, nil},
		"a log that knows more is left alone":      {9, 9, 8, false, nil},
		"an empty database proves nothing":         {9, 5, 0, false, nil},
		"a log that lost its end is refused":       {7, 5, 8, false, ErrLogShort},
	} {
		t.Run(name, func(t *testing.T) {
			dir := data(t, c.last, c.committed, c.applied)
			got, err := Settle(dir)
			want := Log{Term: 3, Last: c.last, Committed: c.committed, Applied: c.applied, Settled: c.settled}
			if !errors.Is(err, c.want) || got != want {
				t.Fatalf("got %+v, %v; want %+v", got, err, want)
			}
			again, err := Settle(dir)
			if !errors.Is(err, c.want) || again.Settled || again.Committed != max(c.committed, again.Committed) {
				t.Errorf("again: %+v, %v", again, err)
			}
			if c.settled && again.Committed != c.applied {
				t.Errorf("the log knows %d, want %d", again.Committed, c.applied)
			}
		})
	}
}

func TestTermAndVoteStay(t *testing.T) {
	dir := data(t, 9, 5, 8)
	if _, err := Settle(dir); err != nil {
		t.Fatal(err)
	}
	w, state, entries, err := readAll(zap.NewNop(), filepath.Join(dir, "member/wal"), walpb.Snapshot{})
	must(t, err)
	must(t, w.Close())
	if want := (raftpb.HardState{Term: 4, Vote: 7, Commit: 8}); state != want || len(entries) != 9 {
		t.Errorf("the log holds %+v and %d entries, want %+v and 9", state, len(entries), want)
	}
}

func TestACopyInUseIsLeftAlone(t *testing.T) {
	dir := data(t, 9, 5, 8)
	db := database(t, dir)
	defer func() { must(t, db.Close()) }()
	if _, err := Settle(dir); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("got %v", err)
	}
}

func TestATornRecordIsCutOff(t *testing.T) {
	dir := data(t, 9, 5, 6)
	files, err := filepath.Glob(filepath.Join(dir, "member/wal/*.wal"))
	must(t, err)
	content, err := os.ReadFile(files[0])
	must(t, err)
	end := len(strings.TrimRight(string(content), "\x00"))
	must(t, os.Truncate(files[0], int64(end-40)))
	got, err := Settle(dir)
	if err != nil || got.Last >= 9 || got.Last < 6 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWithoutALogThereIsNothingToSettle(t *testing.T) {
	noLog := func(applied uint64) string {
		dir := data(t, 1, 0, applied)
		must(t, os.RemoveAll(filepath.Join(dir, "member/wal")))
		return dir
	}
	for name, c := range map[string]struct {
		dir  string
		want error
	}{
		"no copy":                          {t.TempDir(), nil},
		"a first start that was cut off":   {noLog(0), nil},
		"a database that has lost its log": {noLog(8), ErrLogShort},
	} {
		if got, err := Settle(c.dir); !errors.Is(err, c.want) || got.Settled {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	dir := data(t, 9, 5, 8)
	must(t, os.Remove(filepath.Join(dir, "member/snap/db")))
	if _, err := Settle(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a log that has lost its database: %v", err)
	}
}

// TestAllSettlesTheEndOfTheLog: also where the database proves less, and never a log that lost its end.
func TestAllSettlesTheEndOfTheLog(t *testing.T) {
	dir := data(t, 9, 4, 6)
	if l, err := All(dir); err != nil || !l.Settled {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := All(dir); err != nil || l.Settled || l.Committed != 9 {
		t.Errorf("once more: %+v, %v", l, err)
	}
	if _, err := All(data(t, 5, 4, 6)); !errors.Is(err, ErrLogShort) {
		t.Errorf("a log that lost its end: %v", err)
	}
}
