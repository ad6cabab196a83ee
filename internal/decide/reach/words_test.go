package reach

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAJudgementNamesItsWitnesses(t *testing.T) {
	heard := []Neighbour{answers(router, 100, 0), answers(worker, 100, 0)}
	lost := []Neighbour{answers(router, 98, 3), answers(worker, 98, 3)}
	yes := state.Reach{State: state.ReachYes}
	for _, c := range []struct {
		before state.Reach
		e      Evidence
		want   state.Reach
	}{
		{state.Reach{}, Evidence{Neighbours: heard}, state.Reach{State: state.ReachYes, Why: "gateway 10.98.0.1, neighbour 10.98.0.21 answered"}},
		{yes, Evidence{Neighbours: lost}, state.Reach{State: state.ReachNo, Why: "no neighbour answers any more: gateway 10.98.0.1, neighbour 10.98.0.21"}},
		{yes, Evidence{Signal: state.Known(false)}, state.Reach{State: state.ReachNo, Why: "the cable of the machine network carries no signal"}},
		{yes, Evidence{}, state.Reach{State: state.ReachUnknown, Why: "no neighbour other than the peer is known"}},
	} {
		c.e.Now, c.want.Since = at(100), at(100)
		if got := Judge(c.before, c.e); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

func TestWhoNeverAnsweredSaysNothing(t *testing.T) {
	e := Evidence{Now: at(5), Neighbours: []Neighbour{{Address: router, Missed: 9}}}
	if got := Judge(state.Reach{State: state.ReachYes}, e); got.State != state.ReachUnknown || got.Doubt {
		t.Errorf("%+v", got)
	}
}

// A neighbour that fell silent with the peer says something, and its last answer
// counts from the peer's loss, however long that was ago.
func TestSilenceCountsWhereItBeganWithThePeersLoss(t *testing.T) {
	for name, c := range map[string]struct {
		e    Evidence
		want state.ReachState
	}{
		"just together":                     {Evidence{Now: at(500), Lost: at(100), Neighbours: []Neighbour{answers(router, 90, 9)}}, state.ReachNo},
		"a moment too early":                {Evidence{Now: at(500), Lost: at(100), Neighbours: []Neighbour{answers(router, 89.9, 9)}}, state.ReachUnknown},
		"the peer is there, just together":  {Evidence{Now: at(100), Contact: true, Neighbours: []Neighbour{answers(router, 90, 9)}}, state.ReachNo},
		"the peer is there, of old":         {Evidence{Now: at(500), Contact: true, Lost: at(100), Neighbours: []Neighbour{answers(router, 95, 9)}}, state.ReachUnknown},
		"the peer was never there, of old":  {Evidence{Now: at(500), Neighbours: []Neighbour{answers(router, 1, 9)}}, state.ReachUnknown},
		"the peer was never there, of late": {Evidence{Now: at(100), Neighbours: []Neighbour{answers(router, 95, 9)}}, state.ReachNo},
	} {
		if got := Judge(state.Reach{State: state.ReachYes}, c.e); got.State != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestThreeMissedRoundsAreNeededAndEnough(t *testing.T) {
	for missed, want := range map[int]state.ReachState{Missed - 1: state.ReachYes, Missed: state.ReachNo} {
		e := Evidence{Now: at(100), Neighbours: []Neighbour{answers(router, 98, missed), answers(worker, 98, Missed)}}
		if got := Judge(state.Reach{State: state.ReachYes}, e); got.State != want {
			t.Errorf("after %d: %+v", missed, got)
		}
	}
}

func TestWhoWasCutOffStaysSoUntilAnswersLast(t *testing.T) {
	no := state.Reach{State: state.ReachNo, Since: at(90), Why: "why"}
	for _, c := range []struct {
		steady time.Duration
		want   state.ReachState
	}{{Steady - 1, state.ReachNo}, {Steady, state.ReachYes}} {
		steady, want := c.steady, c.want
		n := Neighbour{Address: router, Answered: at(100), Steady: at(100) - steady}
		got := Judge(no, Evidence{Now: at(100), Lost: at(91), Neighbours: []Neighbour{n}})
		if got.State != want || want == state.ReachNo && got != no {
			t.Errorf("after %s: %+v", steady, got)
		}
	}
	owes := Neighbour{Address: router, Answered: at(99), Steady: at(1), Missed: 1}
	if got := Judge(no, Evidence{Now: at(100), Lost: at(91), Neighbours: []Neighbour{owes}}); got != no {
		t.Errorf("a single missed round while cut off: %+v", got)
	}
}

func TestTheFirstAnswerOfAHostThatWasNeverCutOffIsEnough(t *testing.T) {
	n := Neighbour{Address: router, Answered: at(100), Steady: at(100)}
	for _, before := range []state.ReachState{state.ReachUnknown, state.ReachYes} {
		if got := Judge(state.Reach{State: before}, Evidence{Now: at(100), Neighbours: []Neighbour{n}}); got.State != state.ReachYes {
			t.Errorf("before %q: %+v", before, got)
		}
	}
}
