package sim

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

var sites = flag.Uint64("sites", 250, "how many schedules of a site that changes the tests play")

func TestNoInvariantBreaksWhileASiteChanges(t *testing.T) {
	converged, says := 0, 0
	for seed := uint64(1); seed <= *sites; seed++ {
		r := Run(seed, Options{Sites: true})
		switch {
		case r.Violation != nil:
			t.Errorf("seed %d: %s\nreplay with: go run ./internal/testkit/sim/run -sites -replay %d", seed, r.Violation, seed)
		case r.Converged:
			converged++
		case r.Human:
			says++
		}
	}
	if converged < int(*sites)*3/4 || converged+says < int(*sites) {
		t.Errorf("%d are whole, %d wait for a machine or a person: too little happens", converged, says)
	}
}

func TestASiteThatChangesTakesTheSameStepsForTheSameSeed(t *testing.T) {
	for seed := uint64(1); seed < 6; seed++ {
		one, two := Run(seed, Options{Sites: true, Trace: true}), Run(seed, Options{Sites: true, Trace: true})
		if !slices.Equal(one.Trace, two.Trace) {
			t.Errorf("seed %d differs from itself", seed)
		}
		if plain := Run(seed, Options{Sites: true}); plain.Steps != one.Steps || plain.Writes != one.Writes {
			t.Errorf("seed %d takes other steps when it is traced", seed)
		}
	}
}

// TestSitesMeetTheirSteps keeps the schedules from becoming so tame that they show nothing.
func TestSitesMeetTheirSteps(t *testing.T) {
	missing := []string{
		"the site grows", "gets another machine", "the site shrinks", "gone.first: write-record", "plan: retired.early", "plan: narrowing.stop", "plan: narrowing.pair",
		"the old machine", "switches itself off", "goes away for good",
	}
	for seed := uint64(1); seed <= 800 && len(missing) > 0; seed++ {
		trace := strings.Join(Run(seed, Options{Sites: true, Trace: true}).Trace, "\n")
		missing = slices.DeleteFunc(missing, func(text string) bool { return strings.Contains(trace, text) })
	}
	if len(missing) > 0 {
		t.Errorf("800 schedules without %q", missing)
	}
}

// still returns a site of two in which nothing happens by itself.
func still() *world {
	for seed := uint64(1); ; seed++ {
		if w := newSite(seed, Options{}); w.site.life == stands {
			w.calm = true
			return w
		}
	}
}

func TestAHostThatIsTakenOutAndLetInIsNoticed(t *testing.T) {
	w := still()
	s := w.site
	s.old = w.hosts[s.going()].machine
	w.hosts[s.stay].seat.plan = &replace.Plan{ID: "p", Stage: replace.Retired, Old: replace.Old{Name: names[s.going()]}}
	if w.check(); w.failure != nil {
		t.Fatalf("nothing of it was taken out yet: %s", w.failure)
	}
	w.hosts[s.stay].seat.lists = false
	if w.check(); w.failure == nil || w.failure.Invariant != "I9" {
		t.Errorf("%v", w.failure)
	}
}

func TestAStartAloneBesideAPeerThatIsOnIsNoticed(t *testing.T) {
	w := still()
	w.hosts[0].bootedAt = 1
	w.checkGrant(0)
	if w.failure == nil || w.failure.Invariant != "I9" {
		t.Errorf("%v", w.failure)
	}
}

func TestOnlyAHostWithTheSameKeyIsHeard(t *testing.T) {
	w := still()
	w.hosts[0].seat.lists = false
	if !w.meets() {
		t.Error("a host that is not listed any more joins before it is turned away")
	}
	w.hosts[0].seat.keyRan = 7
	if w.meets() {
		t.Error("two hosts with different keys meet")
	}
}

func TestADeviceOfAnotherMachineSaysNothingOfThePeer(t *testing.T) {
	w := still()
	w.site.life = stands
	w.hosts[0].seat.device = 5
	if is := w.powerOfPeer(0); is.Known {
		t.Errorf("%v", is)
	}
	shelf := host{machine: 5}
	w.site.shelf = &shelf
	if is := w.powerOfPeer(0); !state.Is(is, state.PowerOff) {
		t.Errorf("%v", is)
	}
}
