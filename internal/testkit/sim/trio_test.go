package sim

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
)

var thirds = flag.Uint64("thirds", 250, "how many schedules of a third control plane that comes or goes the tests play")

func TestNoInvariantBreaksWhileAThirdControlPlaneComesOrGoes(t *testing.T) {
	converged, says := 0, 0
	for seed := uint64(1); seed <= *thirds; seed++ {
		r := Run(seed, Options{Thirds: true})
		switch {
		case r.Violation != nil:
			t.Errorf("seed %d: %s\nreplay with: go run ./internal/testkit/sim/run -thirds -replay %d", seed, r.Violation, seed)
		case r.Converged:
			converged++
		case r.Human:
			says++
		}
	}
	if converged < int(*thirds)*3/4 || converged+says < int(*thirds) {
		t.Errorf("%d are whole, %d wait for what is lost or for a person: too little happens", converged, says)
	}
}

func TestAThirdControlPlaneTakesTheSameStepsForTheSameSeed(t *testing.T) {
	for seed := uint64(1); seed < 6; seed++ {
		one, two := Run(seed, Options{Thirds: true, Trace: true}), Run(seed, Options{Thirds: true, Trace: true})
		if !slices.Equal(one.Trace, two.Trace) {
			t.Errorf("seed %d differs from itself", seed)
		}
		if plain := Run(seed, Options{Thirds: true}); plain.Steps != one.Steps || plain.Writes != one.Writes {
			t.Errorf("seed %d takes other steps when it is traced", seed)
		}
	}
}

// TestThirdsMeetTheirSteps keeps the schedules from becoming so tame that they show nothing.
func TestThirdsMeetTheirSteps(t *testing.T) {
	missing := []string{
		"the plan is over: whole", "the plan is over: aborted", "went on alone", "widen.majority: write-record", "widen.back: write-record",
		"majority.back: write-record", "majority.start: start", "promote of member", "kubelet gets etcd", "narrow.first: write-record", "the etcd keeper gets etcd", "the plan removes member", "the plan removes voter",
		"the person says that the host that goes is gone", "the person takes the plan back", "the disk of the third machine is replaced", "is lost for good",
	}
	for seed := uint64(1); seed <= 2500 && len(missing) > 0; seed++ {
		trace := strings.Join(Run(seed, Options{Thirds: true, Trace: true}).Trace, "\n")
		missing = slices.DeleteFunc(missing, func(text string) bool { return strings.Contains(trace, text) })
	}
	if len(missing) > 0 {
		t.Errorf("2500 schedules without %q", missing)
	}
}

// stillThree returns a site of three in which nothing happens by itself.
func stillThree() *world {
	for seed := uint64(1); ; seed++ {
		if w := newTrio(seed, Options{}); w.trio.objects == 3 {
			w.calm = true
			return w
		}
	}
}

func TestTheRightsOfOneOfTwoAmongThreeVotersAreNoticed(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a record that says pair":           func(w *world) { w.hosts[0].disk.record.State = state.EtcdPair },
		"a record that says taking-over":    func(w *world) { w.hosts[1].disk.record.State = state.EtcdTakingOver },
		"a stand-in":                        func(w *world) { w.hosts[0].standIn = w.trio.machine.disk.id },
		"two starters of one etcd":          func(w *world) { w.hosts[0].seat.runs, w.trio.mates[0].cib.etcd = true, true },
		"nobody starts etcd at boot":        func(w *world) { w.hosts[1].seat.kubelet = false },
		"kubelet and Pacemaker do not, too": func(w *world) { w.hosts[1].seat.static = false },
		"an etcd keeper on one of three":    func(w *world) { w.hosts[0].seat.told = true },
		"a plan that was taken back": func(w *world) {
			w.trio.busy, w.trio.plans = true, 1
			w.trio.mates[w.trio.carrier].wide = &widen.Plan{ID: "p1", Stage: widen.Aborted}
		},
		"a plan at its end": func(w *world) {
			w.trio.busy, w.trio.plans = true, 1
			w.trio.mates[w.trio.carrier].narrow = &narrow.Plan{ID: "p1", Stage: narrow.Whole}
		},
		"both hosts without etcd by the plan": func(w *world) {
			for i := range w.hosts {
				w.hosts[i].seat.static, w.hosts[i].seat.ringBoots, w.hosts[i].running = false, true, false
				w.trio.mates[i].asked, w.trio.mates[i].cib.maintained = state.EtcdStopped, true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := stillThree()
			if w.check(); w.failure != nil {
				t.Fatalf("nothing is wrong yet: %s", w.failure)
			}
			change(w)
			if w.check(); w.failure == nil || w.failure.Invariant != "I10" {
				t.Errorf("%v", w.failure)
			}
		})
	}
}

func TestTwoMachinesThatRunOneMemberAreNoticed(t *testing.T) {
	w := stillThree()
	w.hosts[0].running, w.hosts[0].disk.id = true, w.trio.machine.disk.id
	if w.check(); w.failure == nil || w.failure.Invariant != "I1" {
		t.Errorf("%v", w.failure)
	}
}

func TestNoWriteForTwoMinutesWithoutAFaultIsNoticed(t *testing.T) {
	w := stillThree()
	w.calm = false
	w.now = idleLimit + 1
	if w.check(); w.failure == nil || w.failure.Invariant != "I8" {
		t.Errorf("%v", w.failure)
	}
}

func TestTwoOfThreeDisksCommit(t *testing.T) {
	w := stillThree()
	h := &w.hosts[0]
	h.running, h.members, h.disk.term = true, w.genesis, 1
	w.lead(0)
	w.sync(0)
	if h.commit != 0 {
		t.Fatal("committed by one disk of three")
	}
	h.follows[third] = follow{id: w.trio.machine.disk.id, match: 1}
	w.advance(0)
	if h.commit != 1 {
		t.Error("two of three disks hold the entry, and it is not committed")
	}
}

// A learner that lost its data is no leader's promise; a voter that did is.
func TestAVoterThatStartsFromNothingIsNoticed(t *testing.T) {
	w := stillThree()
	n := &w.trio.machine
	n.running = true
	w.onAppend(msg{kind: msgBeat, from: 0, to: third, fromID: 1, toID: n.disk.id, commit: 5})
	if w.failure == nil || w.failure.Invariant != "I1" {
		t.Errorf("a voter: %v", w.failure)
	}
	w = stillThree()
	n = &w.trio.machine
	n.running = true
	w.trio.members = []member{{id: 1}, {id: 2, at: 1}, {id: n.disk.id, at: third, learner: true}}
	w.onAppend(msg{kind: msgBeat, from: 0, to: third, fromID: 1, toID: n.disk.id, commit: 5})
	if w.failure != nil || n.running {
		t.Errorf("a learner: %v, runs %t", w.failure, n.running)
	}
}

// Its leader knows that it has entries: the real etcd ends in a loop until another one leads.
func TestALearnerThatStartsFromNothingTwiceIsNoticed(t *testing.T) {
	w := stillThree()
	n := &w.trio.machine
	w.trio.members = []member{{id: 1}, {id: 2, at: 1}, {id: n.disk.id, at: third, learner: true}}
	h := &w.hosts[0]
	h.running, h.leaderID, h.members = true, 1, w.trio.members
	for _, want := range []bool{false, true} {
		n.running, n.disk.copy = false, state.CopyNone
		w.startThird()
		if noticed := w.failure != nil && w.failure.Invariant == "I10"; noticed != want {
			t.Errorf("noticed: %t, want %t: %v", noticed, want, w.failure)
		}
	}
}

func TestARemovedThirdMemberIsNotHeard(t *testing.T) {
	w := stillThree()
	m := msg{kind: msgVote, from: third, to: 0, fromID: w.trio.machine.disk.id, toID: 1}
	if w.expelled(m) {
		t.Error("a member is not heard")
	}
	h := &w.hosts[0]
	h.disk.log, h.commit, h.members = []entry{{kind: remove, id: w.trio.machine.disk.id}}, 1, w.genesis[:third]
	if !w.expelled(m) {
		t.Error("a removed member is heard")
	}
}
