// Package takebackup carries out one request for a backup: it takes a snapshot of etcd,
// proves that it can be restored, packs it with the files of the host, and sends it
// encrypted to targets. `holdfast-agent backup` is the program; a unit that the agent starts
// runs it.
//
// A run may be cut off anywhere. A backup appears in the catalogue in one step, after
// everything that proves it; the next run removes the rest of a run that was cut off.
// The package owns backup.Dir through the catalogue, backup.StatePath, and this host's folder at
// each target. It changes nothing of etcd.
package takebackup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/backup/catalogue"
	"github.com/holdfast/holdfast/internal/adapter/backup/snapshot"
	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/adapter/eviction"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// Run has everything that is needed to carry out a request.
type Run struct {
	Catalogue catalogue.Catalogue
	Snapshot  snapshot.Taker
	// Root is "/" except in tests; Paths are the files to gather below it.
	Root  string
	Paths []backup.HostPath
	// Release says what this host runs.
	Release func() backup.Release
	// Open opens a target.
	Open func(ctx context.Context, t backup.Target) (target.Target, error)
	Now  func() time.Time
	// Say is called with the state of the run whenever it changes.
	Say func(backup.State)
	// Effect carries out a step that changes a disk; a test cuts the power before or after it.
	Effect func(do func() error) error

	state  backup.State
	limits backup.Limits
}

// New returns the run of this host, with the client of its etcd.
func New(e snapshot.Etcd, release func() backup.Release) *Run {
	return &Run{
		Catalogue: catalogue.Catalogue{Dir: backup.Dir},
		Snapshot:  snapshot.Taker{Etcd: e, Now: time.Now, Free: host.FreeSpace, Line: eviction.KeptAt(backup.Dir)},
		Root:      "/", Paths: backup.HostPaths(), Release: release, Open: target.Open, Now: time.Now, Say: sayer(time.Now),
		Effect: func(do func() error) error { return do() },
	}
}

// sayEvery is the least time between two writes of the same phase.
const sayEvery = time.Second

// sayer writes the file of the state. If that fails, the backup goes on.
func sayer(now func() time.Time) func(backup.State) {
	var last time.Time
	var phase backup.Phase
	return func(s backup.State) {
		if !s.Ended && s.Phase == phase && now().Sub(last).Abs() < sayEvery {
			return
		}
		last, phase = now(), s.Phase
		if text, err := json.Marshal(s); err == nil {
			_ = host.WriteFileAtomic(backup.StatePath, text, 0o600)
		}
	}
}

// errTooLong ends a run.
var errTooLong = errors.New("it took longer than its limit")

// Do carries a request out. An error says why there is no good backup. A target that was
// not reached is in the state, and is no error.
func (r *Run) Do(ctx context.Context, req backup.Request) (backup.State, error) {
	r.limits = req.Limits.Complete()
	r.state = backup.State{Request: req.ID, Began: r.Now().UTC(), Phase: backup.PhaseLook}
	r.say()
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.Total, errTooLong)
	defer cancel()
	err := r.do(ctx, req)
	if err != nil {
		r.state.Failed = err.Error()
	} else {
		r.phase(backup.PhaseDone, "", 0)
	}
	r.state.Ended = true
	r.say()
	return r.state, err
}

func (r *Run) do(ctx context.Context, req backup.Request) error {
	unlock, err := r.Catalogue.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.Effect(r.Catalogue.Sweep); err != nil {
		return err
	}
	if req.ID != "" {
		err := r.backup(ctx, req)
		if err != nil && r.state.Good && context.Cause(ctx) == nil {
			// It is good and was not sent. On a full disk it is the removal that makes room.
			return errors.Join(err, r.remove(ctx, req))
		}
		if err != nil {
			return err
		}
	}
	return r.remove(ctx, req)
}

// backup takes a backup, unless it is in the catalogue already, and sends it.
func (r *Run) backup(ctx context.Context, req backup.Request) error {
	entry, err := r.have(req.ID)
	if err != nil {
		return err
	}
	if entry.ID == "" {
		// A slow line gets more time than the default. etcd does not: it is asked for as long as ever.
		taking, cancel := context.WithTimeoutCause(ctx, min(r.limits.Total, backup.DefaultTotal), errTooLong)
		entry, err = r.take(taking, req)
		cancel()
		if err != nil {
			return err
		}
	}
	r.state.Good = true
	r.say()
	return r.send(ctx, req, entry)
}

// have returns the entry of a backup in the catalogue; the zero value if there is none.
func (r *Run) have(id string) (backup.Entry, error) {
	entries, broken, err := r.Catalogue.List()
	if err != nil {
		return backup.Entry{}, err
	}
	if i := slices.IndexFunc(broken, func(b catalogue.Broken) bool { return b.ID == id }); i >= 0 {
		return backup.Entry{}, broken[i].Err
	}
	i := slices.IndexFunc(entries, func(e backup.Entry) bool { return e.ID == id })
	if i < 0 {
		return backup.Entry{}, nil
	}
	if !entries[i].Good {
		return backup.Entry{}, fmt.Errorf("backup %s is on this host already, and is not good: %s", id, entries[i].Why())
	}
	return entries[i], nil
}

func (r *Run) say() {
	r.state.Updated = r.Now().UTC()
	r.Say(r.state)
}

func (r *Run) phase(p backup.Phase, at string, total int64) {
	r.state.Phase, r.state.Target, r.state.Done, r.state.Total = p, at, 0, total
	r.say()
}

// progress takes in how many bytes of a phase are done.
func (r *Run) progress(done int64) {
	r.state.Done = done
	r.say()
}

// tries is how often a snapshot is taken if its parts do not belong together: etcd was
// compacted, or an authority or a key of encryption changed, between two of them.
const tries = 3

// take takes a backup and publishes it in the catalogue.
func (r *Run) take(ctx context.Context, req backup.Request) (backup.Entry, error) {
	for try := 1; ; try++ {
		entry, again, err := r.once(ctx, req)
		if err == nil {
			return entry, nil
		}
		// A failed try must not fill the disk until the next one, so its files are removed.
		err = errors.Join(err, r.Effect(func() error { return r.Catalogue.Abandon(req.ID) }))
		if !again || try == tries || ctx.Err() != nil {
			return backup.Entry{}, err
		}
	}
}

// once tries once; again is true if another try may succeed.
func (r *Run) once(ctx context.Context, req backup.Request) (_ backup.Entry, again bool, _ error) {
	r.phase(backup.PhaseLook, "", 0)
	seen, err := r.Snapshot.Look(ctx, r.Catalogue.Dir)
	if err != nil {
		return backup.Entry{}, false, err
	}
	before, err := r.gather()
	if err != nil {
		return backup.Entry{}, false, err
	}
	entry := backup.Entry{
		Format: backup.Format, ID: req.ID, Site: req.Site, Host: req.Host, Life: req.Life, Reason: req.Reason, Taken: r.Now().UTC().Truncate(time.Second),
		Release: r.Release(),
	}
	entry.Release.Etcd = seen.Status.Version
	var dir string
	if err := r.Effect(func() (err error) { dir, err = r.Catalogue.Begin(req.ID); return err }); err != nil {
		return backup.Entry{}, false, err
	}
	if entry, err = r.snapshot(ctx, dir, seen, entry); err != nil {
		return backup.Entry{}, false, err
	}
	files, err := r.gather()
	if err != nil {
		return backup.Entry{}, false, err
	}
	entry.Missing, entry.Authorities = files.Missing, archive.Authorities(files.Files)
	entry.Checks = append(entry.Checks, r.sameKeys(before, files))
	if entry = entry.Judge(); !entry.Good {
		return backup.Entry{}, entry.Again(), fmt.Errorf("the backup is not good, and was thrown away: %s", entry.Why())
	}
	entry, err = r.pack(ctx, dir, entry, files.Files)
	return entry, false, err
}

// sameKeys checks that the keys of the files are those of the snapshot. The snapshot may have
// objects under a key of encryption that was replaced, and dropped from the file, before it ended.
func (r *Run) sameKeys(before, after archive.Gathered) backup.Check {
	same := slices.Equal(archive.Authorities(after.Files), archive.Authorities(before.Files)) &&
		bytes.Equal(after.Data(apiserver.EncryptionPath), before.Data(apiserver.EncryptionPath))
	check := r.check("authorities", same, "the authorities and the keys of encryption of this host were the same before and after the snapshot",
		"an authority or a key of encryption of this host changed while the snapshot was taken")
	check.Again = !same
	return check
}

// gather reads the files of this host.
func (r *Run) gather() (archive.Gathered, error) {
	g, err := archive.Gather(r.Root, r.Paths)
	if err != nil {
		return g, fmt.Errorf("read the files of this host for a backup: %w", err)
	}
	if len(g.Lacks) > 0 {
		return g, fmt.Errorf("this host lacks files without which no backup can be restored: %v", g.Lacks)
	}
	return g, nil
}

func (r *Run) check(name string, ok bool, yes, no string) backup.Check {
	c := backup.Check{Name: name, At: r.Now().UTC(), OK: ok, Says: yes}
	if !ok {
		c.Says = no
	}
	return c
}

// snapshot takes and verifies the snapshot.
func (r *Run) snapshot(ctx context.Context, dir string, seen snapshot.Seen, entry backup.Entry) (backup.Entry, error) {
	r.phase(backup.PhaseSnapshot, "", seen.Status.DBSize)
	taker := r.Snapshot
	taker.Through = func(ctx context.Context, w io.Writer) io.Writer {
		return &slowed{ctx: ctx, w: w, rate: r.limits.BytesPerSecond, said: r.progress}
	}
	err := r.Effect(func() (err error) { seen, err = taker.Take(ctx, dir, seen); return err })
	if err != nil {
		return entry, err
	}
	r.phase(backup.PhaseRestore, "", 0)
	err = r.Effect(func() (err error) { entry.Database, entry.Checks, err = taker.Verify(ctx, dir, seen); return err })
	return entry, err
}

// slowed is a writer that counts the bytes, and slows them down to a rate.
type slowed struct {
	ctx  context.Context //nolint:containedctx // it lives as long as one snapshot
	w    io.Writer
	n    int64
	rate int64
	said func(int64)
}

func (s *slowed) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		return n, err
	}
	s.n += int64(n)
	s.said(s.n)
	return n, target.Slow(s.ctx, int64(n), s.rate)
}
