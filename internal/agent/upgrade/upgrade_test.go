package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostGoesToTheReleaseForWhichItHasItsTurn(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	if j := w.journal(); j.Step != parachute.Accepted || w.current != newOne || w.previous != oldOne || w.leads {
		t.Fatalf("%+v, it has %s", j, w.current)
	}
	want := []string{"stop", "arm", "switch", "start containerd", "start kubelet", "start agent", "disarm"}
	if !slices.Equal(w.acts, want) {
		t.Errorf("it did %v, and not %v", w.acts, want)
	}
}

func TestWithoutATurnNothingIsTouched(t *testing.T) {
	for what, give := range map[string]func(*world){
		"no turn":                  func(*world) {},
		"stay":                     func(w *world) { w.turn(parachute.Stay) },
		"a turn of a later format": func(w *world) { w.annotations["holdfast.io/upgrade-turn"] = `{"format":2,"wish":"go"}` },
		"no words":                 func(w *world) { w.annotations["holdfast.io/upgrade-turn"] = `go!` },
		"no node":                  func(w *world) { w.turn(parachute.Go); w.agent.Nodes(nil) },
	} {
		w := newWorld(t)
		give(w)
		if what != "no node" {
			w.agent.Nodes(w.nodes())
		}
		// A daemon that somebody stopped is his.
		delete(w.daemons, "kubelet")
		for range 20 {
			if out, err := w.agent.step(t.Context()); err != nil || out.Again != 0 {
				t.Fatalf("%s: %+v %v", what, out, err)
			}
		}
		if len(w.acts) > 0 || w.cut.Effects > 0 {
			t.Errorf("%s: it did %v", what, w.acts)
		}
	}
}

// TestAWayCutAtAnyEffectEndsWithOneRelease: a crash of the process, and a cut of the
// power, before and after each effect.
func TestAWayCutAtAnyEffectEndsWithOneRelease(t *testing.T) {
	for name, bad := range map[string]string{"a good release": "", "a bad release": "kubelet"} {
		clean := newWorld(t)
		clean.bad = bad
		clean.turn(parachute.Go)
		clean.rests(false)
		ends := map[parachute.Step]int{} //nolint:exhaustive // it is counted
		for at := 1; at <= clean.cut.Effects; at++ {
			for _, after := range []bool{false, true} {
				for _, power := range []bool{false, true} {
					w := newWorld(t)
					w.bad = bad
					w.cut.At, w.cut.After = at, after
					w.turn(parachute.Go)
					w.rests(power)
					j := w.journal()
					ends[j.Step]++
					if (j.Step == parachute.Accepted) != (w.current == newOne) {
						t.Fatalf("%s, cut at %d (after %v, power %v): %s with %s", name, at, after, power, j.Step, w.current)
					}
					if bad != "" && j.Step == parachute.Accepted {
						t.Fatalf("%s, cut at %d: accepted", name, at)
					}
				}
			}
		}
		t.Logf("%s: %d effects, %v", name, clean.cut.Effects, ends)
		if ends[parachute.Accepted] == 0 && bad == "" || ends[parachute.Returned] == 0 {
			t.Errorf("%s: %v", name, ends)
		}
	}
}

func TestABadReleaseGoesBackByItself(t *testing.T) {
	for what, c := range map[string]struct {
		make func(*world)
		why  string
	}{
		"its kubelet does not show itself": {func(w *world) { w.bad = "kubelet" }, "not accepted"},
		"its agent does not start":         {func(w *world) { w.broken = "agent" }, "not accepted in time"},
		"its kubelet does not start":       {func(w *world) { w.broken = "kubelet" }, "not accepted"},
		"its containerd does not start":    {func(w *world) { w.broken = "containerd" }, "not accepted"},
	} {
		w := newWorld(t)
		c.make(w)
		w.turn(parachute.Go)
		for range 20 {
			w.tick(false)
		}
		w.rests(false)
		if j := w.journal(); j.Step != parachute.Returned || !j.Failed || !strings.Contains(j.Why, c.why) || w.current != oldOne {
			t.Errorf("%s: %+v, it has %s", what, j, w.current)
		}
		if e := w.events; len(e) != 1 || e[0].Kind != state.EventPlan || !strings.Contains(e[0].Why, c.why) {
			t.Errorf("%s: reports of incidents are told %+v", what, e)
		}
		acts := len(w.acts)
		for range 20 {
			w.tick(false)
		}
		if len(w.acts) != acts {
			t.Errorf("%s: it tries again: %v", what, w.acts[acts:])
		}
	}
}

// TestAHostWithoutContainerdReturnsByTheParachuteAlone: the agent of the new release does not
// run, and images of the old one cannot be asked for.
func TestAHostWithoutContainerdReturnsByTheParachuteAlone(t *testing.T) {
	for what, c := range map[string]struct {
		gone string
		want string
	}{"the old release lies there": {"", oldOne}, "its files were removed": {oldOne, newOne}} {
		w := newWorld(t)
		w.broken = "containerd"
		w.turn(parachute.Go)
		w.until(parachute.Started)
		w.gone = c.gone
		delete(w.daemons, "agent")
		for range 120 {
			w.now = w.now.Add(3 * time.Second)
			if w.armed != "" {
				w.expect(w.run())
			}
		}
		if w.current != c.want {
			t.Errorf("%s: %+v, it has %s", what, w.journal(), w.current)
		}
	}
}

// TestAHostThatMayNotReturnAndGoesOnSaysSo: it starts what does not start again and again, and
// somebody has to know why it does not go back.
func TestAHostThatMayNotReturnAndGoesOnSaysSo(t *testing.T) {
	w := newWorld(t)
	w.broken = "containerd"
	w.turn(parachute.Go)
	w.until(parachute.Started)
	w.gone = oldOne
	for range 120 {
		w.tick(false)
	}
	const why = "does not lie on this host whole"
	if j := w.journal(); j.Step != parachute.Started || !strings.Contains(w.agent.held, why) {
		t.Errorf("%+v, held %q", j, w.agent.held)
	}
	if said, err := w.parachute().Run(t.Context()); err != nil || !strings.Contains(said, why) {
		t.Errorf("the parachute says %q, %v", said, err)
	}
}

func TestTwoBootsWithoutProofAndThreeHangsLeadBack(t *testing.T) {
	w := newWorld(t)
	w.bad = "pods"
	w.turn(parachute.Go)
	w.until(parachute.Proving)
	w.crash()
	w.crash()
	w.until(parachute.Returned)
	if j := w.journal(); j.Step != parachute.Returned || !strings.Contains(j.Why, "boot 2") {
		t.Errorf("%+v", j)
	}
	w = newWorld(t)
	w.bad = "pods"
	w.turn(parachute.Go)
	w.until(parachute.Proving)
	w.hangs = 3
	w.rests(false)
	if j := w.journal(); j.Step != parachute.Returned || !strings.Contains(j.Why, "hung 3 times") {
		t.Errorf("%+v", j)
	}
}

func TestALoneHostThatServesIsNotReturned(t *testing.T) {
	w := newWorld(t)
	w.bad = "pods"
	w.turn(parachute.Go)
	w.until(parachute.Proving)
	w.peer = state.Fact[bool]{}
	for range 400 {
		w.tick(false)
	}
	if j := w.journal(); j.Step != parachute.Proving || w.current != newOne || !strings.Contains(w.agent.held, "no other one is known to serve") {
		t.Fatalf("%+v held %q", j, w.agent.held)
	}
	w.bad = ""
	w.rests(false)
	if w.current != newOne {
		t.Error("it went back")
	}
}

func TestATurnThatIsTakenBackLetsTheHostServeAgain(t *testing.T) {
	for _, step := range []parachute.Step{parachute.Prepare, parachute.Leave, parachute.Armed} {
		w := newWorld(t)
		w.turn(parachute.Go)
		for range 50 {
			if w.journal().Step == step {
				break
			}
			w.now = w.now.Add(time.Second)
			w.operator()
			w.agent.Nodes(w.nodes())
			_, err := w.agent.step(t.Context())
			w.expect(err)
		}
		w.turn(parachute.Stay)
		w.rests(false)
		if j := w.journal(); j.Step != parachute.Returned || j.Failed || w.current != oldOne {
			t.Errorf("%s: %+v", step, j)
		}
	}
}

// looksFor has the agent look once a second until its journal is as wanted, for so long at most.
func (w *world) looksFor(most time.Duration, until func(parachute.Journal) bool) bool {
	w.t.Helper()
	for end := w.now.Add(most); w.now.Before(end); {
		if until(w.journal()) {
			return true
		}
		w.now = w.now.Add(time.Second)
		w.operator()
		w.agent.Nodes(w.nodes())
		_, err := w.agent.step(w.t.Context())
		w.expect(err)
	}
	return until(w.journal())
}

// The last attempt is not begun in the seconds in which a site comes together again.
func TestASecondAttemptBeginsOnceThePeerHasServedForAMinute(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	at := func(s parachute.Step) func(parachute.Journal) bool {
		return func(j parachute.Journal) bool { return j.Step == s }
	}
	if !w.looksFor(time.Minute, at(parachute.Prepare)) {
		t.Fatalf("the first attempt does not begin: %+v", w.journal())
	}
	w.peer = state.Fact[bool]{}
	if w.looksFor(20*time.Second, at(parachute.Returned)) {
		t.Errorf("one that only answers late ends the attempt: %+v", w.journal())
	}
	if j := w.journal(); j.Step != parachute.Prepare {
		t.Errorf("it goes on without its peer: %+v", j)
	}
	if !w.looksFor(time.Minute, at(parachute.Returned)) {
		t.Fatalf("it waits for its peer for ever: %+v", w.journal())
	}
	w.peer = state.Known(true)
	second := func(j parachute.Journal) bool { return j.Attempts == 2 }
	if w.looksFor(calm-2*time.Second, second) {
		t.Errorf("the second attempt begins at once: %+v", w.journal())
	}
	if !w.looksFor(5*time.Second, second) {
		t.Errorf("the second attempt does not begin: %+v", w.journal())
	}
}

// The only control plane of a site has nobody to wait for.
func TestTheOnlyControlPlaneBeginsItsSecondAttempt(t *testing.T) {
	for _, step := range []parachute.Step{parachute.Prepare, parachute.Leave, parachute.Armed} {
		w := newWorld(t)
		w.kind, w.peer = parachute.Alone, state.Known(false)
		w.process()
		w.turn(parachute.Go)
		if !w.looksFor(time.Minute, func(j parachute.Journal) bool { return j.Step == step }) {
			t.Fatalf("it does not come to %s: %+v", step, w.journal())
		}
		w.crash()
		w.until(parachute.Accepted)
		if j := w.journal(); j.Attempts != 2 || w.current != newOne {
			t.Errorf("cut at %s: %+v", step, j)
		}
	}
}

// TestAHostThatBootsForMinutesShowsItselfAfterwards: while it has no power it can show nothing, and
// etcd needs its time after a boot as after the switch.
func TestAHostThatBootsForMinutesShowsItselfAfterwards(t *testing.T) {
	for _, step := range []parachute.Step{parachute.Switched, parachute.Started, parachute.Proving} {
		for _, dark := range []time.Duration{0, 3 * time.Minute, 6 * time.Minute, time.Hour} {
			w := newWorld(t)
			w.turn(parachute.Go)
			if !w.looksFor(time.Minute, func(j parachute.Journal) bool { return j.Step == step }) {
				t.Fatalf("it does not come to %s: %+v", step, w.journal())
			}
			w.bad, w.dark = "etcd", dark
			w.crash()
			for range 15 { // 45 s
				w.tick(false)
			}
			w.bad = ""
			w.rests(false)
			if j := w.journal(); j.Step != parachute.Accepted || w.current != newOne {
				t.Errorf("%s without power at %s: %+v", dark, step, j)
			}
		}
	}
}

func TestAnAdministratorGoesBackFromAnAcceptedHost(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	w.leads = true
	w.turn(parachute.GoBack)
	w.tick(false)
	w.rests(false)
	if !w.madeWay {
		t.Error("its virtual IPs and etcd's leadership were here when it began to return")
	}
	if j := w.journal(); j.Step != parachute.Returned || j.Failed || w.current != oldOne {
		t.Errorf("%+v", j)
	}
	w = newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	w.gone = oldOne
	w.turn(parachute.GoBack)
	for range 20 {
		w.tick(false)
	}
	if w.current != newOne || !strings.Contains(w.agent.held, "does not lie on this host whole") {
		t.Errorf("it has %s, held %q", w.current, w.agent.held)
	}
}

// TestAContainerdThatHangsAfterItWasAcceptedKeepsNobodyFromGoingBack: it may be what the administrator
// goes back for. Without one who does, it is not asked whether the old release lies there.
func TestAContainerdThatHangsAfterItWasAcceptedKeepsNobodyFromGoingBack(t *testing.T) {
	for what, c := range map[string]struct {
		gone, want string
		step       parachute.Step
	}{"the old release lies there": {"", oldOne, parachute.Returned}, "its files were removed": {oldOne, newOne, parachute.Accepted}} {
		w := newWorld(t)
		w.turn(parachute.Go)
		w.rests(false)
		w.mute, w.gone = true, c.gone
		w.turn(parachute.GoBack)
		for range 100 {
			w.tick(false)
		}
		if j := w.journal(); j.Step != c.step || w.current != c.want {
			t.Errorf("%s: %+v, it has %s, held %q", what, j, w.current, w.agent.held)
		}
	}
}

func TestADrainThatDoesNotEndIsWaitedForAndThenGivenUp(t *testing.T) {
	w := newWorld(t)
	w.noDrain = true
	w.turn(parachute.Go)
	for range 20 {
		w.tick(false)
	}
	if j := w.journal(); j.Step != parachute.Prepare || len(w.acts) > 0 || w.annotations[drain.Desired] != drain.Upgrade("u1") {
		t.Fatalf("%+v, it did %v", j, w.acts)
	}
	w.now = w.now.Add(31 * time.Minute)
	w.tick(false)
	if j := w.journal(); j.Step != parachute.Returned || !strings.Contains(j.Why, "not ready to switch") {
		t.Fatalf("%+v", j)
	}
}

func TestTheParachuteNeverGoesForward(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	seen := map[parachute.Step]bool{} //nolint:exhaustive // it is filled
	for range 60 {
		before, acts := w.journal(), len(w.acts)
		seen[before.Step] = true
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
		if after := w.journal(); after.Step != before.Step || slices.ContainsFunc(w.acts[acts:], func(a string) bool { return a != "disarm" }) {
			t.Fatalf("%s became %s by %v", before.Step, after.Step, w.acts[acts:])
		}
		w.now = w.now.Add(time.Second)
		w.operator()
		w.agent.Nodes(w.nodes())
		_, err := w.agent.step(t.Context())
		w.expect(err)
	}
	for _, s := range []parachute.Step{parachute.Prepare, parachute.Leave, parachute.Armed, parachute.Switched, parachute.Started, parachute.Proving, parachute.Accepted} {
		if !seen[s] {
			t.Errorf("it never was %s: %v", s, seen)
		}
	}
}

// TestAHostThatAnAdministratorTakesBackIsEmptyBefore: its pods move first, as on the way
// there, and come back afterwards.
func TestAHostThatAnAdministratorTakesBackIsEmptyBefore(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	w.tick(false) // it takes pods again
	w.acts, w.noDrain = nil, true
	w.turn(parachute.GoBack)
	for range 20 {
		w.tick(false)
	}
	if j := w.journal(); j.Step != parachute.Accepted || len(w.acts) > 0 || w.annotations[drain.Desired] != drain.Upgrade("u1") {
		t.Fatalf("while pods are there: %+v, %v, %v", j, w.acts, w.annotations)
	}
	w.process() // it remembers since when it waits
	began := w.journal().Empties
	w.tick(false)
	if !w.journal().Empties.Equal(began) || began.IsZero() {
		t.Errorf("a new process waits since %s, and the one before since %s", w.journal().Empties, began)
	}
	w.noDrain = false
	w.rests(false)
	if j := w.journal(); j.Step != parachute.Returned || w.current != oldOne || !j.Empties.IsZero() {
		t.Errorf("%+v, it has %s", j, w.current)
	}
}

// TestADrainThatDoesNotEndHoldsAReturnForTenMinutes and no longer.
func TestADrainThatDoesNotEndHoldsAReturnForTenMinutes(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	w.tick(false) // it takes pods again
	w.noDrain = true
	began := w.now
	w.turn(parachute.GoBack)
	w.until(parachute.Accepted)
	for w.journal().Step == parachute.Accepted && w.now.Sub(began) < time.Hour {
		w.tick(false)
	}
	if took := w.now.Sub(began); took < 10*time.Minute || took > 11*time.Minute {
		t.Errorf("it waited %s", took)
	}
	w.rests(false)
	if w.current != oldOne {
		t.Errorf("it has %s", w.current)
	}
}

// TestAHostThatIsNotTakenBackAfterAllGetsItsPodsAgain, and a later return waits anew.
func TestAHostThatIsNotTakenBackAfterAllGetsItsPodsAgain(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	w.tick(false) // it takes pods again
	w.noDrain = true
	w.turn(parachute.GoBack)
	for range 5 {
		w.tick(false)
	}
	w.turn(parachute.Stay)
	for range 5 {
		w.tick(false)
	}
	if j := w.journal(); !j.Empties.IsZero() || j.Step != parachute.Accepted || drain.Empties(w.annotations[drain.Desired]) {
		t.Errorf("%+v, %v", j, w.annotations)
	}
}
