package reach

import (
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	router = netip.MustParseAddr("10.98.0.1")
	worker = netip.MustParseAddr("10.98.0.21")
)

func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// answers returns a neighbour that has answered each question until an instant.
func answers(a netip.Addr, until float64, missed int) Neighbour {
	return Neighbour{Address: a, Gateway: a == router, Answered: at(until), Steady: at(1), Missed: missed}
}

func TestAHostKnowsWhetherItCanBeReached(t *testing.T) {
	yes := state.Reach{State: state.ReachYes, Since: at(50), Why: "gateway 10.98.0.1 answered"}
	no := state.Reach{State: state.ReachNo, Since: at(90), Why: "no neighbour answers any more: gateway 10.98.0.1"}
	for sentence, c := range map[string]struct {
		before state.Reach
		e      Evidence
		want   state.ReachState
	}{
		"a neighbour that answers proves both directions": {
			state.Reach{}, Evidence{Now: at(100), Signal: state.Known(true), Contact: true, Neighbours: []Neighbour{answers(router, 100, 0)}}, state.ReachYes,
		},
		"one of two is enough": {
			yes, Evidence{Now: at(100), Signal: state.Known(true), Lost: at(99), Neighbours: []Neighbour{answers(router, 97, 9), answers(worker, 100, 0)}}, state.ReachYes,
		},
		"a cable without a signal cuts off, whoever answered a moment ago": {
			yes, Evidence{Now: at(100), Signal: state.Known(false), Contact: true, Neighbours: []Neighbour{answers(router, 100, 0)}}, state.ReachNo,
		},
		"silence of all who answered a moment ago cuts off": {
			yes, Evidence{Now: at(100), Signal: state.Known(true), Lost: at(99.8), Neighbours: []Neighbour{answers(router, 98, 3)}}, state.ReachNo,
		},
		"one answer that is late does not": {
			yes, Evidence{Now: at(100), Signal: state.Known(true), Contact: true, Neighbours: []Neighbour{answers(router, 99, 2)}}, state.ReachYes,
		},
		"it is cut off for as long as nobody answers": {
			no, Evidence{Now: at(4000), Signal: state.Known(true), Lost: at(91), Neighbours: []Neighbour{answers(router, 89, 900)}}, state.ReachNo,
		},
		"a gateway that went away while the peer was there says nothing": {
			yes, Evidence{Now: at(200), Signal: state.Known(true), Lost: at(199), Neighbours: []Neighbour{answers(router, 150, 40)}}, state.ReachUnknown,
		},
		"nor does one that goes away beside a healthy peer, after a while": {
			no, Evidence{Now: at(101), Signal: state.Known(true), Contact: true, Neighbours: []Neighbour{answers(router, 89, 40)}}, state.ReachUnknown,
		},
		"without a neighbour nothing is known": {
			yes, Evidence{Now: at(100), Signal: state.Known(true), Lost: at(99)}, state.ReachUnknown,
		},
		"an unknown signal is no missing one": {
			state.Reach{}, Evidence{Now: at(100), Neighbours: []Neighbour{answers(router, 100, 0)}}, state.ReachYes,
		},
		"the first answer after a cut is not trusted yet": {
			no, Evidence{Now: at(100), Signal: state.Known(true), Lost: at(91), Neighbours: []Neighbour{{Address: router, Answered: at(100), Steady: at(98)}}}, state.ReachNo,
		},
		"answers for three seconds are": {
			no, Evidence{Now: at(101), Signal: state.Known(true), Lost: at(91), Neighbours: []Neighbour{{Address: router, Answered: at(101), Steady: at(98)}}}, state.ReachYes,
		},
	} {
		if got := Judge(c.before, c.e); got.State != c.want || got.State != c.before.State && (got.Since != c.e.Now || got.Why == "") {
			t.Errorf("%s: %+v", sentence, got)
		}
	}
}

func TestWhatStaysTheSameKeepsItsBegin(t *testing.T) {
	before := state.Reach{State: state.ReachYes, Since: at(5), Why: "gateway 10.98.0.1 answered"}
	got := Judge(before, Evidence{Now: at(100), Signal: state.Known(true), Contact: true, Neighbours: []Neighbour{answers(router, 100, 0)}})
	if got != before {
		t.Errorf("%+v", got)
	}
}

func TestAHostDoubtsItselfWhileEverybodyOwesAnAnswer(t *testing.T) {
	yes := state.Reach{State: state.ReachYes, Since: at(50), Why: "gateway 10.98.0.1 answered"}
	for sentence, c := range map[string]struct {
		neighbours []Neighbour
		want       bool
	}{
		"nobody answered the last question":     {[]Neighbour{answers(router, 99, 1), answers(worker, 99, 2)}, true},
		"one did":                               {[]Neighbour{answers(router, 99, 2), answers(worker, 100, 0)}, false},
		"three rounds are no doubt any more":    {[]Neighbour{answers(router, 98, 3)}, false},
		"who was silent before says nothing":    {[]Neighbour{answers(router, 50, 2)}, false},
		"there is nobody who could have spoken": {nil, false},
	} {
		got := Judge(yes, Evidence{Now: at(100), Signal: state.Known(true), Lost: at(99.8), Neighbours: c.neighbours})
		if got.Doubt != c.want {
			t.Errorf("%s: %+v", sentence, got)
		}
	}
	doubts := Judge(yes, Evidence{Now: at(100), Signal: state.Known(true), Lost: at(99.8), Neighbours: []Neighbour{answers(router, 99, 1)}})
	if got := Judge(doubts, Evidence{Now: at(101), Signal: state.Known(true), Lost: at(99.8), Neighbours: []Neighbour{answers(router, 101, 0)}}); got != yes {
		t.Errorf("an answer ends the doubt: %+v", got)
	}
}
