package parachute

import (
	"reflect"
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
		"its peer is away":                  {alone(nil), false},
		"its peer has been back for 1 min":  {joined(time.Minute), false},
		"its peer has been back for 2 min":  {joined(2 * time.Minute), true},
		"its peer was never away":           {func(*Journal, *Facts) {}, true},
		"its peer was taken out for good":   {alone(func(_ *Journal, f *Facts) { f.PeerGone = true }), true},
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

// joined is a host whose peer has been back for a time.
func joined(since time.Duration) func(*Journal, *Facts) {
	return alone(func(j *Journal, f *Facts) { f.Apart, j.Joined = state.Known(false), noon.Add(-since) })
}

// TestTheTimeThatWasLostApartIsGivenBack once the peer is there, for all criteria, and not for ever. It
// is noted once.
func TestTheTimeThatWasLostApartIsGivenBack(t *testing.T) {
	const most = 10 * time.Minute
	for what, c := range map[string]struct {
		change func(*Journal, *Facts)
		want   time.Duration // from now until the deadline
	}{
		"just before its deadline":     {func(j *Journal, _ *Facts) { j.Deadline = noon.Add(time.Second) }, 2 * time.Minute},
		"just after it":                {func(j *Journal, _ *Facts) { j.Deadline = noon.Add(-time.Second) }, 2 * time.Minute},
		"long before it":               {func(*Journal, *Facts) {}, 150 * time.Second},
		"it comes and goes for 9 min":  {func(j *Journal, _ *Facts) { j.Switched, j.Deadline = noon.Add(-9*time.Minute), noon }, most - 9*time.Minute},
		"it comes and goes for longer": {func(j *Journal, _ *Facts) { j.Switched, j.Deadline = noon.Add(-most), noon.Add(-time.Second) }, 0},
	} {
		j, f := at(Proving)
		alone(c.change)(&j, &f)
		f.Apart = state.Known(false)
		a := Next(j, f, noon)
		if got := a.Journal.Deadline.Sub(noon); a.Act != Prove || got != c.want || !a.Journal.Joined.Equal(noon) || !a.Journal.Since.Equal(j.Since) {
			t.Errorf("%s: %s, the deadline is in %s, want %s: %+v", what, a.Act, got, c.want, a.Journal)
		}
		again := Next(a.Journal, f, noon.Add(time.Second))
		if !again.Journal.Joined.Equal(noon) || again.Journal.Failed {
			t.Errorf("%s: a second later: %s, %+v", what, again.Why, again.Journal)
		}
	}
	j, f := at(Proving)
	f.Apart, f.Proof = state.Known(true), nil
	parts := Next(j, f, noon).Journal
	if !parts.Apart.Equal(noon) || !parts.Deadline.Equal(j.Deadline) {
		t.Errorf("%+v", parts)
	}
	if later := Next(parts, f, noon.Add(time.Minute)); !reflect.DeepEqual(later.Journal, parts) {
		t.Errorf("it is written anew: %+v", later.Journal)
	}
	parts.Joined = noon.Add(time.Second)
	if anew := Next(parts, f, noon.Add(time.Minute)).Journal; !anew.Apart.Equal(noon.Add(time.Minute)) || !anew.Joined.IsZero() {
		t.Errorf("it is apart once more: %+v", anew)
	}
}

// TestATornJournalKeepsThatTheSiteWentBack while the turn still says so, and only of a host that has
// switched on that way.
func TestATornJournalKeepsThatTheSiteWentBack(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Facts)
		back   bool
	}{
		"it went to the old release as to any other": {func(f *Facts) { f.Turn.Value.Back = true }, true},
		"it has not switched":                        {func(f *Facts) { f.Turn.Value.Back, f.Turn.Value.To = true, "other" }, false},
		"the site goes forward":                      {func(*Facts) {}, false},
		"nobody knows the turn":                      {func(f *Facts) { f.Turn = state.Fact[Turn]{} }, false},
	} {
		_, f := at(Accepted)
		f.Unreadable = true
		c.change(&f)
		if j := Next(Journal{}, f, noon).Journal; j.Step != Accepted || j.Back != c.back {
			t.Errorf("%s: %+v", what, j)
		}
	}
}
