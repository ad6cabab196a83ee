package parachute

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTheOnlyControlPlaneIsAskedWhetherAPersonGoesBack once it stays although it would go, and only if
// a person can change that.
func TestTheOnlyControlPlaneIsAskedWhetherAPersonGoesBack(t *testing.T) {
	lone := func(_ *Journal, f *Facts) {
		f.Kind, f.PeerServes, f.Turn, f.Proof = Alone, state.Known(false), state.Fact[Turn]{}, nil
	}
	for what, c := range map[string]struct {
		step   Step
		change func(*Journal, *Facts)
		want   bool
	}{
		"it is late":                              {Proving, func(j *Journal, _ *Facts) { j.Deadline = noon }, true},
		"it is not late, and has shown nothing":   {Proving, func(*Journal, *Facts) {}, true},
		"it is late, and starts daemons":          {Started, func(j *Journal, f *Facts) { j.Deadline, f.Daemons = noon, false }, true},
		"its time has only begun":                 {Proving, func(j *Journal, _ *Facts) { j.Switched = noon }, false},
		"it serves no more, and goes by itself":   {Proving, func(j *Journal, f *Facts) { j.Deadline, f.Serves = noon, state.Known(false) }, false},
		"the way back is closed":                  {Proving, func(j *Journal, _ *Facts) { j.Deadline, j.Closed = noon, true }, false},
		"what the cluster wants is known":         {Proving, func(j *Journal, f *Facts) { j.Deadline, f.Turn = noon, state.Known(Turn{Wish: Go}) }, false},
		"it is one of two":                        {Proving, func(j *Journal, f *Facts) { j.Deadline, f.Kind = noon, OfTwo }, false},
		"it is the one of two that is left":       {Proving, func(j *Journal, f *Facts) { j.Deadline, f.Kind, f.PeerGone = noon, OfTwo, true }, true},
		"it is on its way back, and serves again": {Returning, func(*Journal, *Facts) {}, true},
		"it is at rest":                           {Accepted, func(*Journal, *Facts) {}, false},
		"it has not left":                         {Prepare, func(*Journal, *Facts) {}, false},
	} {
		j, f := at(c.step)
		lone(&j, &f)
		c.change(&j, &f)
		if got := Unheard(j, f, noon); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestAnAgentThatKeepsTheJournalEndsMinutesAfterTheDeadline and never sooner.
func TestAnAgentThatKeepsTheJournalEndsMinutesAfterTheDeadline(t *testing.T) {
	for what, c := range map[string]struct {
		step      Step
		late, up  time.Duration
		clockBack bool
		want      bool
	}{
		"long past its deadline":            {Proving, 4 * time.Minute, time.Hour, false, true},
		"in a return":                       {Returning, 4 * time.Minute, time.Hour, false, true},
		"armed":                             {Armed, 4 * time.Minute, time.Hour, false, true},
		"just past its deadline":            {Proving, time.Minute, time.Hour, false, false},
		"it has just booted":                {Proving, time.Hour, time.Minute, false, false},
		"the clock went back":               {Proving, -time.Hour, time.Hour, true, true},
		"at rest":                           {Accepted, time.Hour, time.Hour, false, false},
		"before its switch, and it serves":  {Prepare, time.Hour, time.Hour, false, false},
		"the clock went back, and it boots": {Proving, -time.Hour, time.Minute, true, false},
	} {
		j, _ := at(c.step)
		j.Deadline = noon.Add(-c.late)
		if c.clockBack {
			j.Switched = noon.Add(time.Hour)
		}
		if got := Barred(j, c.up, noon); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestWhoWasCutOffMayTryAgain, and whom a person has led back by hand may not.
func TestWhoWasCutOffMayTryAgain(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Journal, *Facts)
		failed bool
	}{
		"its peer is away":                  {func(_ *Journal, f *Facts) { f.Apart = noon }, false},
		"its peer has been back for 1 min":  {func(_ *Journal, f *Facts) { f.Apart = noon.Add(-time.Minute) }, false},
		"its peer has been back for 2 min":  {func(_ *Journal, f *Facts) { f.Apart = noon.Add(-2 * time.Minute) }, true},
		"its peer was never away":           {func(*Journal, *Facts) {}, true},
		"its peer was taken out for good":   {func(_ *Journal, f *Facts) { f.Apart, f.PeerGone = noon, true }, true},
		"somebody has led the link back":    {func(_ *Journal, f *Facts) { f.Running, f.Boot = "old", "b2" }, true},
		"it was cut off before it switched": {func(j *Journal, f *Facts) { j.Step, f.Running, f.Boot = Switched, "old", "b2" }, false},
	} {
		j, f := at(Proving)
		j.Deadline, f.Proof, f.Serves, f.PeerServes = noon, Proof{"etcd": state.Known(false)}, state.Known(false), state.Known(false)
		c.change(&j, &f)
		a := Next(j, f, noon)
		if back := a.Journal.Step == Returning || a.Journal.Step == Returned; !back || a.Journal.Failed != c.failed {
			t.Errorf("%s: %s, %s, failed %v", what, a.Act, a.Why, a.Journal.Failed)
		}
	}
}
