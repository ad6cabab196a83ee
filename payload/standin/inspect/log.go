package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/holdfast/holdfast/payload/standin/settle"
	"github.com/holdfast/holdfast/payload/standin/takeover"
)

// logFile describes a write-ahead log. It keeps only the entries that concern
// members.
type logFile struct {
	cluster, member takeover.ID
	metadata        bool
	snapshots       []walpb.Snapshot
	commit          uint64
	first, last     uint64 // index of the first and the last entry, 0 if there is none
	members         []raftpb.Entry
}

// segments lists the files of a log in their order. A missing folder is an
// empty log.
func segments(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".wal") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// readLog reads all files of a log, as etcd does when it starts. The last
// record of the last file may be torn: etcd cuts it off, because it was never
// acknowledged.
func readLog(dir string, names []string) (*logFile, error) {
	l := new(logFile)
	var crc uint32
	for i, name := range names {
		if err := follows(names, i); err != nil {
			return l, err
		}
		err := l.readSegment(filepath.Join(dir, name), &crc)
		if errors.Is(err, io.ErrUnexpectedEOF) && i == len(names)-1 {
			err = nil
		}
		if err != nil {
			return l, fmt.Errorf("read the log file %s: %w", name, err)
		}
	}
	if !l.metadata {
		return l, errors.New("the log has no metadata record with its cluster and member")
	}
	return l, nil
}

// follows checks that no file is missing before the i-th.
func follows(names []string, i int) error {
	var seq, index, before uint64
	if _, err := fmt.Sscanf(names[i], "%016x-%016x.wal", &seq, &index); err != nil {
		return fmt.Errorf("the name of the log file %s cannot be parsed: %w", names[i], err)
	}
	if i == 0 {
		return nil
	}
	if _, err := fmt.Sscanf(names[i-1], "%016x-%016x.wal", &before, &index); err != nil || seq != before+1 {
		return fmt.Errorf("a log file is missing before %s", names[i])
	}
	return nil
}

func (l *logFile) readSegment(path string, crc *uint32) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	decoder := wal.NewDecoder(fileutil.NewFileReader(f))
	decoder.UpdateCRC(*crc)
	var rec walpb.Record
	for {
		err := decoder.Decode(&rec)
		if err == nil {
			err = l.add(&rec, decoder)
		}
		if errors.Is(err, io.EOF) {
			*crc = decoder.LastCRC()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// add takes one record.
func (l *logFile) add(rec *walpb.Record, decoder wal.Decoder) error {
	switch rec.Type {
	case wal.EntryType:
		return l.addEntry(rec.Data)
	case wal.StateType:
		var state raftpb.HardState
		if err := state.Unmarshal(rec.Data); err != nil {
			return err
		}
		l.commit = state.Commit
	case wal.MetadataType:
		return l.addMetadata(rec.Data)
	case wal.CrcType:
		if crc := decoder.LastCRC(); crc != 0 && rec.Validate(crc) != nil {
			return wal.ErrCRCMismatch
		}
		decoder.UpdateCRC(rec.Crc)
	case wal.SnapshotType:
		var s walpb.Snapshot
		if err := s.Unmarshal(rec.Data); err != nil {
			return err
		}
		l.snapshots = append(l.snapshots, s)
		l.last = max(l.last, s.Index)
	default:
		return fmt.Errorf("a record of the unknown type %d", rec.Type)
	}
	return nil
}

func (l *logFile) addMetadata(data []byte) error {
	var m etcdserverpb.Metadata
	if err := m.Unmarshal(data); err != nil {
		return err
	}
	if l.metadata && (l.cluster != takeover.ID(m.ClusterID) || l.member != takeover.ID(m.NodeID)) {
		return wal.ErrMetadataConflict
	}
	l.metadata, l.cluster, l.member = true, takeover.ID(m.ClusterID), takeover.ID(m.NodeID)
	return nil
}

// addEntry takes an entry, which replaces all entries from its index on.
func (l *logFile) addEntry(data []byte) error {
	var e raftpb.Entry
	if err := e.Unmarshal(data); err != nil {
		return err
	}
	if l.first == 0 || e.Index < l.first {
		l.first = e.Index
	} else if e.Index > l.last+1 {
		return fmt.Errorf("entries are missing between %d and %d", l.last, e.Index)
	}
	l.last = e.Index
	l.members = slices.DeleteFunc(l.members, func(old raftpb.Entry) bool { return old.Index >= e.Index })
	if e.Type == raftpb.EntryConfChange || named(&e) != nil {
		l.members = append(l.members, e)
	}
	return nil
}

// fits compares the log with the snapshot and the database that etcd would
// start from.
func (l *logFile) fits(snapshot, applied uint64) error {
	switch {
	case applied > l.last:
		return fmt.Errorf("%w: it ends at index %d, but the database holds index %d", settle.ErrLogShort, l.last, applied)
	case l.commit > l.last:
		return fmt.Errorf("%w: it ends at index %d, but records index %d as committed", settle.ErrLogShort, l.last, l.commit)
	case l.first > snapshot+1:
		return fmt.Errorf("the log begins at index %d, but no snapshot reaches that far", l.first)
	default:
		return nil
	}
}

// membersAfter returns the members of the database, after the later changes
// that the log knows as committed.
func (l *logFile) membersAfter(db *database) ([]Member, error) {
	members := db.members
	for i := range l.members {
		e := &l.members[i]
		if e.Index <= db.applied || e.Index > l.commit {
			continue
		}
		if err := apply(members, e); err != nil {
			return nil, fmt.Errorf("read the change of the membership at index %d: %w", e.Index, err)
		}
	}
	out := make([]Member, 0, len(members))
	for _, m := range members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// named returns the request in which a member reports its name, or nil if the
// entry is none.
func named(e *raftpb.Entry) *namedMember {
	const most = 4 << 10 // such a request is short; longer ones are not read
	if e.Type != raftpb.EntryNormal || len(e.Data) == 0 || len(e.Data) > most {
		return nil
	}
	var r etcdserverpb.InternalRaftRequest
	if r.Unmarshal(e.Data) != nil || r.ClusterMemberAttrSet == nil || r.ClusterMemberAttrSet.MemberAttributes == nil {
		return nil
	}
	return &namedMember{takeover.ID(r.ClusterMemberAttrSet.Member_ID), r.ClusterMemberAttrSet.MemberAttributes.Name}
}

type namedMember struct {
	id   takeover.ID
	name string
}

// added is the content of an etcd entry that adds or promotes a member.
type added struct {
	Name    string `json:"name"`
	Learner bool   `json:"isLearner"`
	Promote bool   `json:"isPromote"`
}

// apply applies an entry as etcd does.
func apply(members map[takeover.ID]Member, e *raftpb.Entry) error {
	if n := named(e); n != nil {
		if m, ok := members[n.id]; ok {
			m.Name = n.name
			members[n.id] = m
		}
		return nil
	}
	var change raftpb.ConfChange
	if err := change.Unmarshal(e.Data); err != nil {
		return err
	}
	id := takeover.ID(change.NodeID)
	switch change.Type {
	case raftpb.ConfChangeRemoveNode:
		delete(members, id)
	case raftpb.ConfChangeAddNode, raftpb.ConfChangeAddLearnerNode:
		var about added
		if err := json.Unmarshal(change.Context, &about); err != nil {
			return err
		}
		m := Member{ID: id, Name: about.Name, Learner: about.Learner}
		if old, ok := members[id]; ok && about.Promote {
			m.Name, m.Learner = old.Name, false
		}
		members[id] = m
	case raftpb.ConfChangeUpdateNode: // only its URLs
	}
	return nil
}
