package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	decide "github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// act carries a decision out, and describes the change.
func (a *Agent) act(ctx context.Context, v decide.Verdict, f decide.Facts) (string, error) {
	switch v.Action {
	case decide.Begin:
		return a.begin(ctx, v.Begins, f.Spent)
	case decide.End:
		return a.end(ctx, v)
	case decide.TakeIn:
		return a.takeIn(f)
	case decide.Rest, decide.Wait, decide.Follow:
	}
	return "", nil
}

// begin starts the unit. It writes the journal first: the agent would follow a start that it
// does not remember by another one. A run that only removes begins also if that fails, and is
// remembered until the agent ends: on a disk without a free byte it makes the room for the journal.
func (a *Agent) begin(ctx context.Context, b decide.Begun, spent []string) (string, error) {
	b.Longer = decide.Longer(a.period(a.Now()))
	r := a.wish.Request(b, a.Site, a.Node(), spent)
	text, err := r.Encode()
	if err != nil {
		return "", err
	}
	j := a.journal
	j.Begun = &b
	unwritten := a.remember(j)
	if unwritten != nil && b.ID != "" {
		return "", unwritten
	}
	a.journal = j
	if a.unbegun = a.Start(ctx, text); a.unbegun != nil {
		return "", errors.Join(a.unbegun, unwritten) // the next look takes the first for the end of the run
	}
	if unwritten != nil {
		return "", unwritten
	}
	if b.Reason == decide.Tend {
		return "tends its backups: " + tends(r), nil
	}
	return fmt.Sprintf("takes backup %s (%s)", b.ID, b.Reason), nil
}

func tends(r model.Request) string {
	var out []string
	if r.ID != "" {
		out = append(out, "sends "+r.ID)
	}
	if len(r.Remove) > 0 {
		out = append(out, "removes "+strings.Join(r.Remove, ", "))
	}
	if out == nil {
		return "removes what a run that was cut off left"
	}
	return strings.Join(out, "; ")
}

// end ends the unit, and writes the reason into the journal, so that the end is no failure.
func (a *Agent) end(ctx context.Context, v decide.Verdict) (changed string, err error) {
	if b := a.journal.Begun; b != nil && b.Stop == "" {
		stopped := *b
		stopped.Stop = v.Why
		j := a.journal
		j.Begun = &stopped
		// The unit is ended even if the journal cannot be written: a full disk may be the reason.
		err = a.remember(j)
		changed = fmt.Sprintf("ends backup %s: %s", b.ID, v.Why)
	}
	return changed, errors.Join(a.Stop(ctx), err)
}

// takeIn looks how a run of the unit ended. Only the catalogue decides whether the backup is
// good.
func (a *Agent) takeIn(f decide.Facts) (string, error) {
	b := *a.journal.Begun
	entries, err := a.Catalogue()
	if err != nil {
		return "", err
	}
	before := a.entries
	a.entries, a.read = entries, f.Now
	said, unread := a.State()
	remains, unknown := a.Remains()
	j, changed := a.journal, ""
	switch entry, is := find(entries, b.ID); {
	case b.Reason == decide.Tend:
		left := a.wish.Unsent(entries, f.Now) != "" || len(a.retained(f.Now).Go) > 0
		j, changed = j.Tended(f.Now, left, remains || unknown != nil), "tended its backups"
		if a.unbegun == nil && unread == nil && said.Request == b.ID && removed(before, entries) {
			j.Left = said.Left
		}
	case is && entry.Good:
		j, changed = j.Took(b.ID), fmt.Sprintf("took backup %s, which is good: revision %d", b.ID, entry.Database.Revision)
	default:
		why := a.whyLost(entry, is, said, unread)
		j, changed = j.Lost(f.Now, why), fmt.Sprintf("backup %s did not become a good one: %s", b.ID, why)
	}
	if err := a.remember(j); err != nil {
		if b.ID != "" && !remains {
			return "", err
		}
		// The disk may be full to the last byte. A run that only removes makes room, and none begins
		// while this one waits. An agent that is started anew takes this end in once more.
		a.journal = j
	}
	a.unbegun = nil
	return changed, a.Forget()
}

// removed reports whether a backup is gone from a catalogue.
func removed(before, now []model.Entry) bool {
	return slices.ContainsFunc(before, func(e model.Entry) bool {
		_, there := find(now, e.ID)
		return !there
	})
}

func find(entries []model.Entry, id string) (model.Entry, bool) {
	for _, e := range entries {
		if e.ID == id && id != "" {
			return e, true
		}
	}
	return model.Entry{}, false
}

// whyLost says why a run made no good backup.
func (a *Agent) whyLost(entry model.Entry, is bool, said model.State, unread error) string {
	switch {
	case is:
		return entry.Why()
	case a.unbegun != nil:
		return a.unbegun.Error()
	case unread == nil && said.Request == a.journal.Begun.ID && said.Failed != "":
		return said.Failed
	}
	return fmt.Sprintf("it ended in the middle: sudo journalctl -u %s", renderhost.BackupUnit)
}
