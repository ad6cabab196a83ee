// Package snapshot takes a snapshot of the local etcd and proves that it can be restored.
//
// It compares everything: the sum that etcd sends after the bytes, the pages of the file, and
// the keys of the file after a restore into an empty folder with those of the living etcd.
// etcdutl reads and restores in a process of its own, because a damaged file can make it panic.
//
// It owns the folder that it is given, and never touches the data of the living etcd.
package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/backup"
)

// Name is the name of the snapshot in its folder; scratch is that of the restored copy.
const (
	Name    = "snapshot.db"
	scratch = "restored"

	scratchName = "scratch"
	scratchURL  = "http://scratch.invalid:2380"
)

// Program is etcdutl of the etcd version that the release brings.
const Program = "/usr/local/bin/etcdutl"

// hashLimit is the size in bytes up to which the living etcd is asked to hash its keys. etcd
// commits nothing while it does so, which takes about a second for each half GiB.
const hashLimit = 512 << 20

// The limits for one question to etcd, for the hash of the living etcd, and for that of the restored
// copy. The copy may have the 8 GiB of the largest quota, a backup has the disk and the processor after
// everything else, and nobody waits for that etcd.
const (
	askLimit     = 5 * time.Second
	hashTime     = 20 * time.Second
	copyHashTime = 10 * time.Minute
)

// Etcd is the local etcd.
type Etcd interface {
	Status(ctx context.Context) (etcd.MemberStatus, error)
	Latest(ctx context.Context) (int64, error)
	HashKV(ctx context.Context, revision int64) (etcd.KVHash, error)
	Snapshot(ctx context.Context, w io.Writer) (int64, error)
}

// Taker takes snapshots.
type Taker struct {
	Etcd Etcd
	// Program is the path of etcdutl, beside which etcd lies; empty for the constant Program.
	Program string
	// Hash hashes the keys of a data directory up to a revision; if it is nil, an etcd does.
	Hash func(ctx context.Context, dataDir string, revision int64) (etcd.KVHash, error)
	Now  func() time.Time
	// Free returns the number of bytes that may be written on the file system of a folder.
	Free func(dir string) (uint64, error)
	// Line is the number of bytes that must stay free.
	Line uint64
	// Through wraps the writer of the snapshot, to count and to slow down; it may be nil.
	Through func(ctx context.Context, w io.Writer) io.Writer
}

// Seen has the facts about etcd before a snapshot.
type Seen struct {
	Status etcd.MemberStatus
	// Read is the revision of a read that needed a quorum.
	Read int64
	// Hash is that of the living etcd at Read; zero if etcd was not asked.
	Hash etcd.KVHash
}

// Errors about an etcd of which no backup can be taken now.
var (
	ErrLearner = errors.New("etcd on this host is a learner: it does not have everything yet")
	ErrSilent  = errors.New("etcd on this host does not serve")
)

// Look asks etcd whether its snapshot would have everything, and whether dir has room for it.
// It returns ErrLearner or ErrSilent if no backup can be taken now.
func (t Taker) Look(ctx context.Context, dir string) (Seen, error) {
	status, err := within(ctx, askLimit, t.Etcd.Status)
	switch {
	case err != nil:
		return Seen{}, fmt.Errorf("%w: %w", ErrSilent, err)
	case status.Learner:
		return Seen{}, ErrLearner
	case !status.Serves || status.Leader == 0:
		return Seen{}, ErrSilent
	}
	if err := t.room(dir, status.DBSize); err != nil {
		return Seen{}, err
	}
	return Seen{Status: status}, nil
}

// room returns an error unless there is room for 2.2 times the size of the database in bytes:
// for the snapshot, and for the restored copy or the archive.
func (t Taker) room(dir string, size int64) error {
	free, err := t.Free(dir)
	if err != nil {
		return err
	}
	if need := uint64(size)/10*22 + t.Line; free < need { //nolint:gosec // a size is not negative
		return fmt.Errorf("a backup needs %d MiB in %s beside the %d MiB that must stay free there, and %d MiB are free: make room on that file system, "+
			"or keep fewer backups", uint64(size)/10*22>>20+1, dir, t.Line>>20, free>>20) //nolint:gosec // as above
	}
	return nil
}

// within asks a question with a time limit.
func within[T any](ctx context.Context, limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ask(ctx)
}

// Take writes the snapshot into dir. First it reads, with a quorum, the revision that the
// snapshot has to reach, and has etcd hash its keys if the database is small enough.
func (t Taker) Take(ctx context.Context, dir string, s Seen) (Seen, error) {
	var err error
	if s.Read, err = within(ctx, askLimit, t.Etcd.Latest); err != nil {
		return s, err
	}
	if s.Status.DBSize <= hashLimit {
		s.Hash, err = within(ctx, hashTime, func(ctx context.Context) (etcd.KVHash, error) { return t.Etcd.HashKV(ctx, s.Read) })
		if err != nil {
			return s, err
		}
	}
	return s, t.write(ctx, filepath.Join(dir, Name))
}

func (t Taker) write(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := io.Writer(f)
	if t.Through != nil {
		w = t.Through(ctx, f)
	}
	if _, err := t.Etcd.Snapshot(ctx, w); err != nil {
		return err
	}
	return f.Sync()
}

// Names of checks, as the catalogue has them.
const (
	CheckSum      = "sum"      // etcd's own over the bytes that it sent
	CheckPages    = "pages"    // the pages of the file
	CheckRevision = "revision" // it reaches what was acknowledged before it began
	CheckRestore  = "restore"  // it was restored into an empty folder
	CheckHash     = "hash"     // the restored keys are those of the living etcd
)

// Verify restores the snapshot in dir into a folder beside it, compares the two, and removes
// that folder. It always returns its results so far; an error means that it could not go on,
// for example because the context ended.
func (t Taker) Verify(ctx context.Context, dir string, s Seen) (backup.Database, []backup.Check, error) {
	v := &verification{Taker: t, ctx: ctx, file: filepath.Join(dir, Name), copy: filepath.Join(dir, scratch), seen: s}
	v.db = backup.Database{
		Cluster: s.Status.Cluster, Member: s.Status.Member, Read: s.Read, RaftIndex: s.Status.RaftIndex, RaftTerm: s.Status.Term, Alarms: s.Status.Errors,
	}
	v.pass(CheckSum, "etcd's own sum is that of the bytes")
	for _, check := range []func() bool{v.pages, v.revision, v.restore, v.hash} {
		if !check() {
			break
		}
	}
	err := errors.Join(context.Cause(ctx), os.RemoveAll(v.copy))
	return v.db, v.checks, err
}

// verification is one run of Verify.
type verification struct {
	Taker
	ctx        context.Context //nolint:containedctx // it lives as long as one call
	file, copy string
	seen       Seen
	db         backup.Database
	checks     []backup.Check
}

func (v *verification) pass(name, format string, args ...any) bool {
	return v.say(name, true, format, args...)
}

func (v *verification) fail(name, format string, args ...any) bool {
	return v.say(name, false, format, args...)
}

func (v *verification) say(name string, ok bool, format string, args ...any) bool {
	v.checks = append(v.checks, backup.Check{Name: name, At: v.Now().UTC(), OK: ok, Says: fmt.Sprintf(format, args...)})
	return ok
}

// fileStatus is the answer of etcdutl about a database.
type fileStatus struct {
	Revision  int64 `json:"revision"`
	TotalKey  int64 `json:"totalKey"`
	TotalSize int64 `json:"totalSize"`
}

func (v *verification) pages() bool {
	var s fileStatus
	if err := v.ask(&s, "snapshot", "status", v.file, "-w", "json"); err != nil {
		return v.fail(CheckPages, "etcdutl cannot read it: %v", err)
	}
	v.db.Revision, v.db.Keys, v.db.Size = s.Revision, s.TotalKey, s.TotalSize
	return v.pass(CheckPages, "%d keys at revision %d in %d bytes", s.TotalKey, s.Revision, s.TotalSize)
}

func (v *verification) revision() bool {
	if v.db.Revision < v.seen.Read {
		return v.fail(CheckRevision, "it ends at revision %d, and %d was acknowledged before it began: etcd on this host lags behind", v.db.Revision, v.seen.Read)
	}
	return v.pass(CheckRevision, "revision %d, at least the %d that was acknowledged before", v.db.Revision, v.seen.Read)
}

func (v *verification) restore() bool {
	if err := os.RemoveAll(v.copy); err != nil {
		return v.fail(CheckRestore, "%v", err)
	}
	// The names lead nowhere: no member of a cluster is ever started from this copy.
	if _, err := v.run("snapshot", "restore", v.file, "--data-dir", v.copy, "--name", scratchName,
		"--initial-advertise-peer-urls", scratchURL, "--initial-cluster", scratchName+"="+scratchURL,
		"--initial-cluster-token", scratchName); err != nil {
		return v.fail(CheckRestore, "etcdutl cannot restore it: %v", err)
	}
	var s fileStatus
	if err := v.ask(&s, "snapshot", "status", v.database(), "-w", "json"); err != nil {
		return v.fail(CheckRestore, "etcdutl cannot read what it restored: %v", err)
	}
	if s.Revision != v.db.Revision || s.TotalKey != v.db.Keys {
		return v.fail(CheckRestore, "the restored copy has %d keys at revision %d, and the snapshot %d at %d", s.TotalKey, s.Revision, v.db.Keys, v.db.Revision)
	}
	return v.pass(CheckRestore, "restored into an empty folder: %d keys at revision %d", s.TotalKey, s.Revision)
}

// database returns the path of the restored copy's database. etcdutl opens a database for
// writing in order to hash it, so it never hashes the snapshot itself.
func (v *verification) database() string { return filepath.Join(v.copy, "member/snap/db") }

func (v *verification) hash() bool {
	hash := v.Hash
	if hash == nil {
		hash = v.hashCopy
	}
	h, err := hash(v.ctx, v.copy, v.seen.Read)
	if err != nil {
		return v.fail(CheckHash, "etcd cannot hash what was restored: %v", err)
	}
	v.db.Hash, v.db.HashRevision, v.db.CompactRevision = h.Hash, h.HashRevision, h.CompactRevision
	live := v.seen.Hash
	switch {
	case live == etcd.KVHash{}:
		return v.pass(CheckHash, "%08x at revision %d; not compared with the living etcd: its database has %d MiB, and writes would wait while it hashes them",
			h.Hash, h.HashRevision, v.seen.Status.DBSize>>20)
	case live.CompactRevision != h.CompactRevision:
		v.fail(CheckHash, "etcd was compacted to revision %d between its hash, of revision %d, and the snapshot, so the two cannot be compared", h.CompactRevision, live.CompactRevision)
		v.checks[len(v.checks)-1].Again = true
		return false
	case live != h:
		return v.fail(CheckHash, "the restored keys have the hash %08x at revision %d, and those of the living etcd %08x at %d", h.Hash, h.HashRevision, live.Hash, live.HashRevision)
	}
	return v.pass(CheckHash, "%08x at revision %d, as the living etcd has it", h.Hash, h.HashRevision)
}

// ask runs etcdutl and decodes its output.
func (v *verification) ask(out any, args ...string) error {
	text, err := v.run(args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("its output cannot be read: %w", err)
	}
	return nil
}

// hashCopy has an etcd over the restored copy hash the keys. `etcdutl hashkv` of etcd 3.6
// panics at the first key with a lease, and each API server writes such keys.
func (v *verification) hashCopy(ctx context.Context, dataDir string, revision int64) (h etcd.KVHash, err error) {
	program, err := EtcdBeside(v.program())
	if err != nil {
		return h, err
	}
	e, err := etcd.OpenScratch(ctx, etcd.Scratch{
		Program: program, DataDir: dataDir, Name: scratchName, PeerURL: scratchURL, Log: io.Discard,
	})
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, copyHashTime)
	defer cancel()
	return e.HashKV(ctx, revision)
}

// EtcdBeside returns the path of the etcd that hashes what an etcdutl, given by its name or its path,
// has restored. It does not look whether that etcd is there. The path is absolute: a name alone would
// be looked up among all programs, and etcd runs in a folder of its own.
func EtcdBeside(etcdutl string) (string, error) {
	program, err := host.LookPath(etcdutl)
	if err != nil {
		return "", err
	}
	return filepath.Abs(filepath.Join(filepath.Dir(program), "etcd"))
}

// run runs etcdutl and returns its output without its log. host.Run bounds its errors.
func (v *verification) run(args ...string) ([]byte, error) {
	return host.Run(v.ctx, host.Command(v.program(), args...))
}

func (v *verification) program() string { return cmp.Or(v.Program, Program) }
