// Package narrow decides how a living site of three control planes becomes one of two that fence each
// other (docs/adr/0102): whether that may begin (Gates), which step comes next on each of the two hosts
// that stay (Decide), and what a person reads about each step. It is a function of facts, as
// decide/widen is, whose way it goes backwards: each state in between is one that widen has, too.
//
// Both hosts that stay keep the plan. One carries it: there the command was typed. The other one has a
// copy on its disk and does by it what only it can do on itself, also after a boot without an API.
package narrow

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Format is the number of the plan's form. Its fields are those of replace.Plan, so it is the same.
const Format = replace.Format

// Stage is the progress of a plan that nothing else shows.
type Stage string

// The stages, in their order. Until etcd goes to the etcd keepers the plan can be taken back, and three
// vote until both hosts are set up as two.
const (
	Planned   Stage = "planned"
	Preparing Stage = "preparing" // both hosts get packages, files and the accounts of both BMCs
	Dressing  Stage = "dressing"  // the cluster's objects and the files of both become those of two
	Pairing   Stage = "pairing"   // Corosync, Pacemaker in maintenance, and the etcd keepers begin
	// TakingBack comes before Aborted: Corosync and Pacemaker end, and objects and files become those
	// of three again.
	TakingBack Stage = "taking-back"
	Handing    Stage = "handing"    // etcd and kubelet of the two go to the etcd keepers and Pacemaker
	Parting    Stage = "parting"    // the third host is emptied, and its member leaves
	Forgetting Stage = "forgetting" // the cluster forgets the third host
	Whole      Stage = "whole"
	Aborted    Stage = "aborted"
)

var order = map[Stage]int{
	Planned: 1, Preparing: 2, Dressing: 3, Pairing: 4, TakingBack: 5, Handing: 6, Parting: 7, Forgetting: 8, Whole: 9, Aborted: 9,
}

// Over reports whether a plan is at its end.
func (s Stage) Over() bool { return s == Whole || s == Aborted }

// After reports whether a stage comes later than another one.
func (s Stage) After(o Stage) bool { return order[s] > order[o] }

// Plan is the way of one site from three control planes to two. It holds no secret. Its fields have
// the names of those of replace.Plan, so that whoever reads the lock knows what it is about.
type Plan struct {
	Format  int    `json:"format"`
	ID      string `json:"id"`
	Narrows bool   `json:"narrows"` // always true
	// Survivor is the host that carries the plan, Peer the other one that stays.
	Survivor string `json:"survivor"`
	Peer     string `json:"peer"`
	// Old is the host that goes, Third its member of etcd.
	Old     replace.Old    `json:"old"`
	Third   state.MemberID `json:"third"`
	By      string         `json:"by"`
	Why     string         `json:"why,omitempty"`
	Begun   time.Time      `json:"begun"`
	Written time.Time      `json:"written"`
	Stage   Stage          `json:"stage"`
	// Accepts has the risks that the administrator accepted.
	Accepts Accepts `json:"accepts,omitzero"`
	// Ended says why a plan was taken back. Lost is the host of the two that will not come back, as the
	// administrator said by the serial number of its machine: nobody waits for it on the way back.
	Ended string `json:"ended,omitempty"`
	Lost  string `json:"lost,omitempty"`
	// Taken is the host of the two that took the plan over to take it back, since the one that carried it
	// is lost for good, empty for none.
	Taken string `json:"taken,omitempty"`
}

// Carrier is the host that carries the plan.
func (p Plan) Carrier() string { return cmp.Or(p.Taken, p.Survivor) }

// Other is the host of the two that does not carry the plan.
func (p Plan) Other() string {
	if p.Taken != "" {
		return p.Survivor
	}
	return p.Peer
}

// Replaced reports whether the Node of a host shows that another machine has its name. was is the machine that
// the host had when the plan began, empty if that is not known here, is the one that the Node names, and made
// the time at which the Node was made, zero for none. A machine that kept one of its numbers, or has none to
// compare, is no other one.
func (p Plan) Replaced(was, is state.Machine, made time.Time) bool {
	if was == (state.Machine{}) {
		return made.After(p.Begun)
	}
	differs := false
	for _, number := range [][2]string{{was.UUID, is.UUID}, {was.Serial, is.Serial}} {
		switch {
		case number[0] == "" || number[1] == "":
		case strings.EqualFold(number[0], number[1]):
			return false
		default:
			differs = true
		}
	}
	return differs
}

// Accepts has the risks that the administrator accepted.
type Accepts struct {
	NoBackup bool `json:"noBackup,omitempty"`
	// Gone is true if the administrator said, by the serial number of the machine, that the host that
	// goes has no power and will not come back. Then nobody waits for it.
	Gone bool `json:"oldGone,omitempty"` // gone is a text in replace.Accepts
}

// Wish is the wish of a person for the agent, by a command. One with the ID of the plan takes it back,
// or says that the host that goes is gone.
type Wish struct {
	ID      string         `json:"id"`
	Old     replace.Old    `json:"old"`
	Third   state.MemberID `json:"third"`
	By      string         `json:"by"`
	Why     string         `json:"why,omitempty"`
	Accepts Accepts        `json:"accepts,omitzero"`
	Abort   bool           `json:"abort,omitempty"`
	// Lost comes with Abort. It is true if the administrator said that the other host of the two has no
	// power and will not come back. Replaced comes with Lost. It is true if another machine has the name of
	// that host by now: then it says nothing that etcd serves there.
	Lost     bool      `json:"lost,omitempty"`
	Replaced bool      `json:"replaced,omitempty"`
	Dry      bool      `json:"dry,omitempty"`
	At       time.Time `json:"at"`
}

// Begin returns the plan of a wish.
func Begin(f Facts, w Wish) Plan {
	return Plan{
		Format: Format, ID: w.ID, Narrows: true, Survivor: f.Host, Peer: f.Peer, Old: w.Old, Third: w.Third, By: w.By, Why: w.Why, Accepts: w.Accepts,
		Begun: f.Now, Written: f.Now, Stage: Planned,
	}
}

// Word is what the plan says to the etcd keeper of each of the two, empty for nothing. It is said only
// while the keepers write their first record: later nothing may lead them back to it.
func (p Plan) Word() state.EtcdThirdWord {
	if p.Stage != Pairing {
		return state.EtcdThirdWord{}
	}
	address, _ := netip.ParseAddr(p.Old.Address) // a gate looked at it
	return state.EtcdThirdWord{Plan: p.ID, Host: p.Old.Name, Address: address, Member: p.Third, Leaves: true}
}
