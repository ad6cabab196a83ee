// Package settle writes down, while etcd is down, how far etcd's own database
// proves its log to be committed.
//
// etcd keeps the commit index in memory until it writes the next entry. Suppose
// a survivor is killed right after it removed its peer, before any other write.
// It may then come back with a database that no longer lists the peer and a log
// in which the removal is not yet committed. It needs the peer's vote, and
// takes no message from a member that it has removed: it would wait forever.
// But an entry reaches the database only when it is committed. The last one
// there is thus a certain commit index.
package settle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// lockWait bounds the wait for an etcd that is just ending.
const lockWait = time.Second

// ErrLogShort is returned for a log that ends before the last entry of the
// database. etcd starts with it nevertheless, and then silently skips new
// entries. Such a data directory must not be started, but emptied or restored.
var ErrLogShort = errors.New("the log lost its end")

// Log describes the data of a member.
type Log struct {
	// Term and Last are the term and index of the last entry.
	Term uint64 `json:"term"`
	Last uint64 `json:"last"`
	// Committed is the commit index in the log when it was opened, Applied the
	// index of the last entry in the database.
	Committed uint64 `json:"committed"`
	Applied   uint64 `json:"applied"`
	// Settled is true if Committed was raised, on disk: to Applied, or by All to Last.
	Settled bool `json:"settled"`
}

// Settle raises the commit index in the write-ahead log of an etcd data
// directory to the index that its database proves. It may run any number of
// times, before every start of etcd. It fails if etcd runs, and never changes
// an entry or a term.
func Settle(dir string) (Log, error) { return raise(dir, func(l Log) uint64 { return l.Applied }) }

// All raises the commit index to the end of the log. It is for a copy of the data of
// the last member, which goes on without all others: an entry at the end may be one
// that they acknowledged, and none of them can say so any more. A member that has
// others must not be started on such data.
func All(dir string) (Log, error) { return raise(dir, func(l Log) uint64 { return l.Last }) }

func raise(dir string, to func(Log) uint64) (Log, error) {
	var l Log
	logged := wal.Exist(filepath.Join(dir, "member/wal"))
	applied, unlock, err := readApplied(filepath.Join(dir, "member/snap/db"))
	if errors.Is(err, os.ErrNotExist) && !logged {
		return l, nil // nothing was ever acknowledged here
	}
	if err != nil {
		return l, err
	}
	defer unlock()
	l.Applied = applied
	if !logged {
		return l, settle(nil, raftpb.HardState{}, &l, l.Applied)
	}
	w, state, err := open(dir, &l)
	if err != nil {
		return l, err
	}
	err = settle(w, state, &l, to(l))
	return l, errors.Join(err, w.Close())
}

func settle(w *wal.WAL, state raftpb.HardState, l *Log, commit uint64) error {
	switch {
	case l.Applied > l.Last:
		return fmt.Errorf("%w: it ends at index %d, but the database holds index %d", ErrLogShort, l.Last, l.Applied)
	case commit <= l.Committed:
		return nil
	}
	state.Commit = commit
	if err := w.Save(state, nil); err != nil {
		return fmt.Errorf("write the commit index: %w", err)
	}
	// Save keeps a bare commit index in a buffer, which is the very fault to
	// repair here.
	if err := w.Sync(); err != nil {
		return fmt.Errorf("write the commit index: %w", err)
	}
	l.Settled = true
	return nil
}

// readApplied returns the index of the last entry in the database. It keeps the
// database locked so that no etcd starts meanwhile.
func readApplied(path string) (uint64, func(), error) {
	if _, err := os.Stat(path); err != nil {
		return 0, nil, fmt.Errorf("open the database: %w", err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockWait})
	if errors.Is(err, berrors.ErrTimeout) {
		return 0, nil, fmt.Errorf("open %s: etcd runs; stop it first: %w", path, err)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("open %s: %w", path, err)
	}
	var applied uint64
	err = db.View(func(tx *bbolt.Tx) error {
		// An interrupted first start leaves a database without it.
		if meta := tx.Bucket([]byte("meta")); meta != nil {
			if v := meta.Get([]byte("consistent_index")); len(v) == 8 {
				applied = binary.BigEndian.Uint64(v)
			}
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return 0, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return applied, func() { _ = db.Close() }, nil
}

// open opens the log as etcd does: from the newest snapshot that both the log
// and the folder know, and with a torn last record cut off.
func open(dir string, l *Log) (*wal.WAL, raftpb.HardState, error) {
	nop, walDir := zap.NewNop(), filepath.Join(dir, "member/wal")
	known, err := wal.ValidSnapshotEntries(nop, walDir)
	if err != nil {
		return nil, raftpb.HardState{}, fmt.Errorf("read the snapshots named in %s: %w", walDir, err)
	}
	var from walpb.Snapshot
	newest, err := snap.New(nop, filepath.Join(dir, "member/snap")).LoadNewestAvailable(known)
	switch {
	case err == nil:
		from.Index, from.Term = newest.Metadata.Index, newest.Metadata.Term
	case !errors.Is(err, snap.ErrNoSnapshot):
		return nil, raftpb.HardState{}, fmt.Errorf("read the snapshots of %s: %w", dir, err)
	}
	w, state, entries, err := readAll(nop, walDir, from)
	if errors.Is(err, io.ErrUnexpectedEOF) && wal.Repair(nop, walDir) {
		w, state, entries, err = readAll(nop, walDir, from)
	}
	if err != nil {
		return nil, state, fmt.Errorf("read the log in %s: %w", walDir, err)
	}
	l.Last, l.Term, l.Committed = from.Index, from.Term, state.Commit
	if n := len(entries); n > 0 {
		l.Last, l.Term = entries[n-1].Index, entries[n-1].Term
	}
	return w, state, nil
}

func readAll(log *zap.Logger, dir string, from walpb.Snapshot) (*wal.WAL, raftpb.HardState, []raftpb.Entry, error) {
	w, err := wal.Open(log, dir, from)
	if err != nil {
		return nil, raftpb.HardState{}, nil, err
	}
	_, state, entries, err := w.ReadAll()
	if err != nil {
		return nil, state, nil, errors.Join(err, w.Close())
	}
	return w, state, entries, nil
}
