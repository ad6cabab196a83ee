// Package confirm decides what it takes until a person's word may stand in for
// the proof that the peer of a two-node host is off: nothing, patience, a yes,
// a typed phrase, or more than a word can give.
//
// What a word would change it learns from the protocol itself: it asks
// etcdmember.Decide about the same snapshot with the confirmation in it. So a
// confirmation is never asked for where the protocol would not use it.
package confirm

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Patience is how long Pacemaker's fencing gets before a person's word may take
// its place.
const Patience = time.Minute

// Need is what has to be given before this host goes on.
type Need string

// The needs.
const (
	Nothing Need = "nothing" // the host goes on by itself, or has no reason to
	Wait    Need = "wait"    // fencing is under way: look again
	Confirm Need = "confirm" // a yes
	Phrase  Need = "phrase"  // the typed phrase of the decision
	Refuse  Need = "refuse"  // no word helps; the reason says what does
)

// BMC is what the peer's BMC answered the command itself, just now.
type BMC struct {
	// Power is the power state, unknown where it could not be read or is not
	// surely the peer's.
	Power state.Fact[string] `json:"power"`
	// Problem is why it is unknown, or why it could not be switched off.
	Problem string `json:"problem,omitempty"`
	// Tried is set once the power was asked to be cut, after it had not read Off.
	Tried bool `json:"tried,omitempty"`
}

// Situation is what is known before a person is asked.
type Situation struct {
	// Agent is false where the agent of etcd on this host does not answer.
	Agent  bool
	Report state.EtcdReport
	BMC    BMC
}

// Decision is what it takes.
type Decision struct {
	Need   Need   `json:"need"`
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// PowerOff says that the peer is to be switched off, and read back, first.
	PowerOff bool `json:"powerOff,omitempty"`
	// Force says that the confirmation has to override the record.
	Force bool `json:"force,omitempty"`
	// Phrase is what has to be typed, where a yes is not enough.
	Phrase string `json:"phrase,omitempty"`
	// Risks says what may be lost, one sentence each.
	Risks []string `json:"risks,omitempty"`
	// Then is what the protocol does with the confirmation.
	Then string `json:"then,omitempty"`
}

// view is a situation with the questions that the rules ask answered once.
type view struct {
	Situation
	peer           string
	there, gone    bool // the peer's membership, where known
	effect         Effect
	then           state.EtcdVerdict
	off, on, blind bool // what the BMC says
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

// under reports whether the protocol's verdict is of one of these rules.
func (v *view) under(rules ...string) bool { return slices.Contains(rules, v.Report.Verdict.Rule) }

// asks reports whether the protocol waits for a person.
func (v *view) asks() bool { return v.Report.Verdict.Action == state.EtcdAskHuman }

// awaitsFence reports whether the protocol waits for Pacemaker to fence the
// peer: what a person's word may replace when it does not come.
func (v *view) awaitsFence() bool {
	return v.under("alone.fence-first", "gone.unproved", "gone.ask-fence", "gone.fence-again", "gone.fence-promised")
}

// Effect is what a confirmation would change.
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

// confirmed returns the snapshot as it will be when the peer is off and a
// person has said so.
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

// goesOn reports whether a verdict is a step towards writes, or their being
// taken already.
func goesOn(v state.EtcdVerdict) bool {
	switch v.Action {
	case state.EtcdAskHuman, state.EtcdAskFence, state.EtcdStop, "":
		return false
	case state.EtcdWait:
		return strings.HasPrefix(v.Rule, "take-over.")
	default:
		return true
	}
}
