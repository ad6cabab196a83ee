package incident

import "github.com/holdfast/holdfast/internal/model/state"

// kinds maps kinds of events to kinds of records.
var kinds = map[state.EventKind]Kind{
	state.EventMembership: Members,
	state.EventDecision:   Decides,
	state.EventRecord:     Recorded,
	state.EventWish:       Wished,
	state.EventAskFence:   AsksFence,
	state.EventRestart:    Restarted,
	state.EventTaint:      Tainted,
	state.EventUntaint:    Untainted,
	state.EventPlan:       Plans,
	state.EventMissed:     Missed,
}

// FromEvent turns an event of a program of a host into a record. It reports
// false for an event of a kind that this release does not know, because a later
// release noted it, and for one without a time.
func FromEvent(host, program string, e state.Event) (Record, bool) {
	kind, known := kinds[e.Kind]
	return Record{
		Host: host, Boot: e.Boot, Up: e.Up, At: e.At.UTC(), Kind: kind, Members: e.Members, Ring: e.Ring, Quorate: e.Quorate,
		Rule: e.Rule, Action: e.Action, State: e.State, Seq: e.Seq, Wish: e.Wish, Target: e.Target, Count: e.Count, Why: e.Why,
		From: "events of " + program,
	}, known && !e.At.IsZero()
}
