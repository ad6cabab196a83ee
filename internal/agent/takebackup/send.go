package takebackup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/model/backup"
)

// sending returns the id of the folder with the encrypted copy of a backup.
func sending(id string) string { return "sent-" + id }

// send sends a backup to each target that lacks it. A failure of one target does not keep the
// backup from the others.
func (r *Run) send(ctx context.Context, req backup.Request, entry backup.Entry) error {
	lack := slices.DeleteFunc(slices.Clone(req.Targets), func(t backup.Target) bool { return entry.Has(t.Name) })
	if len(lack) == 0 {
		return nil
	}
	file, sent, err := r.encrypt(ctx, req, entry)
	switch {
	case err == nil:
		for _, t := range lack {
			if err = r.sendTo(ctx, t, file, sent, req.Recipients, &entry); err != nil {
				break
			}
		}
	case !errors.Is(err, errRotten) && context.Cause(ctx) == nil:
		err = errors.Join(err, r.unsent(lack, entry, err))
	}
	return errors.Join(err, r.Effect(func() error { return r.Catalogue.Abandon(sending(entry.ID)) }))
}

// unsent writes into the entry why no target gets the backup.
func (r *Run) unsent(lack []backup.Target, entry backup.Entry, why error) error {
	for _, t := range lack {
		entry = r.failed(t, entry, r.Now().UTC(), why)
	}
	return r.Effect(func() error { return r.Catalogue.Update(entry) })
}

// failed returns the entry with a try that a target did not take.
func (r *Run) failed(t backup.Target, entry backup.Entry, tried time.Time, why error) backup.Entry {
	r.state.NotSent = append(r.state.NotSent, t.Name+": "+why.Error())
	return entry.WithCopy(backup.Copy{Target: t.Name, Tried: tried, Failed: why.Error()})
}

// errRotten is returned if the archive has changed since it was proven.
var errRotten = errors.New("the archive on this host is not the one that was proven good: its disk may be failing")

// encrypt encrypts the archive into a file beside it. If the bytes that it reads are not those
// that were proven, the backup is bad from then on.
func (r *Run) encrypt(ctx context.Context, req backup.Request, entry backup.Entry) (file string, sent backup.File, err error) {
	r.phase(backup.PhaseEncrypt, "", entry.File.Size)
	if err := r.roomFor(entry); err != nil {
		return "", backup.File{}, err
	}
	var dir string
	if err := r.Effect(func() (err error) { dir, err = r.Catalogue.Begin(sending(entry.ID)); return err }); err != nil {
		return "", backup.File{}, err
	}
	file = filepath.Join(dir, entry.ID+backup.SentSuffix)
	var plain string
	err = r.Effect(func() error {
		in, err := os.Open(r.Catalogue.Archive(entry.ID))
		if err != nil {
			return err
		}
		err = create(file, func(w io.Writer) error {
			plain, sent, err = archive.Encrypt(ctx, &slowed{ctx: ctx, w: w, said: r.progress}, in, req.Recipients)
			return err
		})
		return errors.Join(err, in.Close())
	})
	if err != nil {
		return "", backup.File{}, err
	}
	sent.Name = filepath.Base(file)
	if plain != entry.File.SHA256 {
		entry.Checks = append(entry.Checks, r.check("reread", false, "", "its digest has changed"))
		r.state.Good = false
		return "", backup.File{}, errors.Join(errRotten, r.Effect(func() error { return r.Catalogue.Update(entry.Judge()) }))
	}
	return file, sent, nil
}

// roomFor returns an error unless there is room for the encrypted archive.
func (r *Run) roomFor(entry backup.Entry) error {
	free, err := r.Snapshot.Free(r.Catalogue.Dir)
	if err != nil {
		return err
	}
	if need := uint64(entry.File.Size)/10*11 + r.Snapshot.Line; free < need { //nolint:gosec // a size is not negative
		return fmt.Errorf("the encrypted archive needs %d MiB in %s beside the %d MiB that must stay free there, and %d MiB are free",
			uint64(entry.File.Size)/10*11>>20+1, r.Catalogue.Dir, r.Snapshot.Line>>20, free>>20) //nolint:gosec // as above
	}
	return nil
}

// sendTo sends to one target and writes the result into the entry. An error means that the entry
// cannot be written, or that the whole run has to end.
func (r *Run) sendTo(ctx context.Context, t backup.Target, file string, sent backup.File, recipients []string, entry *backup.Entry) error {
	r.phase(backup.PhaseSend, t.Name, 0)
	c := backup.Copy{Target: t.Name, File: sent, Recipients: recipients, Tried: r.Now().UTC()}
	err := r.Effect(func() error { return r.upload(ctx, t, file, sent, c, *entry) })
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		*entry = r.failed(t, *entry, c.Tried, err)
	} else {
		c.Sent, c.Verified = c.Tried, r.Now().UTC()
		*entry = entry.WithCopy(c)
	}
	return r.Effect(func() error { return r.Catalogue.Update(*entry) })
}

// errSendTooLong ends the work for one target.
var errSendTooLong = errors.New("the target took longer than its limit")

// upload writes the archive and then its entry, which says that the archive is whole. Each
// is read back. The entry of a sending whose end was not written down goes first: each sending has
// another archive, and beside that one the former entry would be wrong.
func (r *Run) upload(ctx context.Context, t backup.Target, file string, sent backup.File, c backup.Copy, entry backup.Entry) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.ToSend(sent.Size), errSendTooLong)
	defer cancel()
	to, err := r.Open(ctx, t)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	limits := target.Limits{Idle: r.limits.Idle, BytesPerSecond: r.limits.BytesPerSecond}
	r.clear(ctx, to, t.Name, entry, limits)
	_ = target.Remove(ctx, to, backup.SentEntryName(entry.Site, entry.Host, entry.ID)) // an account that may not remove can still send
	if err := target.Send(ctx, to, backup.SentName(entry.Site, entry.Host, entry.ID), file, sent, limits); err != nil {
		return err
	}
	c.Sent, c.Verified = c.Tried, r.Now().UTC()
	text, err := entry.WithCopy(c).Encode()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	return target.SendFrom(ctx, to, backup.SentEntryName(entry.Site, entry.Host, entry.ID), bytes.NewReader(text),
		backup.File{Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}, limits)
}

// clear removes what copies that were cut off have left in the folder of this host at a target. An
// account that may not list leaves it there, and one that may not remove says so.
func (r *Run) clear(ctx context.Context, to target.Target, name string, entry backup.Entry, l target.Limits) {
	entries, _, err := r.Catalogue.List()
	if err != nil {
		return
	}
	files, err := target.List(ctx, to, path.Dir(backup.SentName(entry.Site, entry.Host, entry.ID)), l)
	if err != nil {
		return
	}
	for _, left := range backup.CutOff(files, entry, name, entries) {
		if err := target.Remove(ctx, to, left); err != nil {
			r.state.Left = append(r.state.Left, fmt.Sprintf("%s at %s, which was cut off: %v", left, name, err))
			return
		}
	}
}

// remove removes the backups that the request names: at the targets first, then on this host.
func (r *Run) remove(ctx context.Context, req backup.Request) error {
	if len(req.Remove) == 0 {
		return nil
	}
	r.phase(backup.PhaseRemove, "", 0)
	for _, id := range req.Remove {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		entries, _, err := r.Catalogue.List()
		if err != nil {
			return err
		}
		entry, may := removable(entries, id, req, r.Now())
		if !may {
			continue
		}
		r.removeCopies(ctx, req.Targets, entry)
		if err := r.Effect(func() error { return r.Catalogue.Remove(id) }); err != nil {
			return err
		}
	}
	return nil
}

// removable finds a backup of this host, and reports whether it may go: the last good one may not,
// nor the last one with a copy at a target. Those of a clock that was ahead count for nothing beside
// another one, since nobody takes them for the newest.
func removable(entries []backup.Entry, id string, req backup.Request, now time.Time) (backup.Entry, bool) {
	i := slices.IndexFunc(entries, func(e backup.Entry) bool { return e.ID == id && e.Host == req.Host })
	if i < 0 {
		return backup.Entry{}, false
	}
	if !entries[i].Good {
		return entries[i], true
	}
	ahead := backup.Ahead(entries[i].Taken, now)
	others := slices.DeleteFunc(slices.Clone(entries), func(e backup.Entry) bool {
		return !e.Good || e.ID == id || !ahead && backup.Ahead(e.Taken, now)
	})
	last := slices.ContainsFunc(req.Targets, func(t backup.Target) bool {
		return entries[i].Has(t.Name) && !slices.ContainsFunc(others, func(e backup.Entry) bool { return e.Has(t.Name) })
	})
	return entries[i], len(others) > 0 && !last
}

// removeCopies removes the copies of a backup. A target that refuses or does not answer keeps its
// copy: a dead target must not fill the disk of the host.
func (r *Run) removeCopies(ctx context.Context, targets []backup.Target, entry backup.Entry) {
	for _, t := range targets {
		if !entry.Has(t.Name) {
			continue
		}
		if err := r.Effect(func() error { return r.removeCopy(ctx, t, entry) }); err != nil {
			r.state.Left = append(r.state.Left, fmt.Sprintf("%s at %s: %v", entry.ID, t.Name, err))
		}
	}
}

// removeCopy removes the entry first: an archive without an entry counts as no backup.
func (r *Run) removeCopy(ctx context.Context, t backup.Target, entry backup.Entry) error {
	to, err := r.Open(ctx, t)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	return errors.Join(
		target.Remove(ctx, to, backup.SentEntryName(entry.Site, entry.Host, entry.ID)),
		target.Remove(ctx, to, backup.SentName(entry.Site, entry.Host, entry.ID)))
}
