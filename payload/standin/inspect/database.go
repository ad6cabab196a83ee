package inspect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/holdfast/holdfast/payload/standin/takeover"
)

const (
	// lockWait bounds the wait for a lock on the database: an etcd that has
	// just ended may still be closing its files.
	lockWait = 100 * time.Millisecond
	// walkLimit bounds the read of all keys. Of a large database on a slow disk
	// it reads only the beginning.
	walkLimit = 150 * time.Millisecond
)

// errBroken is wrapped by the errors of a database that etcd could not use.
var errBroken = errors.New("the database is broken")

// database is etcd's database, open for reading and locked.
type database struct {
	bolt    *bbolt.DB
	applied uint64
	members map[takeover.ID]Member
}

// openDatabase opens a database and reads its own description.
func openDatabase(path string) (*database, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 { // bbolt would make a new one
		return nil, fmt.Errorf("%w: it is empty", errBroken)
	}
	var bolt *bbolt.DB
	err = guarded(func() (err error) {
		bolt, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockWait})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: %w", path, ErrRuns)
	}
	if errors.As(err, new(*fs.PathError)) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	d := &database{bolt: bolt}
	if err := guarded(func() error { return bolt.View(d.read) }); err != nil {
		d.close()
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	return d, nil
}

func (d *database) close() {
	if d != nil {
		_ = d.bolt.Close()
	}
}

func (d *database) read(tx *bbolt.Tx) error {
	if meta := tx.Bucket([]byte("meta")); meta != nil {
		if v := meta.Get([]byte("consistent_index")); len(v) == 8 {
			d.applied = binary.BigEndian.Uint64(v)
		}
	}
	d.members = map[takeover.ID]Member{}
	bucket := tx.Bucket([]byte("members"))
	if bucket == nil {
		return nil
	}
	return bucket.ForEach(func(key, value []byte) error {
		id, err := strconv.ParseUint(string(key), 16, 64)
		if err != nil {
			return fmt.Errorf("the member %q cannot be parsed: %w", key, err)
		}
		var m struct {
			Name    string `json:"name"`
			Learner bool   `json:"isLearner"`
		}
		if err := json.Unmarshal(value, &m); err != nil {
			return fmt.Errorf("the member %s cannot be parsed: %w", key, err)
		}
		d.members[takeover.ID(id)] = Member{ID: takeover.ID(id), Name: m.Name, Learner: m.Learner}
		return nil
	})
}

var errEnough = errors.New("enough")

// walk reads every key, as etcd does when it starts, for a limited time.
func (d *database) walk() error {
	until := time.Now().Add(walkLimit)
	err := guarded(func() error {
		return d.bolt.View(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return inOrder(b, until) })
		})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return nil
}

// inOrder checks that the keys of a bucket ascend.
func inOrder(b *bbolt.Bucket, until time.Time) error {
	var last []byte
	n := 0
	return b.ForEach(func(key, _ []byte) error {
		if last != nil && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("the key %x comes after %x", key, last)
		}
		last = key
		if n++; n%1000 == 0 && time.Now().After(until) {
			return errEnough
		}
		return nil
	})
}

// guarded turns a panic into an error. It does the same with the fault on a
// page behind the end of a truncated file. bbolt checks for neither.
func guarded(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return do()
}
