// Package contents reads the objects in a snapshot of etcd without an etcd: it opens the database
// for reading only, takes the newest revision of each key, decrypts what an API server encrypted,
// and decodes it.
//
// The snapshot was compared with its digest before; see package archive. The package writes
// nothing.
package contents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Names of etcd's buckets, and of the revision up to which it has forgotten older ones.
var (
	bucketOfKeys = []byte("key")
	bucketOfMeta = []byte("meta")
	compacted    = []byte("finishedCompactRev")
)

// A key of the database is a revision: two numbers of eight bytes with '_' between them, and 't'
// behind them if the revision deletes.
const (
	revisionLength = 17
	deletes        = 't'
)

// lockLimit bounds the wait for a database that somebody else has open.
const lockLimit = time.Second

// Snapshot is an open snapshot of etcd. The caller closes it.
type Snapshot struct {
	db *bbolt.DB
	// live has the newest revision of each key that was not deleted, by key.
	live  []entry
	stats Stats
}

type entry struct {
	key      string
	revision []byte
}

// Stats describes a snapshot.
type Stats struct {
	// Revision is the newest one, and Compacted the one up to which older ones are forgotten.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Keys counts those that were not deleted, and Revisions all changes that etcd still has.
	Keys      int `json:"keys"`
	Revisions int `json:"revisions"`
	// Size is that of the database in bytes, and Values that of the newest values.
	Size   int64 `json:"size"`
	Values int64 `json:"values"`
}

// Open opens a snapshot and lists its keys.
func Open(ctx context.Context, path string) (s *Snapshot, err error) {
	defer fromPanic(path, &err)
	db, err := bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true, Timeout: lockLimit})
	if err != nil {
		return nil, fmt.Errorf("open the snapshot %s: %w", path, err)
	}
	s = &Snapshot{db: db}
	if err := db.View(func(tx *bbolt.Tx) error { return s.list(ctx, tx) }); err != nil {
		return nil, errors.Join(fmt.Errorf("read the snapshot %s: %w", path, err), db.Close())
	}
	return s, nil
}

// fromPanic makes an error of a panic: the library panics over pages that contradict each other.
func fromPanic(path string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("read the snapshot %s: its pages are damaged: %v", path, r)
	}
}

// Close closes the snapshot.
func (s *Snapshot) Close() error { return s.db.Close() }

// Stats returns what is known of the snapshot as a whole.
func (s *Snapshot) Stats() Stats { return s.stats }

// checkEvery is the number of revisions after which the end of the context is noticed.
const checkEvery = 1 << 12

// list goes from the newest revision to the oldest, so the first revision of a key is its newest.
func (s *Snapshot) list(ctx context.Context, tx *bbolt.Tx) error {
	keys := tx.Bucket(bucketOfKeys)
	if keys == nil {
		return errors.New("it is no database of etcd: it has no keys")
	}
	if meta := tx.Bucket(bucketOfMeta); meta != nil {
		s.stats.Compacted = mainOf(meta.Get(compacted))
	}
	s.stats.Size = tx.Size()
	seen := map[string]struct{}{}
	c := keys.Cursor()
	for revision, value := c.Last(); revision != nil; revision, value = c.Prev() {
		if s.stats.Revisions++; s.stats.Revisions%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.note(seen, revision, value); err != nil {
			return err
		}
	}
	slices.SortFunc(s.live, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	s.stats.Keys = len(s.live)
	return nil
}

func (s *Snapshot) note(seen map[string]struct{}, revision, value []byte) error {
	s.stats.Revision = max(s.stats.Revision, mainOf(revision))
	kv, err := decodeEntry(revision, value)
	if err != nil {
		return err
	}
	if _, newer := seen[string(kv.Key)]; newer {
		return nil
	}
	seen[string(kv.Key)] = struct{}{}
	if len(revision) > revisionLength && revision[revisionLength] == deletes {
		return nil
	}
	s.stats.Values += int64(len(kv.Value))
	s.live = append(s.live, entry{string(kv.Key), bytes.Clone(revision)})
	return nil
}

func decodeEntry(revision, value []byte) (kv mvccpb.KeyValue, err error) {
	if len(revision) < revisionLength {
		return kv, fmt.Errorf("a revision has %d bytes", len(revision))
	}
	if err := kv.Unmarshal(value); err != nil {
		return kv, fmt.Errorf("the entry of revision %d: %w", mainOf(revision), err)
	}
	return kv, nil
}

// mainOf returns the number of a revision, 0 for none.
func mainOf(revision []byte) int64 {
	if len(revision) < revisionLength {
		return 0
	}
	return int64(binary.BigEndian.Uint64(revision)) //nolint:gosec // etcd writes no number that is too large
}

// Value is the newest value of a key.
type Value struct {
	Key      string
	Revision int64
	Data     []byte
}

// Each calls visit with the newest value of each key that begins with a prefix, in the order of
// the keys, until visit returns an error.
func (s *Snapshot) Each(ctx context.Context, prefix string, visit func(Value) error) (err error) {
	defer fromPanic(s.db.Path(), &err)
	first, _ := slices.BinarySearchFunc(s.live, prefix, func(e entry, p string) int { return cmp.Compare(e.key, p) })
	return s.db.View(func(tx *bbolt.Tx) error {
		keys := tx.Bucket(bucketOfKeys)
		for _, e := range s.live[first:] {
			if !strings.HasPrefix(e.key, prefix) {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			kv, err := decodeEntry(e.revision, keys.Get(e.revision))
			if err != nil {
				return err
			}
			if err := visit(Value{Key: e.key, Revision: kv.ModRevision, Data: kv.Value}); err != nil {
				return err
			}
		}
		return nil
	})
}
