// Package reach decides from a host's own evidence whether others on its
// network can reach it: the signal on its cable, and round trips to its gateway
// and its neighbours. A host that nobody can reach must not be the one that
// survives a cut (docs/adr/0025-reach.md).
package reach

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// Missed is the number of rounds in a row without any answer after which the
	// host counts as cut off. Each round asks all neighbours.
	Missed = 3
	// Together is the longest time between the loss of the neighbours and the loss
	// of the peer. A gateway that went away while the peer was still there says
	// nothing about this host's cable: the peer proved that it worked.
	Together = 10 * time.Second
	// Steady is the time for which answers must come again before a host that was
	// cut off trusts them: a loose cable comes and goes.
	Steady = 3 * time.Second
)

// Neighbour is a host on the machine network other than the peer.
type Neighbour struct {
	Address netip.Addr
	Gateway bool
	// Answered is the time of its last answer, since boot; zero for never.
	Answered time.Duration
	// Steady is the time since which it has answered each question.
	Steady time.Duration
	// Missed counts the questions that it has left unanswered since.
	Missed int
}

// Evidence holds what a host observes of its own network.
type Evidence struct {
	Now time.Duration // since boot
	// Signal is true if the NIC of the machine network carries a signal.
	Signal state.Fact[bool]
	// Contact is true if Corosync sees the peer; Lost is the time at which it lost
	// the peer, since boot, zero if it sees it or never did.
	Contact    bool
	Lost       time.Duration
	Neighbours []Neighbour
}

// Judge decides from the evidence and the earlier judgement whether the host can
// be reached.
func Judge(before state.Reach, e Evidence) state.Reach {
	next, why := judge(before, e)
	out := before
	if next != before.State {
		out = state.Reach{State: next, Since: e.Now, Why: why}
	}
	out.Doubt = next != state.ReachNo && inDoubt(relevant(e))
	return out
}

// inDoubt reports whether there are neighbours and all of them owe an answer.
func inDoubt(list []Neighbour) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(n Neighbour) bool { return n.Missed == 0 })
}

func judge(before state.Reach, e Evidence) (state.ReachState, string) {
	if state.Is(e.Signal, false) {
		return state.ReachNo, "the cable of the machine network carries no signal"
	}
	asked := relevant(e)
	answering := slices.DeleteFunc(slices.Clone(asked), func(n Neighbour) bool { return n.Missed > 0 })
	switch {
	case len(asked) == 0:
		return state.ReachUnknown, "no neighbour other than the peer is known"
	case len(answering) > 0 && before.State == state.ReachNo && !steady(e, answering):
		return state.ReachNo, before.Why
	case len(answering) > 0:
		return state.ReachYes, names(answering) + " answered"
	case before.State == state.ReachNo || allMissed(asked):
		return state.ReachNo, "no neighbour answers any more: " + names(asked)
	}
	return before.State, before.Why
}

// relevant returns the neighbours whose silence means something: those that
// answered until about the time of the peer's loss.
func relevant(e Evidence) []Neighbour {
	since := e.Now
	if !e.Contact && e.Lost != 0 {
		since = e.Lost
	}
	return slices.DeleteFunc(slices.Clone(e.Neighbours), func(n Neighbour) bool {
		return n.Answered == 0 || n.Answered+Together < since
	})
}

// steady reports whether answers have come for long enough after a cut.
func steady(e Evidence, answering []Neighbour) bool {
	return slices.ContainsFunc(answering, func(n Neighbour) bool { return e.Now-n.Steady >= Steady })
}

func allMissed(list []Neighbour) bool {
	return !slices.ContainsFunc(list, func(n Neighbour) bool { return n.Missed < Missed })
}

func names(list []Neighbour) string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		kind := "neighbour"
		if n.Gateway {
			kind = "gateway"
		}
		out = append(out, fmt.Sprintf("%s %s", kind, n.Address))
	}
	return strings.Join(out, ", ")
}
