package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

var seeds = flag.Uint64("seeds", 1500, "how many schedules the tests play")

func TestNoInvariantBreaks(t *testing.T) {
	var converged, human int
	var takeOvers, writes uint64
	for seed := uint64(1); seed <= *seeds; seed++ {
		r := Run(seed, Options{})
		if r.Violation != nil {
			t.Errorf("seed %d: %s\nreplay with: go run ./internal/testkit/sim/run -replay %d", seed, r.Violation, seed)
		}
		takeOvers += r.TakeOvers
		writes += r.Writes
		if r.Converged {
			converged++
		}
		if r.Human {
			human++
		}
	}
	if converged+human < int(*seeds) || converged < int(*seeds)*4/5 || takeOvers < *seeds/10 || writes < *seeds*10 {
		t.Errorf("%d converged, %d ask a person, %d take-overs, %d writes: too little happens", converged, human, takeOvers, writes)
	}
}

func TestTheSameSeedTakesTheSameSteps(t *testing.T) {
	for seed := uint64(1); seed < 20; seed++ {
		one, two := Run(seed, Options{Trace: true}), Run(seed, Options{Trace: true})
		if !slices.Equal(one.Trace, two.Trace) || one.Steps != two.Steps {
			t.Errorf("seed %d differs from itself", seed)
		}
		if plain := Run(seed, Options{}); plain.Steps != one.Steps || plain.Writes != one.Writes {
			t.Errorf("seed %d takes other steps when it is traced", seed)
		}
	}
}

func TestDisksAreFullOftenEnoughToMeetTheirRules(t *testing.T) {
	meets(t, "FAULT its disk is full", "equal.no-space-depart:", "equal.no-space-yield:", "follow.no-space:", "has room again")
}

// A host leaves late only where Pacemaker keeps it stopped for long.
func TestHostsStayStoppedOftenEnoughToLeaveLate(t *testing.T) { meets(t, "leave.depart-stopped:") }

// meets fails unless the traces of 2000 schedules contain each text.
func meets(t *testing.T, missing ...string) {
	t.Helper()
	for seed := uint64(1); seed <= 2000 && len(missing) > 0; seed++ {
		trace := strings.Join(Run(seed, Options{Trace: true}).Trace, "\n")
		missing = slices.DeleteFunc(missing, func(text string) bool { return strings.Contains(trace, text) })
	}
	if len(missing) > 0 {
		t.Errorf("2000 schedules without %q", missing)
	}
}

// TestTheSimulatorBites takes out each rule and adds each mistake.
func TestTheSimulatorBites(t *testing.T) {
	for i := range Bugs {
		b := &Bugs[i]
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			if r := Run(b.Seed, Options{Bug: b}); r.Violation != nil {
				if plain := Run(b.Seed, Options{Sites: b.sites, Thirds: b.thirds}); plain.Violation != nil {
					t.Errorf("seed %d breaks without the bug too: %s", b.Seed, plain.Violation)
				}
				return
			}
			for seed := uint64(1); seed <= 20000; seed++ {
				if r := Run(seed, Options{Bug: b}); r.Violation != nil {
					t.Errorf("seed %d does not find it any more; seed %d does: %s", b.Seed, seed, r.Violation)
					return
				}
			}
			t.Errorf("nothing is found in 20000 schedules: %s", b.What)
		})
	}
}

func TestTheTrackRecordListsEveryBug(t *testing.T) {
	record, err := os.ReadFile("../../../docs/TRACK-RECORD.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range Bugs {
		replay := fmt.Sprintf("`-bug %s -replay %d`", b.Name, b.Seed)
		if !strings.Contains(string(record), replay) {
			t.Errorf("docs/TRACK-RECORD.md does not tell of %s: %s (%s)", replay, b.What, b.Origin)
		}
	}
}

// quiet returns a world in which nothing happens by itself.
func quiet() *world {
	w := newWorld(1, Options{})
	for i := range w.hosts {
		w.hosts[i].disk.record = state.EtcdRecord{State: state.EtcdPair, Seq: 1, Cluster: 0xc1, Member: state.MemberID(i + 1)}
		w.hosts[i].process = process{running: true, members: w.genesis}
	}
	w.calm = true
	return w
}

func TestAPowerCutTakesWhatWasNotSynced(t *testing.T) {
	shorter := false
	for k := range uint64(20) {
		w := quiet()
		w.rng = rand.New(rand.NewPCG(k, 1))
		w.hosts[0].role, w.hosts[0].leaderID = leader, 1
		for range 5 {
			w.client(0)
		}
		w.powerOff(0)
		shorter = shorter || len(w.hosts[0].disk.log) < 5
	}
	if !shorter {
		t.Error("nothing was ever lost")
	}
}

func TestAForkedHistoryIsNoticed(t *testing.T) {
	w := quiet()
	w.committed(0, 1, entry{term: 1, kind: write, arg: 1})
	w.committed(1, 1, entry{term: 2, kind: write, arg: 2})
	if w.failure == nil || w.failure.Invariant != "I2" {
		t.Errorf("%v", w.failure)
	}
}

func TestALiveMemberBesideItsStandInIsNoticed(t *testing.T) {
	w := quiet()
	w.hosts[0].standIn = 2
	w.check()
	if w.failure == nil || w.failure.Invariant != "I1" {
		t.Errorf("%v", w.failure)
	}
}

func TestTwoFencesOfOneIncidentAreNoticed(t *testing.T) {
	w := quiet()
	w.fences = 2
	w.check()
	if w.failure == nil || w.failure.Invariant != "I5" {
		t.Errorf("%v", w.failure)
	}
}

func TestAPairNeedsBothDisksToCommit(t *testing.T) {
	w := quiet()
	h := &w.hosts[0]
	h.role, h.leaderID, h.disk.term = leader, 1, 1
	w.client(0)
	w.sync(0)
	if h.commit != 0 {
		t.Error("committed by one disk")
	}
	h.standIn = 2
	w.standInAnswers(0)
	if h.commit != 1 {
		t.Error("the stand-in's acknowledgement does not count")
	}
}
