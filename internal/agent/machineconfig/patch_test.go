package machineconfig

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// wantsUpdates has somebody want the updates of the distribution, of which there is one.
func (w *world) wantsUpdates(when string) {
	w.offered = "2"
	if w.annotations[rollout.PatchWanted] = when; when == "" {
		delete(w.annotations, rollout.PatchWanted)
	}
	w.operator()
	w.watch()
}

// needsBoot has the distribution want a reboot.
func (w *world) needsBoot() {
	w.required = updates.Required{Wants: state.Known(true), Why: "the kernel 2 is installed, and 1 runs"}
}

// patched checks that a host has the updates, has booted so often, and takes pods again.
func (w *world) patched(t *testing.T, wish, result string, boots int) {
	t.Helper()
	if w.packages != w.offered || w.boot != boots || w.says() != "Done "+one+": " || w.annotations[rollout.PatchResult] != wish+" "+result || drain.Empties(w.annotations[drain.Desired]) || w.annotations[rollout.PatchWanted] != "" {
		t.Errorf("packages %s, %d boots, says %s, %v", w.packages, w.boot, w.says(), w.annotations)
	}
}

func TestAHostGetsItsUpdatesOnceItIsEmptyAndTakesPodsAgain(t *testing.T) {
	w := at(t, one)
	w.wantsUpdates(tonight)
	w.settle(hour)
	w.patched(t, tonight, "installed 1 update: libc6", 0)
	if want := []string{drain.Before("patch-" + tonight), drain.After(one)}; !slices.Equal(w.asked, want) {
		t.Errorf("it asks for %q", w.asked)
	}
}

func TestAHostBootsForItsUpdatesIfItsDistributionWantsThat(t *testing.T) {
	w := at(t, one)
	w.needsBoot()
	w.wantsUpdates(tonight)
	w.settle(hour)
	w.patched(t, tonight, "installed 1 update: libc6", 1)
	if w.annotations[rollout.RebootRequired] != "No" {
		t.Errorf("it says %q", w.annotations[rollout.RebootRequired])
	}
	w = at(t, one)
	w.needsBoot()
	w.wantsUpdates(tonight + rollout.NoReboot)
	w.settle(hour)
	w.patched(t, tonight+rollout.NoReboot, "installed 1 update: libc6", 0)
	if want := "Yes: the kernel 2 is installed, and 1 runs"; w.annotations[rollout.RebootRequired] != want {
		t.Errorf("it says %q", w.annotations[rollout.RebootRequired])
	}
}

func TestAHostWithoutUpdatesBootsAlone(t *testing.T) {
	w := at(t, one)
	w.needsBoot()
	w.wantsUpdates(tonight)
	w.offered = w.packages
	w.settle(hour)
	w.patched(t, tonight, "there was nothing to install", 1)
	w.wantsUpdates("2026-11-24T02:00:00Z")
	w.offered, w.asked = w.packages, nil
	w.settle(hour)
	w.patched(t, "2026-11-24T02:00:00Z", "there was nothing to install", 1)
	if len(w.asked) > 0 && drain.Empties(w.asked[len(w.asked)-1]) {
		t.Errorf("nothing is to be done, and it asks for %q", w.asked)
	}
}

func TestOneBootServesUpdatesAndAReboot(t *testing.T) {
	w := at(t, one)
	w.needsBoot()
	w.wants(tonight)
	delete(w.annotations, rollout.RebootGiven)
	w.wantsUpdates(tonight)
	w.settle(hour)
	w.settle(hour)
	w.patched(t, tonight, "installed 1 update: libc6", 1)
	if w.annotations[rollout.RebootDone] != tonight {
		t.Errorf("the reboot is wanted still: %v", w.annotations)
	}
}

func TestUpdatesThatCannotBeFetchedCostNothing(t *testing.T) {
	w := at(t, one)
	w.mirror = "nothing was changed: no route"
	w.needsBoot()
	w.wantsUpdates(tonight)
	w.settle(hour)
	if w.annotations[rollout.PatchResult] != tonight+" failed: nothing was changed: no route" || w.annotations[rollout.PatchDone] != tonight || w.boot != 0 || w.packages != "1" || len(w.asked) > 0 || w.says() != "Done "+one+": " {
		t.Errorf("%d boots, asks for %q, %v", w.boot, w.asked, w.annotations)
	}
}

func TestAHostThatTheClusterNeedsWaitsWithItsUpdates(t *testing.T) {
	w := at(t, one)
	w.needed = true
	w.wantsUpdates(tonight)
	w.looksAround()
	if want := "Working " + one + ": waits with its updates: the cluster may not carry on without it: cp-2 is absent"; w.says() != want || w.packages != "1" {
		t.Errorf("says %s, packages %s", w.says(), w.packages)
	}
	w.wantsUpdates("")
	w.settle(hour)
	if w.says() != "Done "+one+": " || w.packages != "1" || drain.Empties(w.annotations[drain.Desired]) {
		t.Errorf("taken back: says %s, %v", w.says(), w.annotations)
	}
}

// TestWhatWasBegunEndsBeforeAnythingElse: the wish is taken back, and another
// configuration is given, while the unit runs.
func TestWhatWasBegunEndsBeforeAnythingElse(t *testing.T) {
	w := at(t, one)
	w.hangs = true
	w.wantsUpdates(tonight)
	w.settle(hour)
	w.wantsUpdates("")
	w.wish(kernel)
	w.settle(hour)
	if want := "Working " + one + ": installs 1 update: libc6"; w.says() != want || w.boot != 0 || w.annotations[drain.Desired] != drain.Before("patch-"+tonight) {
		t.Errorf("says %s, %d boots, %v", w.says(), w.boot, w.annotations)
	}
	w.unit = "inactive"
	w.settle(hour)
	if w.short() != "Done "+kernel || w.boot != 1 || drain.Empties(w.annotations[drain.Desired]) {
		t.Errorf("says %s, %d boots, %v", w.says(), w.boot, w.annotations)
	}
}

func TestAUnitThatDoesNotStartIsGivenUp(t *testing.T) {
	w := at(t, one)
	w.refused = "start"
	w.wantsUpdates(tonight)
	w.settle(hour)
	if want := tonight + " failed: holdfast-patch.service ended 3 times without a result; its journal says why: refused"; w.annotations[rollout.PatchResult] != want || w.says() != "Done "+one+": " {
		t.Errorf("says %s, %v", w.says(), w.annotations)
	}
}

// TestAShutdownIsNoFailureOfUpdates: it begins before they are fetched, or before they are
// installed, and systemd starts nothing from then on.
func TestAShutdownIsNoFailureOfUpdates(t *testing.T) {
	for begins, shuts := range map[string]func(w *world){
		"before they are fetched": func(w *world) {
			w.down = true
			w.wantsUpdates(tonight)
		},
		"before they are installed": func(w *world) {
			w.blocked = true
			w.wantsUpdates(tonight)
			w.settle(hour)
			w.down, w.blocked = true, false
			w.operator()
			w.watch()
		},
	} {
		w := at(t, one)
		shuts(w)
		w.settle(hour)
		if w.annotations[rollout.PatchWanted] != tonight || w.annotations[rollout.PatchResult] != "" || w.packages != "1" || len(w.events) > 0 {
			t.Errorf("%s: %v, packages %s, events %v", begins, w.annotations, w.packages, w.events)
		}
		w.boots()
		w.settle(hour)
		w.patched(t, tonight, "installed 1 update: libc6", 1)
	}
}

func TestARecordThatCannotBeReadIsToldAndHoldsNothingElseUp(t *testing.T) {
	w := at(t, one)
	w.put("/var/lib/holdfast/updates/record.json", "{")
	w.wantsUpdates(tonight)
	w.settle(hour)
	if result := w.annotations[rollout.PatchResult]; !strings.HasPrefix(result, tonight+" failed: read /var/lib/holdfast/updates/record.json: ") {
		t.Errorf("%q", result)
	}
	w.wish(kernel)
	if w.settle(hour); w.short() != "Done "+kernel {
		t.Errorf("says %s", w.says())
	}
}

// TestACrashOnTheWayToUpdates plays it with a crash of the agent, or a power cut, after
// each effect, writes into the API and those of the unit among them.
func TestACrashOnTheWayToUpdates(t *testing.T) {
	wanted := func() *world {
		w := at(t, one)
		w.cutsWrites = true
		w.needsBoot()
		w.wantsUpdates(tonight)
		return w
	}
	whole := wanted()
	whole.settle(hour)
	whole.patched(t, tonight, "installed 1 update: libc6", 1)
	if whole.effects < 12 {
		t.Fatalf("only %d effects", whole.effects)
	}
	for crash := range whole.effects {
		for _, power := range []bool{false, true} {
			w := wanted()
			w.left, w.power = crash, power
			w.settle(hour)
			w.settle(hour)
			w.patched(t, tonight, "installed 1 update: libc6", w.boot)
			if w.boot > 2 || !power && w.boot != 1 || w.annotations[drain.Desired] != w.annotations[drain.Applied] {
				t.Fatalf("crash after %d (power cut: %v): %d boots, %v", crash, power, w.boot, w.annotations)
			}
		}
	}
}
