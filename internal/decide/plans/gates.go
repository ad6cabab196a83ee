package plans

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

const statusShow = "holdfast status"

// Open is a gate that is open.
func Open(id string) replace.Gate { return replace.Gate{ID: id, Open: true} }

// Shut is a gate that is closed, with the reason and what to type.
func Shut(id, way, format string, a ...any) replace.Gate {
	return replace.Gate{ID: id, Way: way, Words: fmt.Sprintf(format, a...)}
}

// Shuts says what keeps a plan from beginning that holds the lock already. What its gate asks for may be
// work that the lock refuses, so the way out comes first.
func Shuts(g replace.Gate) string {
	return fmt.Sprintf("%s; the plan has not begun, and ends by itself a quarter of an hour after it was written. To end it now, type: sudo holdfast topology apply --abort; then: %s", g.Words, g.Way)
}

// Backup is open if the carrier has a good backup, or if a person goes on without one.
func Backup(carrier string, newest state.Fact[time.Time], now time.Time, without bool) replace.Gate {
	why := backup.Before(newest, now)
	if why == "" || without {
		return Open(replace.BackupGate)
	}
	words, way := backup.BeforeHere(carrier, why)
	return Shut(replace.BackupGate, way, "%s: the plan changes how etcd runs on both hosts", words)
}

// Lock is what is known of the lock of all plans. Others is true if it is held by another plan, whose
// words are InForce.
type Lock struct {
	Known, Others bool
	InForce       string
}

// Work is open if nothing else changes the control planes or their hosts, and no announced move of the
// site goes by what they are now.
func Work(l Lock, moves, work state.Fact[string]) replace.Gate {
	switch {
	case l.Known && l.Others:
		return replace.LockedBy(l.InForce)
	case !l.Known:
		return Shut("work", statusShow, "the API does not say whether another change of the control planes is under way")
	case !replace.MoveGate(moves).Open:
		return replace.MoveGate(moves)
	case !work.Known:
		return Shut("work", statusShow, "it is unknown what else changes hosts now")
	case work.Value != "":
		return Shut("work", statusShow, "%s", work.Value)
	}
	return Open("work")
}

// Busy says what else changes hosts now: an upgrade, by its words, or the work for which a control plane is
// away, or is about to be. Whoever boots in the middle of a plan may stop the writes of the site, so one that
// waits until a program lets it boot counts too: it has its turn, and boots as soon as that ends. but is a
// host that is lost, or goes and is emptied for that; empty for none.
func Busy(upgrade string, nodes []state.Node, but string) string {
	if upgrade != "" {
		return upgrade
	}
	return backup.Sentences(backup.Away(nodes, but))
}

// calm are the stages of plans of every kind in which a control plane may boot. The copy of each kind has
// the stage of the plan; that of a replacement says Waiting while a person installs the new machine.
var calm = []replace.Stage{replace.Planned, replace.Waiting, "coming", replace.Whole, replace.Aborted}

// Changes says by the lock of all plans what changes the control planes; empty if nothing does at the
// moment. A plan with words of its own is not about them, and needs the boots of hosts. One that has not
// begun, waits for a machine that a person installs, or is over takes nothing away from the site: that may
// last for days.
func Changes(lock map[string]string) string {
	if lock[replace.LockWords] != "" || slices.Contains(calm, replace.StageOf(lock)) {
		return ""
	}
	return replace.InForce(lock)
}

// Room is open if the disk of etcd has room for what a plan may write on it.
func Room(room state.Fact[bool]) replace.Gate {
	if !state.Is(room, true) {
		return Shut("room", "df -h /var/lib/etcd", "the disk of etcd on this host has no room for three of its databases, or that is unknown")
	}
	return Open("room")
}

// Release is open if this host has a current release. from says what it is needed for.
func Release(ships state.Fact[bool], from string) replace.Gate {
	if !state.Is(ships, true) {
		return Shut("release", "ls -l /opt/holdfast/releases/current", "this host has no current release, from which %s, or that is unknown", from)
	}
	return Open("release")
}
