package survey

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Told is what the control planes of a site tell of their backups. The operator and the
// commands of people read it alike.
type Told struct {
	backup.Site
	// Ready has the control planes whose kubelet reports.
	Ready map[string]bool
}

// tellsOfBackups reads the nodes. A worker has no backups, whatever its node says.
func (v Survey) tellsOfBackups(now time.Time) Told {
	out := Told{Site: backup.Site{Now: now}, Ready: map[string]bool{}}
	for _, h := range v.hosts {
		if !h.worker {
			out.Hosts = append(out.Hosts, backup.HostOf(h.node.Name, h.node.Annotations))
			out.Ready[h.node.Name] = state.Is(h.facts.Ready, true)
		}
	}
	return out
}

// Backups returns what the gates ask of backups. from is the release that the site runs, or
// from which its upgrade comes. It is unknown if no control plane tells of its backups.
func (t Told) Backups(site cluster.Site, from string) state.Fact[gate.Backups] {
	out := gate.Backups{Wanted: reasonOf(site) == model.BeforeUpgrade, Fails: t.fails(), Wish: t.wish(site, from)}
	for _, h := range t.Hosts {
		for _, b := range h.Kept {
			if !b.Good || model.Ahead(b.Taken, t.Now) {
				continue
			}
			if b.Taken.After(out.Newest) {
				out.Newest = b.Taken
			}
			if b.Taken.After(out.Before) && with(b, from) {
				out.Before = b.Taken
			}
		}
	}
	return state.Fact[gate.Backups]{Known: t.Known(), Value: out}
}

// with reports whether the host of a backup ran a release. One of which that is not known
// may be of the middle of an earlier upgrade.
func with(b backup.Brief, release string) bool { return release != "" && b.Release == release }

// fails says how the last tries ended if they failed on all control planes that tell.
func (t Told) fails() string {
	var out []string
	for _, h := range t.Hosts {
		switch {
		case h.Silent != "":
		case h.Failed == nil:
			return ""
		default:
			out = append(out, h.Name+": "+h.Failed.Why)
		}
	}
	return strings.Join(out, "; ")
}

// reasonOf returns the reason of the backup that an upgrade wants now; empty for none.
func reasonOf(site cluster.Site) string {
	r, at := site.Record, cluster.Stage(site)
	switch {
	case !r.Started || r.Returning || r.NoWayBack:
		return ""
	case at == gate.Begin:
		return model.BeforeUpgrade
	case at == gate.Commit:
		return model.BeforeCommit
	}
	return ""
}

// asked returns the host that was asked for the backup that is wanted now; false if none was.
// A wish counts for as long as its backup would, and while its host is a control plane. So
// one that failed is made again after a day, and not at each look.
func (t Told) asked(site cluster.Site) (backup.Host, bool) {
	wish := backup.ReadAsked(site.Record.Backup.Text)
	h, is := t.Host(site.Record.Backup.Host)
	return h, is && wish.Reason != "" && wish.Reason == reasonOf(site) && t.Now.Sub(wish.At).Abs() <= gate.BackupAge
}

// ask returns the wish for a backup that would be made now; its zero value if none is wanted,
// one was made, or no control plane can take one.
func (t Told) ask(site cluster.Site) cluster.BackupWish {
	reason := reasonOf(site)
	if _, done := t.asked(site); done || reason == "" {
		return cluster.BackupWish{}
	}
	name, err := t.Choose(t.Ready)
	if err != nil {
		return cluster.BackupWish{}
	}
	return cluster.BackupWish{Host: name, Text: backup.Ask(t.Now, reason)}
}

// wish says what became of the wish that was made for the present stage.
func (t Told) wish(site cluster.Site, from string) gate.BackupWish {
	h, is := t.asked(site)
	if !is {
		if _, err := t.Choose(t.Ready); err != nil && reasonOf(site) != "" {
			return gate.BackupWish{Says: err.Error()}
		}
		return gate.BackupWish{}
	}
	text := site.Record.Backup.Text
	who := fmt.Sprintf("%s was asked for one at %s, and ", h.Name, backup.ReadAsked(text).At.UTC().Format(time.RFC3339))
	switch answer, done := h.Answered(text); {
	case h.Silent != "":
		return gate.BackupWish{Says: who + "tells nothing: " + h.Silent}
	case done && answer.Failed != "":
		return gate.BackupWish{Says: who + "made no good one: " + answer.Failed, Failed: true}
	case done:
		return gate.BackupWish{Says: who + "took " + answer.ID + ", " + lost(h, answer.ID, from), Failed: true}
	case h.Waits != "":
		return gate.BackupWish{Says: who + "waits: " + h.Waits}
	case h.Doing != nil && h.Doing.Reason != backup.Tend:
		return gate.BackupWish{Says: who + "takes one"}
	}
	return gate.BackupWish{Says: who + "has not begun yet"}
}

// lost says why a backup that was good does not count.
func lost(h backup.Host, id, from string) string {
	i := slices.IndexFunc(h.Kept, func(b backup.Brief) bool { return b.ID == id })
	switch {
	case i < 0:
		return "which does not lie there any more"
	case !h.Kept[i].Good:
		return "which is not good any more: " + h.Kept[i].Why
	case !with(h.Kept[i], from):
		return "which was not taken with the release that the site runs"
	}
	return "which is too old"
}
