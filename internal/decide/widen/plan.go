// Package widen decides how a living site of two control planes becomes one of three
// (docs/adr/0097): whether that may begin (Gates), which step comes next on each of the two hosts
// (Decide), and what a person reads about each step. It is a function of facts, as decide/replace is,
// whose lock and whose form of a newcomer it shares.
//
// Both hosts keep the plan. One carries it: there the command was typed. The other one has a copy on
// its disk and does by it what only it can do on itself, also after a boot without an API.
package widen

import (
	"net/netip"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Format is the number of the plan's form. Its fields are those of replace.Plan, so it is the same.
const Format = replace.Format

// Stage is the progress of a plan that nothing else shows.
type Stage string

// The stages, in their order. Until the third member votes the plan can be taken back; until etcd is
// handed over, if that member is lost for good.
const (
	Planned   Stage = "planned"
	Coming    Stage = "coming"     // the third host is installed, and its etcd is a learner
	LettingIn Stage = "letting-in" // the two etcd keepers may let it vote
	Handing   Stage = "handing"    // etcd and kubelet of the two go from Pacemaker to kubelet and systemd
	Ending    Stage = "ending"     // Corosync, Pacemaker and the etcd keepers end
	Dressing  Stage = "dressing"   // the cluster's objects and the files of both become those of three
	Whole     Stage = "whole"
	// TakingBack comes before Aborted: the third member is removed, and the two are a pair again.
	TakingBack Stage = "taking-back"
	Aborted    Stage = "aborted"
)

var order = map[Stage]int{Planned: 1, Coming: 2, LettingIn: 3, TakingBack: 4, Handing: 5, Ending: 6, Dressing: 7, Whole: 8, Aborted: 8}

// Over reports whether a plan is at its end.
func (s Stage) Over() bool { return s == Whole || s == Aborted }

// back reports whether a plan is taken back, or was.
func (s Stage) back() bool { return s == TakingBack || s == Aborted }

// After reports whether a stage comes later than another one.
func (s Stage) After(o Stage) bool { return order[s] > order[o] }

// Plan is the way of one site from two control planes to three. It holds no secret. Its fields have
// the names of those of replace.Plan, so that whoever reads the lock knows what it is about.
type Plan struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	Widens bool   `json:"widens"` // always true
	// Survivor is the host that carries the plan, Peer the other one.
	Survivor string      `json:"survivor"`
	Peer     string      `json:"peer"`
	New      replace.New `json:"new"` // has no BMC
	By       string      `json:"by"`
	Why      string      `json:"why,omitempty"`
	NoBackup bool        `json:"noBackup,omitempty"`
	Begun    time.Time   `json:"begun"`
	Written  time.Time   `json:"written"`
	Stage    Stage       `json:"stage"`
	// Newcomer is the machine that was let in, Third its member of etcd. Former is the member of a machine
	// that was installed anew since: it never starts again, and makes room for the next one.
	Newcomer replace.Newcomer `json:"newcomer,omitzero"`
	Third    state.MemberID   `json:"third,omitempty"`
	Former   state.MemberID   `json:"former,omitempty"`
	// Ended says why a plan was taken back. Alone is the host that went on alone and took it back. Gone
	// is true if the administrator said that the third machine is lost for good, although it votes:
	// nobody waits for it any more.
	Ended string `json:"ended,omitempty"`
	Alone string `json:"alone,omitempty"`
	Gone  bool   `json:"gone,omitempty"`
}

// Wish is the wish of a person for the agent, by a command.
type Wish struct {
	ID       string      `json:"id"`
	New      replace.New `json:"new"`
	By       string      `json:"by"`
	Why      string      `json:"why,omitempty"`
	NoBackup bool        `json:"noBackup,omitempty"`
	Abort    bool        `json:"abort,omitempty"`
	// Gone is true if the administrator said, by the serial number of the machine, that the third host
	// has no power and will not come back. With Abort the plan is taken back, without it goes on.
	Gone bool      `json:"gone,omitempty"`
	Dry  bool      `json:"dry,omitempty"`
	At   time.Time `json:"at"`
}

// Begin returns the plan of a wish.
func Begin(f Facts, w Wish) Plan {
	return Plan{
		Format: Format, ID: w.ID, Widens: true, Survivor: f.Host, Peer: f.Peer, New: w.New, By: w.By, Why: w.Why, NoBackup: w.NoBackup,
		Begun: f.Now, Written: f.Now, Stage: Planned,
	}
}

// Word is what the plan says to the etcd keeper of each of the two, empty for nothing.
func (p Plan) Word() state.EtcdThirdWord {
	if p.Stage == Planned || p.Stage == TakingBack || p.Stage.Over() {
		return state.EtcdThirdWord{}
	}
	address, _ := netip.ParseAddr(p.New.Address) // a gate looked at it
	w := state.EtcdThirdWord{Plan: p.ID, Host: p.New.Name, Address: address}
	if p.Stage != Coming {
		w.Member = p.Third
	}
	return w
}

// Member reports whether a learner is the third host's. Etcd's names are those of the hosts. A copy may
// be older than the plan and name no member; then one that never started is.
func (p Plan) Member(id state.MemberID, name string) bool {
	return id == p.Third || id == p.Former || name == p.New.Name || p.Third == 0 && name == ""
}

// Drops reports whether the plan has a learner removed: while the third host comes the one whose machine
// was installed anew, and once the plan is taken back every one that is the third host's.
func (p Plan) Drops(id state.MemberID, name string) bool {
	if p.Stage == Coming {
		return id != 0 && id == p.Former
	}
	return p.Member(id, name)
}
