package narrow

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAWordThatTheOtherHostIsLostCountsOnlyIfItsEtcdIsSilent, and not while that is unknown.
func TestAWordThatTheOtherHostIsLostCountsOnlyIfItsEtcdIsSilent(t *testing.T) {
	f := paired()
	for _, c := range []struct {
		here state.Fact[bool]
		age  time.Duration
		want string
	}{{state.Known(true), 0, ""}, {state.Known(false), 0, "cp-2"}, {state.Known(false), wishLife - 1, "cp-2"}, {state.Known(false), wishLife, ""}, {state.Fact[bool]{}, 0, ""}} {
		f.PeerHere, f.Wish = c.here, &Wish{ID: "p1", Abort: true, Lost: true, At: noon.Add(-c.age)}
		if d := Decide(f); d.Rule != "back.asked" || d.Plan.Stage != TakingBack || d.Plan.Lost != c.want {
			t.Errorf("%+v: %+v", c, d)
		}
	}
}

// TestAWordThatTheCarrierIsLostCountsOnlyIfItsEtcdIsSilent, for a while, and until etcd changes hands.
func TestAWordThatTheCarrierIsLostCountsOnlyIfItsEtcdIsSilent(t *testing.T) {
	for sentence, c := range map[string]struct {
		stage  Stage
		change func(*Facts)
		want   string
	}{
		"it is silent":                      {Preparing, func(*Facts) {}, "take-over"},
		"its address is not known":          {Preparing, func(f *Facts) { f.PeerHere = state.Fact[bool]{} }, "lost.unknown"},
		"only the lock is left":             {Aborted, func(*Facts) {}, "take-over"},
		"it serves":                         {Preparing, func(f *Facts) { f.PeerHere = state.Known(true) }, ServesRule},
		"and this host is not ready":        {Preparing, func(f *Facts) { f.PeerHere, f.Prepared = state.Known(true), state.Known(false) }, ServesRule},
		"and it does not know the end":      {Aborted, func(f *Facts) { f.PeerHere, f.Told.Value.Stage = state.Known(true), Pairing }, ServesRule},
		"an old word":                       {Preparing, func(f *Facts) { f.Wish.At = noon.Add(-wishLife) }, "lost.drop"},
		"an old word about etcd that moves": {Handing, func(f *Facts) { f.Wish.At = noon.Add(-wishLife) }, "lost.drop"},
		"it was refused a moment ago":       {Preparing, func(f *Facts) { f.PeerHere, f.Wish.At = state.Known(true), noon.Add(1-refusedFor) }, ServesRule},
		"it was refused a minute ago":       {Preparing, func(f *Facts) { f.PeerHere, f.Wish.At = state.Known(true), noon.Add(-refusedFor) }, "lost.drop"},
		"a minute without an answer":        {Preparing, func(f *Facts) { f.PeerHere.Known, f.Wish.At = false, noon.Add(-refusedFor) }, "lost.unknown"},
		"another machine has its name":      {Preparing, func(f *Facts) { f.PeerHere, f.Wish.Replaced = state.Known(true), true }, "take-over"},
		"and nobody said that in time": {Preparing, func(f *Facts) {
			f.PeerHere, f.Wish.Replaced, f.Wish.At = state.Known(true), true, noon.Add(-wishLife)
		}, "lost.drop"},
		"and etcd of this host moves":  {Handing, func(f *Facts) { f.PeerHere, f.Wish.Replaced = state.Known(true), true }, "hand.maintained"},
		"the API does not answer":      {Preparing, func(f *Facts) { f.Lock.Known = false }, "follow"},
		"etcd of this host moves":      {Handing, func(*Facts) {}, "hand.maintained"},
		"somebody deleted the lock":    {Preparing, func(f *Facts) { f.Lock, f.Left = state.Known(Copy{}), state.Known(true) }, "take-over"},
		"while it was taken back":      {TakingBack, func(f *Facts) { f.Lock, f.Left = state.Known(Copy{}), state.Known(true) }, "take-over"},
		"another plan has the lock":    {Preparing, func(f *Facts) { f.Lock, f.Left = state.Known(Copy{ID: "p9"}), state.Known(true) }, "gone.lock"},
		"who deleted it is unknown":    {Preparing, func(f *Facts) { f.Lock = state.Known(Copy{}); f.Left.Known = false }, "gone.lock"},
		"the plan ended meanwhile":     {Preparing, func(f *Facts) { f.Lock, f.Left = state.Known(Copy{}), state.Known(false) }, "gone.asked"},
		"only the accounts are left":   {Aborted, func(f *Facts) { f.Lock, f.Left = state.Known(Copy{}), state.Known(true) }, "over.left"},
		"it was taken over before":     {TakingBack, func(f *Facts) { f.Host, f.Plan.Taken, f.Lock.Value.Plan.Taken = names[0], names[1], names[1] }, "follow"},
		"nobody says that it is lost":  {Preparing, func(f *Facts) { f.Wish = nil }, "follow"},
		"a person takes the plan back": {Preparing, func(f *Facts) { f.Wish.Lost = false }, "follow"},
	} {
		w := newSite()
		w.lock, w.saidThere = c.stage, true
		w.hosts[0].up, w.hosts[0].etcd, w.hosts[0].stage, w.hosts[1].stage = false, false, c.stage, c.stage
		w.hosts[1].prepared, w.hosts[1].paired = c.stage == Preparing, c.stage == Preparing
		w.told = w.facts(1).Progress()
		f := w.facts(1)
		c.change(&f)
		d := Decide(f)
		if d.Rule != c.want {
			t.Errorf("%s: %+v", sentence, d)
		}
		if p := d.Plan; c.want == "take-over" && (p == nil || p.Carrier() != "cp-2" || p.Other() != "cp-1" || p.Lost != "cp-1" || p.Stage != map[bool]Stage{true: Aborted, false: TakingBack}[c.stage == Aborted]) {
			t.Errorf("%s: %+v", sentence, p)
		}
	}
}

// TestALockThatSomebodyDeletedEndsNoPlan: as long as the cluster has the accounts of the BMCs, the carrier has
// not ended it. While that is unknown, nothing ends either.
func TestALockThatSomebodyDeletedEndsNoPlan(t *testing.T) {
	unknown, left, none := state.Fact[bool]{}, state.Known(true), state.Known(false)
	for _, c := range []struct {
		stage  Stage
		begun  bool // this host has a part of the plan
		aborts bool // a person takes it back here
		left   state.Fact[bool]
		want   string
	}{
		{stage: Planned, left: left, want: "gone"},
		{stage: Preparing, left: unknown, want: "gone"},
		{stage: Dressing, begun: true, left: left, want: "gone.lock"},
		{stage: Dressing, begun: true, left: unknown, want: "gone.lock"},
		{stage: Dressing, begun: true, left: none, want: "gone.asks"},
		{stage: Pairing, begun: true, aborts: true, left: left, want: "gone.lock"},
		{stage: Pairing, begun: true, aborts: true, left: unknown, want: "gone.lock"},
		{stage: Pairing, begun: true, aborts: true, left: none, want: "gone.asked"},
		{stage: TakingBack, begun: true, left: left, want: "back.pair"},
		{stage: TakingBack, left: left, want: "gone.lock"},
		{stage: TakingBack, left: unknown, want: "gone.lock"},
		{stage: TakingBack, left: none, want: "gone"},
	} {
		w := newSite()
		w.abortThere, w.hosts[1].stage, w.hosts[1].prepared, w.hosts[1].paired = c.aborts, c.stage, c.begun, c.begun
		f := w.facts(1)
		f.Left = c.left
		if d := Decide(f); d.Rule != c.want {
			t.Errorf("%+v: %+v", c, d)
		}
	}
	// The cluster still has the former carrier's copy of a plan that was taken over.
	w := newSite()
	w.hosts[0].stage, w.hosts[0].taken = TakingBack, true
	f := w.facts(0)
	if f.Left = left; Decide(f).Rule != "gone" {
		t.Errorf("it was taken over: %+v", Decide(f))
	}
	f = forgetting()
	f.Host, f.Lock = names[1], state.Known(Copy{})
	for _, l := range []state.Fact[bool]{left, unknown, none} {
		f.Left = l
		if d := Decide(f); (d.Rule == "gone.whole") != (l == none) {
			t.Errorf("the third host went, %+v: %+v", l, d)
		}
	}
}

// TestAHostThatWaitsForACarrierWithoutALockSaysForWhom: once etcd moves the plan only goes forward, and the words
// of this host go beside the lock. What it can do without stays done.
func TestAHostThatWaitsForACarrierWithoutALockSaysForWhom(t *testing.T) {
	known := state.Known[bool]
	for _, c := range []struct {
		stage      Stage
		maintained state.Fact[bool]
		boots      bool
		lock       state.Fact[Copy]
		left       state.Fact[bool]
		want       string
	}{
		{Handing, known(true), true, state.Known(Copy{}), known(true), "gone.carrier"},
		{Handing, known(true), true, state.Known(Copy{ID: "p9"}), known(true), "gone.carrier"},
		{Handing, state.Fact[bool]{}, true, state.Known(Copy{}), state.Fact[bool]{}, "gone.carrier"},
		{Handing, known(true), true, state.Fact[Copy]{}, known(true), "hand.unmanaged"},
		{Handing, known(false), true, state.Known(Copy{}), known(true), "hand.order"},
		{Handing, known(false), false, state.Known(Copy{}), known(true), "gone.carrier"},
		{Parting, known(false), false, state.Known(Copy{}), known(true), "gone.carrier"},
		{Forgetting, known(false), false, state.Known(Copy{}), state.Fact[bool]{}, "gone.carrier"},
		{Parting, known(false), false, state.Known(Copy{}), known(false), "gone.later"},
	} {
		f := handing()
		f.Host, f.Peer, f.Kubelets, f.Word = names[1], names[0], known(false), state.Known(state.EtcdThirdWord{})
		f.Listed = state.Fact[bool]{} // etcd of this host does not answer
		f.Plan.Stage, f.Maintained, f.Boots, f.Lock, f.Told.Known, f.Left = c.stage, c.maintained, known(c.boots), c.lock, c.lock.Known, c.left
		if d := Decide(f); d.Rule != c.want || c.want == "gone.carrier" && (d.Act != Wait || !strings.Contains(d.Words, "until cp-1 has written it again") || d.Way == "") {
			t.Errorf("%+v: %+v", c, d)
		}
	}
}

// TestAnotherMachineIsKnownByItsNumbers, and by the age of its Node only where the plan's machine is not known.
func TestAnotherMachineIsKnownByItsNumbers(t *testing.T) {
	m := func(uuid, serial string) state.Machine { return state.Machine{UUID: uuid, Serial: serial} }
	after, before := noon.Add(time.Second), noon.Add(-time.Hour)
	for sentence, c := range map[string]struct {
		was, is state.Machine
		made    time.Time
		want    bool
	}{
		"the same":                         {m("u1", "S1"), m("U1", "S1"), before, false},
		"another one":                      {m("u1", "S1"), m("u2", "S2"), before, true},
		"by its UUID alone":                {m("u1", ""), m("u2", "S2"), before, true},
		"by its serial number alone":       {m("u1", "S1"), m("", "S2"), before, true},
		"another UUID, its serial number":  {m("u1", "S1"), m("u2", "S1"), after, false},
		"it says nothing of itself":        {m("u1", "S1"), m("", ""), after, false},
		"nothing to compare":               {m("u1", ""), m("", "S1"), after, false},
		"its Node was made anew":           {m("u1", "S1"), m("u1", "S1"), after, false},
		"unknown, and its Node is younger": {m("", ""), m("u2", "S2"), after, true},
		"unknown, and its Node is older":   {m("", ""), m("u2", "S2"), before, false},
		"unknown, and it has no Node":      {m("", ""), m("", ""), time.Time{}, false},
	} {
		if got := plan(Preparing, false).Replaced(c.was, c.is, c.made); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
	}
}
