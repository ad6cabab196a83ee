// Package fencerace decides whose turn it is where two hosts lost sight of each
// other and either may have the other's power cut. The one that clients can
// reach has to win; where nothing tells the two apart the second by name waits,
// as it always did (docs/adr/0025-reach.md).
//
// It rests on one promise: a host that holds itself to be cut off tells its
// peer, over whatever network still joins them, that it gives way. A promise
// binds whatever the evidence says later, so evidence that flaps or lies can
// make the wrong host win, and never both.
package fencerace

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// Promise is what a host that gives way tells its peer: the longest delay
	// that a calibration allows, so that the peer's own wait fits in.
	Promise = 60 * time.Second
	// Keep is how long it keeps to it, and how long a host that is cut off waits
	// where nobody asked it: a peer that heard nothing waits for its own delay,
	// 90 s with the slowest BMC, and comes first even so.
	Keep = 2 * Promise
	// Enough is what must be left of the peer's promise for this host to go at
	// once: a promise must not end while the power is being cut.
	Enough = 30 * time.Second
	// Commit is how long a host that has the peer's power cut promises nothing.
	Commit = Promise
	// Settle is how long after the loss of its peer a host waits at most until it
	// knows whether it is cut off itself: three rounds of questions to its
	// neighbours take 1.1 s (decide/reach). The order of the second host counts from
	// then, so that the wait of the first costs nothing of the delay between them.
	Settle = 1250 * time.Millisecond
	// InFlight is longer than any answer is under way: until then a promise may
	// still reach the peer.
	InFlight = 5 * time.Second
)

// Side is what one host knows, said and did. Times are since its boot.
type Side struct {
	// Second is true for the second host by name.
	Second bool
	Reach  state.Reach
	// Begun is when the peer's BMC could first be read in this cut; zero for not
	// yet. A fencing network that hangs delays both hosts.
	Begun time.Duration
	// Lost is when Corosync lost the peer; zero where it has it, or never had.
	Lost time.Duration
	// Kept is until when this host gives way, whatever its evidence says until
	// then; Given is until when the peer promised the same. Zero for no promise.
	Kept, Given time.Duration
	// Promised is when it was last told that this host gives way.
	Promised time.Duration
	// Committed is until when this host promises nothing, because it has the
	// peer's power cut.
	Committed time.Duration
	// Fault is set where both see each other, and the peer's etcd is at fault and
	// cannot be fencing this host.
	Fault string
}

// Turn returns whose turn it is.
func Turn(s Side, now time.Duration) state.FenceRace {
	s = Look(s, now)
	kept, given := s.Kept > now, s.Given >= now+Enough
	switch {
	case s.Fault != "":
		return state.FenceRace{Turn: state.RaceFirst, Why: s.Fault}
	case kept && given && !s.Second:
		return state.FenceRace{Turn: state.RaceFirst, Why: "both hosts are cut off and give way, and this one is the first by name"}
	case kept:
		return state.FenceRace{Turn: state.RaceLast, Until: s.Kept, Why: "this host is cut off from its network and gives way: " + s.Reach.Why}
	case given:
		return state.FenceRace{Turn: state.RaceFirst, Why: "the peer is cut off from its network, and said that it gives way"}
	case s.Reach.Doubt && now < s.settled():
		return state.FenceRace{Turn: state.RaceLast, Until: s.settled(), Why: "no neighbour has answered since a moment: this host may be cut off itself"}
	case s.Second:
		return state.FenceRace{Turn: state.RaceOrder, Until: max(s.Kept, s.settled())}
	}
	return state.FenceRace{Turn: state.RaceOrder, Until: s.Kept}
}

// settled is when the peer's loss is long enough ago for the own evidence to say
// what it says; zero where the peer is there.
func (s Side) settled() time.Duration {
	if s.Lost == 0 {
		return 0
	}
	return s.Lost + Settle
}

// Look takes this host's evidence into account. Once it holds itself to be cut
// off it gives way for the whole of this cut, also where nobody asked: evidence
// that flaps would bring it back into the race at any moment.
func Look(s Side, now time.Duration) Side {
	switch {
	case s.Reach.State != state.ReachNo || s.Committed > now:
	case s.Begun == 0: // the wait has not begun while the peer's BMC cannot be read
		s.Kept = now + Keep
	default:
		s.Kept = max(s.Kept, s.Begun+Keep)
	}
	return s
}

// Answer is what a host says to a peer that asks it to give way, and the host
// after it.
func Answer(s Side, now time.Duration) (state.RaceAnswer, Side) {
	out := state.RaceAnswer{Reach: s.Reach}
	if s.Committed > now {
		return out, s
	}
	if s.Reach.State == state.ReachNo {
		s.Kept = now + Keep
	}
	if out.GivesWay = max(0, s.Kept-now-(Keep-Promise)); out.GivesWay > 0 {
		s.Promised = now
	}
	return out, s
}

// Back is a host whose peer is there again, having last been proven to be off at
// fenced; zero for not in this boot. What was promised in the last cut is over with
// it, but for this host's own giving way. So is a power cut that was carried out.
func Back(s Side, fenced time.Duration) Side {
	s.Begun, s.Given, s.Lost = 0, 0, 0
	if fenced != 0 && fenced >= s.Committed-Commit {
		s.Committed = 0
	}
	return s
}

// Heard is whether the peer is heard, from whether it answers: its silence says
// nothing to a host that is cut off.
func Heard(s Side, answers state.Fact[bool]) state.Fact[bool] {
	if state.Is(answers, false) && s.Reach.State == state.ReachNo {
		return state.Fact[bool]{}
	}
	return answers
}

// Free reports whether a host holds no promise of its peer, and is not having its
// power cut.
func Free(s Side, now time.Duration) bool { return s.Given <= now && s.Committed <= now }

// Release ends what is left of this host's giving way once both hosts see each
// other again and the peer says that it holds no promise of this host: the next cut
// may be another's. A promise that is under way holds on.
func Release(s Side, peer state.RaceAnswer, now time.Duration) Side {
	if peer.Free && s.Reach.State != state.ReachNo && (s.Promised == 0 || now-s.Promised > InFlight) {
		s.Kept = 0
	}
	return s
}

// Cut is called right before the power is cut: it returns whether it still is
// this host's turn, and the host after it.
func Cut(s Side, now time.Duration) (state.FenceRace, Side) {
	s = Look(s, now)
	turn := Turn(s, now)
	if turn.Turn != state.RaceLast {
		s.Committed = now + Commit
	}
	return turn, s
}
