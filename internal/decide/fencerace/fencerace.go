// Package fencerace decides which of two hosts may cut the other's power first
// when they lost sight of each other. The host that clients can reach has to
// win. Where nothing tells the two apart, the second by name waits, as it always
// did (docs/adr/0025-reach.md).
//
// It rests on one promise: a host that finds itself cut off, or whose data lack
// writes that its peer has, tells its peer that it gives way, over any network that still joins them. The promise binds,
// whatever the evidence says later. So evidence that flaps or lies can make the
// wrong host win, but never both.
package fencerace

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// Promise is the time for which a host that gives way lets its peer go first:
	// the longest delay that a calibration allows, so that the peer's own wait fits
	// in.
	Promise = 60 * time.Second
	// Keep is the time for which that host itself keeps the promise, and for which
	// a host that is cut off waits although nobody asked it. A peer that heard
	// nothing waits for its own delay, 90 s with the slowest BMC, and still comes
	// first.
	Keep = 2 * Promise
	// Enough is the part of the peer's promise that must be left for this host to
	// go at once: a promise must not end while the power is being cut.
	Enough = 30 * time.Second
	// Commit is the time for which a host that orders the peer's power cut promises
	// nothing.
	Commit = Promise
	// Settle is the longest time after the loss of its peer that a host waits to
	// learn whether it is cut off itself: three rounds of questions to its
	// neighbours take 1.1 s (decide/reach). The delay of the second host counts
	// from then, so the first host's wait does not shorten the delay between them.
	Settle = 1250 * time.Millisecond
	// InFlight is longer than any answer can be under way: for that long a promise
	// may still reach the peer.
	InFlight = 5 * time.Second
)

// Side holds what one host knows, promised and did. Times count from its boot.
type Side struct {
	// Second is true for the second host by name.
	Second bool
	Reach  state.Reach
	// Behind is true if this host's data may lack acknowledged writes. It cannot go
	// on without its peer, so a reset of the peer only takes the site away.
	Behind bool
	// Begun is the time at which the peer's BMC could first be read in this cut;
	// zero for not yet. A fencing network that hangs delays both hosts.
	Begun time.Duration
	// Lost is the time at which Corosync lost the peer; zero if it sees it, or
	// never did.
	Lost time.Duration
	// Kept is the end of the time in which this host gives way, whatever its
	// evidence says meanwhile; Given is the end of the peer's same promise. Zero
	// for no promise.
	Kept, Given time.Duration
	// Promised is the time of this host's last answer that it gives way.
	Promised time.Duration
	// Committed is the end of the time in which this host promises nothing, because
	// it has ordered the peer's power cut.
	Committed time.Duration
	// Fault is set if the hosts see each other, and the peer's etcd is at fault and
	// cannot be fencing this host.
	Fault string
}

// Turn decides whether this host goes first, last, or in the order of names.
func Turn(s Side, now time.Duration) state.FenceRace {
	s = Look(s, now)
	kept, given := s.Kept > now, s.Given >= now+Enough
	switch {
	case s.Fault != "":
		return state.FenceRace{Turn: state.RaceFirst, Why: s.Fault}
	case kept && given && !s.Second:
		return state.FenceRace{Turn: state.RaceFirst, Why: "both hosts give way, and this one is the first by name"}
	case kept && s.Reach.State != state.ReachNo && s.lags():
		return state.FenceRace{Turn: state.RaceLast, Until: s.Kept, Why: "the data of this host may lack writes, and it gives way: it cannot go on without its peer"}
	case kept:
		return state.FenceRace{Turn: state.RaceLast, Until: s.Kept, Why: "this host is cut off from its network and gives way: " + s.Reach.Why}
	case given:
		return state.FenceRace{Turn: state.RaceFirst, Why: "the peer is cut off from its network, or its data lack writes, and has promised to give way"}
	case s.Reach.Doubt && now < s.settled():
		return state.FenceRace{Turn: state.RaceLast, Until: s.settled(), Why: "neighbours have just stopped answering: this host may itself be cut off"}
	case s.Second:
		return state.FenceRace{Turn: state.RaceOrder, Until: max(s.Kept, s.settled())}
	}
	return state.FenceRace{Turn: state.RaceOrder, Until: s.Kept}
}

// settled returns the time from which this host's evidence is reliable after the
// loss of the peer; zero while the peer is there.
func (s Side) settled() time.Duration {
	if s.Lost == 0 {
		return 0
	}
	return s.Lost + Settle
}

// lags reports whether this host lost its peer while its data may lack writes.
func (s Side) lags() bool { return s.Behind && s.Lost != 0 }

// yields reports whether this host has a reason to give way.
func (s Side) yields() bool { return s.Reach.State == state.ReachNo || s.lags() }

// Look takes this host's evidence into account. Once the host finds itself cut
// off, or behind, it gives way for the whole of this cut, even if nobody asked: evidence
// that flaps would bring it back into the race at any moment.
func Look(s Side, now time.Duration) Side {
	switch {
	case !s.yields() || s.Committed > now:
	case s.Begun == 0: // while the peer's BMC cannot be read the wait has not begun
		s.Kept = now + Keep
	default:
		s.Kept = max(s.Kept, s.Begun+Keep)
	}
	return s
}

// Answer returns this host's answer to a peer that asks it to give way, and the
// host's state after it.
func Answer(s Side, now time.Duration) (state.RaceAnswer, Side) {
	out := state.RaceAnswer{Reach: s.Reach}
	if s.Committed > now {
		return out, s
	}
	if s.yields() {
		s.Kept = now + Keep
	}
	if out.GivesWay = max(0, s.Kept-now-(Keep-Promise)); out.GivesWay > 0 {
		s.Promised = now
	}
	return out, s
}

// Back returns the state of a host whose peer is there again. fenced is the time
// of the last proof that the peer was off; zero for none in this boot. The
// promises of the last cut end, except that this host goes on giving way. A
// power cut that was carried out ends, too.
func Back(s Side, fenced time.Duration) Side {
	s.Begun, s.Given, s.Lost = 0, 0, 0
	if fenced != 0 && fenced >= s.Committed-Commit {
		s.Committed = 0
	}
	return s
}

// Heard returns answers, but unknown instead of false if this host is cut off:
// the silence of its peer says nothing then.
func Heard(s Side, answers state.Fact[bool]) state.Fact[bool] {
	if state.Is(answers, false) && s.Reach.State == state.ReachNo {
		return state.Fact[bool]{}
	}
	return answers
}

// Free reports whether a host neither holds a promise of its peer nor is having
// the peer's power cut.
func Free(s Side, now time.Duration) bool { return s.Given <= now && s.Committed <= now }

// Release ends the rest of this host's giving way once both hosts see each other
// again and the peer says that it holds no promise of this host: in the next cut
// the other host may be cut off. A promise that is still under way stays.
func Release(s Side, peer state.RaceAnswer, now time.Duration) Side {
	if peer.Free && s.Reach.State != state.ReachNo && (s.Promised == 0 || now-s.Promised > InFlight) {
		s.Kept = 0
	}
	return s
}

// Cut is called right before the power is cut. It returns whether it is still
// this host's turn, and the host's state after it.
func Cut(s Side, now time.Duration) (state.FenceRace, Side) {
	s = Look(s, now)
	turn := Turn(s, now)
	if turn.Turn != state.RaceLast {
		s.Committed = now + Commit
	}
	return turn, s
}
