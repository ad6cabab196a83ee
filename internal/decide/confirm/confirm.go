// Package confirm decides what an administrator must give before a confirmation
// may stand in for the proof that the peer of a two-node host is off: nothing,
// patience, a yes, a typed phrase, or more than a confirmation can be.
//
// The protocol itself tells what a confirmation would change: this package asks
// etcdmember.Decide about the same snapshot with the confirmation in it. So it
// never asks for a confirmation that the protocol would not use.
package confirm

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Patience is the time that Pacemaker's fencing gets before a confirmation may
// take its place.
const Patience = time.Minute

// Need names what an administrator must give before this host goes on.
type Need string

// The needs.
const (
	Nothing Need = "nothing" // the host goes on by itself, or has no reason to
	Wait    Need = "wait"    // fencing is under way: look again
	Confirm Need = "confirm" // a yes
	Phrase  Need = "phrase"  // the typed phrase of the decision
	Refuse  Need = "refuse"  // no confirmation helps; the reason says what does
)

// BMC holds the answer that the peer's BMC has just given to the command itself.
type BMC struct {
	// Power is the power state, unknown if it could not be read or may be that of
	// another machine.
	Power state.Fact[string] `json:"power"`
	// Problem says why Power is unknown, or why the BMC could not switch the peer
	// off.
	Problem string `json:"problem,omitempty"`
	// Tried is true after the command ordered the power to be cut, because it had
	// not read Off.
	Tried bool `json:"tried,omitempty"`
}

// Situation holds the facts that are known before the administrator is asked.
type Situation struct {
	// Replaced says when and by whom another machine got the place of this host, empty if
	// nothing says so.
	Replaced string `json:"replaced,omitempty"`
	// Agent is false if the etcd keeper on this host does not answer.
	Agent  bool
	Report state.EtcdReport
	BMC    BMC
}

// Decision says what the administrator must give, and what follows from it.
type Decision struct {
	Need   Need   `json:"need"`
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// PowerOff is true if the peer must first be switched off, and its power read
	// back.
	PowerOff bool `json:"powerOff,omitempty"`
	// Force is true if the confirmation has to override the record.
	Force bool `json:"force,omitempty"`
	// Phrase is the text to type if a yes is not enough.
	Phrase string `json:"phrase,omitempty"`
	// Risks lists what may be lost, one sentence each.
	Risks []string `json:"risks,omitempty"`
	// Then describes what the protocol does with the confirmation.
	Then string `json:"then,omitempty"`
}

// view is a situation with the facts that the rules ask about, computed once.
type view struct {
	Situation
	peer           string
	there, gone    bool // the peer's membership, where known
	effect         Effect
	then           state.EtcdVerdict
	off, on, blind bool // what the BMC reads
}

func look(s Situation) *view {
	snap := s.Report.Snapshot
	v := &view{
		Situation: s, peer: snap.Peer,
		there: state.Is(snap.Pacemaker.Contact, true), gone: state.Is(snap.Pacemaker.Contact, false),
		off: state.Is(s.BMC.Power, state.PowerOff), blind: !s.BMC.Power.Known,
	}
	v.on = !v.off && !v.blind
	v.effect, v.then = Would(snap)
	return v
}

// in reports whether the protocol's verdict is of a situation.
func (v *view) in(s state.EtcdSituation) bool {
	return state.EtcdSituationOf(v.Report.Verdict.Rule) == s
}

// under reports whether one of these rules gave the protocol's verdict.
func (v *view) under(rules ...string) bool { return slices.Contains(rules, v.Report.Verdict.Rule) }

// asks reports whether the protocol waits for an administrator.
func (v *view) asks() bool { return v.Report.Verdict.Action == state.EtcdAskHuman }

// awaitsFence reports whether the protocol waits for Pacemaker to fence the
// peer. A confirmation may replace that fence if it does not come.
func (v *view) awaitsFence() bool {
	return v.under("alone.fence-first", "gone.unproved", "gone.ask-fence", "gone.fence-again", "gone.fence-promised")
}

// Effect tells what a confirmation would change.
type Effect string

// The effects.
const (
	Useless Effect = "useless" // the protocol would go on waiting
	Plain   Effect = "plain"   // the record allows going on, only the proof is missing
	Forced  Effect = "forced"  // the record does not allow it: newer writes may be lost
)

// Would returns what a confirmation given now would change, and the step that
// the protocol would then take.
func Would(s state.EtcdSnapshot) (Effect, state.EtcdVerdict) {
	for _, e := range []Effect{Plain, Forced} {
		if then := etcdmember.Decide(confirmed(s, e == Forced)); goesOn(then) {
			return e, then
		}
	}
	return Useless, state.EtcdVerdict{}
}

// confirmed returns the snapshot as it will be when the peer is off and an
// administrator has confirmed it.
func confirmed(s state.EtcdSnapshot, force bool) state.EtcdSnapshot {
	if s.Boot == "" {
		s.Boot = "this one"
	}
	s.Pacemaker.Contact = state.Known(false)
	s.Statement = state.Fact[state.EtcdStatement]{}
	s.Proofs.Human = state.Known(state.Confirmation{
		Who: "somebody", Boot: s.Boot, At: max(s.Uptime, s.Pacemaker.Joined) + 1, Force: force,
	})
	return s
}

// goesOn reports whether the host takes writes already, or the verdict is a step
// towards that.
func goesOn(v state.EtcdVerdict) bool {
	if state.EtcdSituationOf(v.Rule) == state.EtcdNoTaking {
		return false // by raft's majority, or not at all: nobody's word changes it
	}
	switch v.Action {
	case state.EtcdAskHuman, state.EtcdAskFence, state.EtcdStop, "":
		return false
	case state.EtcdWait:
		return state.EtcdSituationOf(v.Rule) == state.EtcdTakesOver
	default:
		return true
	}
}
