// Package replace decides how another machine becomes the second of two control planes, in the
// place of a lost one or beside a lone one, and how one of two goes for good. It decides whether that may begin (Gates), which
// step comes next (Decide), and what a person reads about each step. It is a function of
// facts, as decide/handover is. The agent of the host that stays carries the steps out
// (docs/adr/0083, docs/adr/0092, docs/adr/0096).
//
// The plan on the disk of that host remembers only what nothing else shows: the wish of a
// person, that the old host is retired, that Corosync has loaded the new key, and that the
// newcomer may enter. All other progress is read from the host and the cluster, so each
// step may be cut off and done again.
package replace

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Format is the number of the plan's form that this release writes, and the highest that it
// reads.
const Format = 1

// Stage is the progress of a plan that nothing else shows.
type Stage string

// The stages. A plan can be taken back only while it is planned.
const (
	Planned Stage = "planned"
	Retired Stage = "retired" // the old host may not come back
	// Widening and Waiting are stages of a site that grows. While it is widening, the lone
	// control plane becomes one of two without a peer. From Waiting on it is one.
	Widening Stage = "widening"
	Waiting  Stage = "waiting"
	Joining  Stage = "joining" // the newcomer may enter the cluster of the hosts
	// Narrowing is the stage of a site that shrinks in which the host that stays becomes a lone
	// control plane. It comes after Retired.
	Narrowing Stage = "narrowing"
	Whole     Stage = "whole"
	Aborted   Stage = "aborted"
)

// Over reports whether a plan is at its end.
func (s Stage) Over() bool { return s == Whole || s == Aborted }

// Plan is one replacement, the growth of a site from one control plane to two, or the way back.
// It holds no secret: those lie in a file beside it.
type Plan struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// Grows is true if New is the second control plane of a site that had one. Then Old is
	// empty.
	Grows bool `json:"grows,omitempty"`
	// Shrinks is true if no other machine takes the place of Old. Then New is empty.
	Shrinks bool `json:"shrinks,omitempty"`
	// Widens is true for a plan of decide/widen: New is the third control plane of a site that had
	// two. This package only reads such a plan, as the lock.
	Widens bool `json:"widens,omitempty"`
	// Narrows is true for a plan of decide/narrow: Old goes from a site of three control planes, and
	// two stay. This package only reads such a plan, as the lock.
	Narrows bool `json:"narrows,omitempty"`
	// Survivor is the host that stays, whose agent carries the plan out.
	Survivor string `json:"survivor"`
	Old      Old    `json:"old"`
	New      New    `json:"new"`
	// By is the administrator, and Why the reason.
	By      string  `json:"by"`
	Why     string  `json:"why,omitempty"`
	Accepts Accepts `json:"accepts"`
	// Begun is the time of the first write of this plan, Written that of the last.
	Begun   time.Time `json:"begun"`
	Written time.Time `json:"written"`
	Stage   Stage     `json:"stage"`
	// Proof says by what the old host was known to be off when it was retired.
	Proof string `json:"proof,omitempty"`
	// Reloaded is true once Corosync on this host has loaded the key that the old host
	// lacks. Corosync does not show which key it uses.
	Reloaded bool `json:"reloaded,omitempty"`
	// Remade is true once the secrets of the plan were made a second time, because their file was gone.
	// Then nobody knows whether Corosync's key file still has the former key.
	Remade bool `json:"remade,omitempty"`
	// Newcomer is the machine that was let in.
	Newcomer Newcomer `json:"newcomer,omitzero"`
	// Entered is true once Corosync on this host has loaded the list with the newcomer. Its file
	// shows only what was written.
	Entered bool `json:"entered,omitempty"`
	// Ended says why a plan was taken back or, of one that is whole, why it ended before either host could
	// be lost. Alone is, of a plan of decide/widen, the host that went on
	// alone and takes it back; Taken, of a plan of decide/narrow, the one that takes it back since the host
	// that carried it is lost.
	Ended string `json:"ended,omitempty"`
	Alone string `json:"alone,omitempty"`
	Taken string `json:"taken,omitempty"`
	// Off is true, of a plan that was taken back, if the BMC of Old read Off then: the plan may have
	// switched it off, and leaves it so.
	Off bool `json:"off,omitempty"`
}

// Old is the host that was lost.
type Old struct {
	Name    string        `json:"name"`
	Address string        `json:"address,omitempty"`
	Machine state.Machine `json:"machine,omitzero"`
	// UID is that of its Node, empty if the Node was deleted before.
	UID string `json:"uid,omitempty"`
	// Number is its number in corosync.conf, zero if that was not known.
	Number int `json:"number,omitempty"`
}

// New describes the new host, as the administrator gave it.
type New struct {
	Name string `json:"name"`
	// BMC is the address of its BMC.
	BMC string `json:"bmc"`
	// UUID is the UUID of the machine, if the administrator named it. Then no other machine is
	// let in.
	UUID string `json:"uuid,omitempty"`
	// Address is the address of the host, if the site grows. Then a host at another address is
	// not let in, because etcd's configuration has this one by then.
	Address string `json:"address,omitempty"`
}

// Newcomer is a machine that asks to enter under the name of New.
type Newcomer struct {
	Machine state.Machine `json:"machine"`
	Address string        `json:"address"`
	// Installation is a text that each installation of a machine chooses once, empty if it is not known.
	// Only the plan for a third control plane reads it: it tells a machine that was installed anew.
	Installation string `json:"installation,omitempty"`
}

// Accepts has the risks that the administrator accepted.
type Accepts struct {
	// Lost lists the volumes whose data are lost with the old host.
	Lost []string `json:"lost,omitempty"`
	// KeepAccount keeps the account with which the old host could switch this one off.
	KeepAccount bool `json:"keepAccount,omitempty"`
	// NoBackup goes on without a backup.
	NoBackup bool `json:"noBackup,omitempty"`
	// Gone is the serial number of the old machine, or its UUID if it has none, typed by the
	// administrator who says that it is off or gone. It counts only while its BMC is silent.
	Gone string `json:"gone,omitempty"`
}

// Equal reports whether both accept the same risks.
func (a Accepts) Equal(b Accepts) bool {
	return a.KeepAccount == b.KeepAccount && a.NoBackup == b.NoBackup && a.Gone == b.Gone && slices.Equal(a.Lost, b.Lost)
}

// And returns the risks that either accepts. Of two serial numbers the second one counts.
func (a Accepts) And(b Accepts) Accepts {
	out := Accepts{Lost: slices.Clone(a.Lost), KeepAccount: a.KeepAccount || b.KeepAccount, NoBackup: a.NoBackup || b.NoBackup, Gone: cmp.Or(b.Gone, a.Gone)}
	for _, volume := range b.Lost {
		if !slices.Contains(out.Lost, volume) {
			out.Lost = append(out.Lost, volume)
		}
	}
	return out
}

// Wish is the wish of `holdfast host replace` for the agent. A wish without a plan begins
// one. A wish with the ID of the plan changes what the administrator said, or takes the plan
// back if Abort is true.
type Wish struct {
	ID string `json:"id"`
	// Grows and Shrinks are those of the plan.
	Grows   bool    `json:"grows,omitempty"`
	Shrinks bool    `json:"shrinks,omitempty"`
	Old     string  `json:"old"`
	New     New     `json:"new"`
	By      string  `json:"by"`
	Why     string  `json:"why,omitempty"`
	Accepts Accepts `json:"accepts"`
	Abort   bool    `json:"abort,omitempty"`
	// Dry asks only for the gates.
	Dry bool `json:"dry,omitempty"`
	// At is the time at which it was written. If it began nothing for a while it begins nothing
	// any more, since nobody waits for it.
	At time.Time `json:"at"`
}

// Work says what a plan does, for the beginning of an error.
func (p Plan) Work() string {
	switch {
	case p.Grows:
		return "bring " + p.New.Name
	case p.Shrinks:
		return "go on without " + p.Old.Name
	}
	return "replace " + p.Old.Name
}

// Command is the command that follows the plan.
func (p Plan) Command() string {
	if p.Grows || p.Shrinks || p.Widens || p.Narrows {
		return "holdfast topology apply"
	}
	return "holdfast host replace " + p.Old.Name
}

// Rests says how a plan that was taken back leaves the other host.
func (p Plan) Rests() string {
	if p.Grows {
		return p.Survivor + " stays prepared as one of two, and goes on as the only control plane"
	}
	return p.rests(p.Off)
}

func (p Plan) rests(off bool) string {
	if off {
		return "nothing of " + p.Old.Name + " was taken out, and it is off: to switch it on: sudo fence_holdfast --action=on --plug=" + p.Old.Name
	}
	return "nothing was changed at " + p.Old.Name
}

// about says what a wish is about, for the middle of a sentence.
func (w Wish) about() string {
	switch {
	case w.Grows:
		return "for a second control plane, " + w.New.Name + ","
	case w.Shrinks:
		return "for one control plane, without " + w.Old + ","
	}
	return "of the replacement of " + w.Old
}

// Begin returns the plan of a wish.
func Begin(f Facts, w Wish) Plan {
	old := Old{Name: w.Old, Address: f.OldAddress, Machine: f.OldMachine, UID: f.OldNode.Value.UID}
	if w.Grows {
		old = Old{}
	}
	return Plan{
		Format: Format, ID: w.ID, Grows: w.Grows, Shrinks: w.Shrinks, Survivor: f.Host, New: w.New, By: w.By, Why: w.Why, Accepts: w.Accepts,
		Old:   old,
		Begun: f.Now, Written: f.Now, Stage: Planned,
	}
}
