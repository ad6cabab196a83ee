// Package replace decides how a lost control plane of two is replaced by another
// machine: whether it may begin (Gates), which step comes next (Decide), and what a
// person reads about each. It is a function of facts, as decide/handover is; the agent
// of the host that stays carries the steps out (docs/adr/0083).
//
// The plan on the disk of that host remembers three things that nothing else shows: what
// a person wants, that the old host is retired, and that the newcomer may enter. All other
// progress is read from the host and the cluster, so each step may be cut off and done
// again.
package replace

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Format is the highest number of a plan that this release reads, and the one that it
// writes.
const Format = 1

// Stage is how far a plan is, as far as nothing else shows it.
type Stage string

// The stages. A plan can be taken back while it is planned, and only then.
const (
	Planned Stage = "planned"
	Retired Stage = "retired" // the old host may not come back
	Joining Stage = "joining" // the newcomer may enter the cluster of the hosts
	Whole   Stage = "whole"
	Aborted Stage = "aborted"
)

// Over reports whether nothing of a plan is left to do.
func (s Stage) Over() bool { return s == Whole || s == Aborted }

// Plan is one replacement. It holds no secret: those lie in a file beside it.
type Plan struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// Survivor is the host that stays, whose agent carries the plan out.
	Survivor string `json:"survivor"`
	Old      Old    `json:"old"`
	New      New    `json:"new"`
	// By and Why are the administrator's.
	By      string  `json:"by"`
	Why     string  `json:"why,omitempty"`
	Accepts Accepts `json:"accepts"`
	// Begun is the time of the first write of this plan, Written of the last.
	Begun   time.Time `json:"begun"`
	Written time.Time `json:"written"`
	Stage   Stage     `json:"stage"`
	// Proof says how it was known that the old host was off when it was retired.
	Proof string `json:"proof,omitempty"`
	// Reloaded is true once Corosync here runs with the key that the old host lacks:
	// Corosync does not show which key it uses.
	Reloaded bool `json:"reloaded,omitempty"`
	// Newcomer is the machine that was let in.
	Newcomer Newcomer `json:"newcomer,omitzero"`
	// Ended says why a plan was taken back.
	Ended string `json:"ended,omitempty"`
}

// Old is the host that was lost.
type Old struct {
	Name    string        `json:"name"`
	Address string        `json:"address,omitempty"`
	Machine state.Machine `json:"machine,omitzero"`
	// UID is that of its Node, empty if that was deleted before.
	UID string `json:"uid,omitempty"`
}

// New is what the administrator says of the host that comes.
type New struct {
	Name string `json:"name"`
	// BMC is the address of its BMC.
	BMC string `json:"bmc"`
	// UUID is that of the machine, if the administrator named it: then no other one is
	// let in.
	UUID string `json:"uuid,omitempty"`
}

// Newcomer is a machine that asks to enter in the name of New.
type Newcomer struct {
	Machine state.Machine `json:"machine"`
	Address string        `json:"address"`
}

// Accepts is what the administrator accepted beside the plan itself.
type Accepts struct {
	// Lost lists the volumes whose data are lost with the old host.
	Lost []string `json:"lost,omitempty"`
	// KeepAccount leaves the account by which the old host could switch this one off.
	KeepAccount bool `json:"keepAccount,omitempty"`
	// NoBackup goes on without a backup.
	NoBackup bool `json:"noBackup,omitempty"`
	// Gone is the serial number of the old machine, typed by the administrator who says
	// that it is off or gone: it counts only while its BMC is silent.
	Gone string `json:"gone,omitempty"`
}

func (a Accepts) equal(b Accepts) bool {
	return a.KeepAccount == b.KeepAccount && a.NoBackup == b.NoBackup && a.Gone == b.Gone && slices.Equal(a.Lost, b.Lost)
}

// Wish is what `holdfast host replace` asks of the agent. A wish without a plan begins
// one, a wish of the plan's ID changes what the administrator said, and Abort takes the
// plan of that ID back.
type Wish struct {
	ID      string  `json:"id"`
	Old     string  `json:"old"`
	New     New     `json:"new"`
	By      string  `json:"by"`
	Why     string  `json:"why,omitempty"`
	Accepts Accepts `json:"accepts"`
	Abort   bool    `json:"abort,omitempty"`
	// Dry wants to know the gates only.
	Dry bool `json:"dry,omitempty"`
	// At is when it was written: one that began nothing for a while begins nothing any
	// more, since nobody waits for it.
	At time.Time `json:"at"`
}

// Begin returns the plan of a wish, before anything is done for it.
func Begin(f Facts, w Wish) Plan {
	return Plan{
		Format: Format, ID: w.ID, Survivor: f.Host, New: w.New, By: w.By, Why: w.Why, Accepts: w.Accepts,
		Old:   Old{Name: w.Old, Address: f.OldAddress, Machine: f.OldMachine, UID: f.OldNode.Value.UID},
		Begun: f.Now, Written: f.Now, Stage: Planned,
	}
}
