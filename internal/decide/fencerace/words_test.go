package fencerace

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestEachTurnHasItsReasonAndItsEnd has one line for each line of the decision.
func TestEachTurnHasItsReasonAndItsEnd(t *testing.T) {
	const now = time.Minute
	soon := now + Promise
	for name, c := range map[string]struct {
		s    Side
		want state.FenceRace
	}{
		"a fault goes before all":         {Side{Fault: "its disk hangs", Kept: soon}, state.FenceRace{Turn: state.RaceFirst, Why: "its disk hangs"}},
		"both give way":                   {Side{Kept: soon, Given: soon}, state.FenceRace{Turn: state.RaceFirst, Why: "both hosts give way, and this one is the first by name"}},
		"this one gives way":              {Side{Reach: no, Begun: now}, state.FenceRace{Turn: state.RaceLast, Until: now + Keep, Why: "this host is cut off from its network and gives way: no signal"}},
		"its data may lack writes":        {Side{Reach: yes, Behind: true, Lost: now, Begun: now}, state.FenceRace{Turn: state.RaceLast, Until: now + Keep, Why: "the data of this host may lack writes, and it gives way: it cannot go on without its peer"}},
		"they may, and the peer is there": {Side{Behind: true, Begun: now}, state.FenceRace{Turn: state.RaceOrder}},
		"cut off and behind":              {Side{Reach: no, Behind: true, Lost: now, Begun: now}, state.FenceRace{Turn: state.RaceLast, Until: now + Keep, Why: "this host is cut off from its network and gives way: no signal"}},
		"the peer gives way":              {Side{Given: soon}, state.FenceRace{Turn: state.RaceFirst, Why: "the peer is cut off from its network, or its data lack writes, and has promised to give way"}},
		"in doubt":                        {Side{Reach: doubt, Lost: now}, state.FenceRace{Turn: state.RaceLast, Until: now + Settle, Why: "neighbours have just stopped answering: this host may itself be cut off"}},
		"the second, just lost":           {Side{Second: true, Lost: now}, state.FenceRace{Turn: state.RaceOrder, Until: now + Settle}},
		"the second, of a longer promise": {Side{Second: true, Kept: now, Lost: now - 2*Settle}, state.FenceRace{Turn: state.RaceOrder, Until: now}},
		"the second, that lost nobody":    {Side{Second: true}, state.FenceRace{Turn: state.RaceOrder}},
		"the first":                       {Side{Lost: now, Kept: now - 1}, state.FenceRace{Turn: state.RaceOrder, Until: now - 1}},
		"no doubt after its time":         {Side{Reach: yes, Lost: now}, state.FenceRace{Turn: state.RaceOrder}},
		"a promise that just reaches":     {Side{Second: true, Given: now + Enough}, state.FenceRace{Turn: state.RaceFirst, Why: "the peer is cut off from its network, or its data lack writes, and has promised to give way"}},
	} {
		if got := Turn(c.s, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAnAnswerHoldsWhatThisHostSeesOfItself(t *testing.T) {
	const now = time.Minute
	for _, s := range []Side{{Reach: yes}, {Reach: no}, {Reach: no, Committed: now + 1}} {
		if got, _ := Answer(s, now); got.Reach != s.Reach || (got.GivesWay > 0) != (s.Reach == no && s.Committed == 0) {
			t.Errorf("%+v of %+v", got, s)
		}
	}
	if got, after := Answer(Side{Reach: no, Committed: now}, now); got.GivesWay != Promise || after.Promised != now {
		t.Errorf("its power cut is over: %+v", got)
	}
}

func TestAHostIsBackWithNothingOfTheLastCutButItsOwnPromise(t *testing.T) {
	got := Back(Side{Second: true, Reach: yes, Begun: 1, Given: 2, Lost: 3, Kept: 4, Promised: 5, Committed: Commit + 6}, 0)
	if want := (Side{Second: true, Reach: yes, Kept: 4, Promised: 5, Committed: Commit + 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTheSilenceOfThePeerSaysNothingToAHostThatIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		reach         state.Reach
		answers, want state.Fact[bool]
	}{
		"silence":                       {yes, state.Known(false), state.Known(false)},
		"silence, nothing known":        {state.Reach{}, state.Known(false), state.Known(false)},
		"silence of a host that is cut": {no, state.Known(false), state.Fact[bool]{}},
		"an answer to one that is cut":  {no, state.Known(true), state.Known(true)},
		"nobody could ask":              {no, state.Fact[bool]{}, state.Fact[bool]{}},
	} {
		if got := Heard(Side{Reach: c.reach}, c.answers); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAHostThatIsCutOffGivesWayForTheWholeCut(t *testing.T) {
	const now = 10 * time.Minute
	for name, c := range map[string]struct {
		s    Side
		want time.Duration
	}{
		"it can be reached":                 {Side{Reach: yes, Begun: now}, 0},
		"its data may lack writes":          {Side{Reach: yes, Begun: now, Behind: true, Lost: now}, now + Keep},
		"and the peer is there":             {Side{Reach: yes, Begun: now, Behind: true}, 0},
		"it has the peer's power cut":       {Side{Reach: no, Begun: now, Committed: now + 1}, 0},
		"its power cut is over":             {Side{Reach: no, Begun: now, Committed: now}, now + Keep},
		"the peer's BMC cannot be read yet": {Side{Reach: no}, now + Keep},
		"from the first reading":            {Side{Reach: no, Begun: now - time.Second}, now - time.Second + Keep},
		"a longer promise stays":            {Side{Reach: no, Begun: now - time.Minute, Kept: now + Keep}, now + Keep},
	} {
		if got := Look(c.s, now); got.Kept != c.want {
			t.Errorf("%s: %s, want %s", name, got.Kept, c.want)
		}
	}
}

func TestACutIsOrderedOnlyInTurn(t *testing.T) {
	const now = time.Minute
	for name, c := range map[string]struct {
		s    Side
		want time.Duration
	}{
		"by name": {Side{Reach: yes}, now + Commit}, "first": {Side{Given: now + Promise}, now + Commit}, "last": {Side{Reach: no}, 0},
	} {
		if _, got := Cut(c.s, now); got.Committed != c.want {
			t.Errorf("%s: %s", name, got.Committed)
		}
	}
}
