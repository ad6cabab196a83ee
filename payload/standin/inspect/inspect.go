// Package inspect examines the data directory of an etcd that is down: which
// member it belongs to, which members it knows, and whether etcd could start
// from it. It changes nothing, not even what etcd itself would repair.
package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/holdfast/holdfast/payload/standin/takeover"
)

// Copy is the condition of a data directory.
type Copy string

// Conditions of a data directory.
const (
	None    Copy = "none"    // nothing that etcd ever acknowledged
	Whole   Copy = "whole"   // etcd can start from it
	Damaged Copy = "damaged" // it holds something that etcd refuses
)

// ErrRuns is returned for a data directory that an etcd has open.
var ErrRuns = errors.New("etcd runs; stop it first")

// Data describes a data directory.
type Data struct {
	Copy    Copy        `json:"copy"`
	Cluster takeover.ID `json:"cluster,omitzero"`
	Member  takeover.ID `json:"member,omitzero"`
	// Members is the committed membership, as far as the data directory knows.
	Members []Member `json:"members,omitempty"`
	// Reason tells why it is not whole.
	Reason string `json:"reason,omitempty"`
}

// Member is one member.
type Member struct {
	ID      takeover.ID `json:"id"`
	Name    string      `json:"name,omitempty"`
	Learner bool        `json:"learner,omitempty"`
}

// Inspect examines a data directory. An error means that this was not possible;
// defects of the data itself are in the result.
func Inspect(dir string) (Data, error) {
	member := filepath.Join(dir, "member")
	names, err := segments(filepath.Join(member, "wal"))
	if err != nil {
		return Data{}, err
	}
	db, err := openDatabase(filepath.Join(member, "snap/db"))
	if err != nil && !errors.Is(err, errBroken) && !errors.Is(err, fs.ErrNotExist) {
		return Data{}, err
	}
	defer db.close()
	switch {
	case len(names) == 0:
		return withoutLog(db, err), nil
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("there is a log but no database")
	}
	data, readErr := examine(member, names, db)
	if errors.As(readErr, new(*fs.PathError)) {
		return Data{}, readErr
	}
	if err = errors.Join(err, readErr); err != nil {
		data.Copy, data.Members, data.Reason = Damaged, nil, err.Error()
		return data, nil
	}
	data.Copy = Whole
	return data, nil
}

// withoutLog judges a data directory without a log. etcd makes the database
// before the log, and writes to it only entries of the log. An empty database
// is therefore the rest of an interrupted first start.
func withoutLog(db *database, err error) Data {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Data{Copy: None, Reason: "there is neither a log nor a database"}
	case err != nil:
		return Data{Copy: Damaged, Reason: "there is no log, and " + err.Error()}
	case db.applied == 0 && len(db.members) == 0:
		return Data{Copy: None, Reason: "a first start was cut off: the database is empty"}
	default:
		return Data{Copy: Damaged, Reason: fmt.Sprintf("the log is gone; the database holds index %d", db.applied)}
	}
}

// examine reads the log, and compares it with the database, which may be nil.
func examine(member string, names []string, db *database) (Data, error) {
	log, err := readLog(filepath.Join(member, "wal"), names)
	data := Data{Cluster: log.cluster, Member: log.member}
	if err != nil || db == nil {
		return data, err
	}
	at, err := log.snapshot(filepath.Join(member, "snap"))
	if err != nil {
		return data, err
	}
	if at > db.applied { // the leader sent a snapshot, and etcd was about to use it
		newer, err := openDatabase(filepath.Join(member, "snap", fmt.Sprintf("%016x.snap.db", at)))
		if err != nil {
			return data, fmt.Errorf("the database holds index %d, but the database of the snapshot at %d cannot be read: %w", db.applied, at, err)
		}
		defer newer.close()
		db = newer
	}
	if err := errors.Join(log.fits(at, db.applied), db.walk()); err != nil {
		return data, err
	}
	data.Members, err = log.membersAfter(db)
	return data, err
}

// snapshot returns the index of the snapshot that etcd would start from: the
// newest that both the log and the folder know. 0 means none.
func (l *logFile) snapshot(dir string) (uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	slices.Reverse(entries) // newest first
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".snap") {
			continue
		}
		s, err := snap.Read(zap.NewNop(), filepath.Join(dir, e.Name()))
		if err == nil && l.knows(s) {
			return s.Metadata.Index, nil
		}
	}
	return 0, nil
}

func (l *logFile) knows(s *raftpb.Snapshot) bool {
	for _, k := range l.snapshots {
		if k.Index == s.Metadata.Index && k.Term == s.Metadata.Term && k.Index <= l.commit {
			return true
		}
	}
	return false
}
