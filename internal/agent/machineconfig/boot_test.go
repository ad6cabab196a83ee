package machineconfig

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostIsEmptiedThenBootsItselfAndTakesPodsAgain(t *testing.T) {
	w := at(t, one)
	w.wish(kernel)
	w.settle(hour)
	if w.says() != "Done "+kernel+": " || w.boot != 1 || arguments(w.menu) != "mitigations=off" {
		t.Errorf("says %s, %d boots, %s", w.says(), w.boot, w.look())
	}
	if want := []string{drain.Before(kernel), drain.After(kernel)}; !slices.Equal(w.asked, want) {
		t.Errorf("it asks for %q", w.asked)
	}
	if want := []state.Event{state.PlanEvent("it boots for its configuration " + kernel)}; !reflect.DeepEqual(w.events, want) {
		t.Errorf("it notes %+v", w.events)
	}
}

func TestAHostWritesNothingAndDoesNotBootBeforeItIsEmpty(t *testing.T) {
	w := at(t, one)
	w.blocked = true
	w.wish(kernel)
	w.settle(hour)
	if w.says() != "Working "+one+": waits until its pods have moved" || w.boot != 0 || w.menu != "" {
		t.Errorf("says %s, %d boots, %s", w.says(), w.boot, w.look())
	}
	w.wish(one)
	w.settle(hour)
	if want := []string{drain.Before(kernel), drain.After(one)}; w.says() != "Done "+one+": " || !slices.Equal(w.asked, want) {
		t.Errorf("the wish is taken back: it asks for %q, says %s", w.asked, w.says())
	}
	w.blocked = false
	w.wish(kernel)
	if w.settle(hour); w.says() != "Done "+kernel+": " || w.boot != 1 {
		t.Errorf("given once more: says %s, %d boots", w.says(), w.boot)
	}
}

func TestAHostThatTheClusterNeedsWaitsWithItsReboot(t *testing.T) {
	w := at(t, one)
	w.needed = true
	w.wish(kernel)
	w.settle(time.Minute)
	if want := "Working " + one + ": waits with its reboot: the cluster may not carry on without it: cp-2 is absent"; w.says() != want || w.boot != 0 {
		t.Errorf("says %s, %d boots", w.says(), w.boot)
	}
	w.needed = false
	if w.settle(hour); w.says() != "Done "+kernel+": " || w.boot != 1 {
		t.Errorf("says %s, %d boots", w.says(), w.boot)
	}
}

// looksAround has the agent take in what is new, and time stand still.
func (w *world) looksAround() {
	w.t.Helper()
	for range 5 {
		if _, err := w.once(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestAHostThatTheClusterNeedsForLongTakesPodsMeanwhile: the other control plane dies while this
// one is emptied, or waits with its reboot or its updates. It is emptied anew once it may go.
func TestAHostThatTheClusterNeedsForLongTakesPodsMeanwhile(t *testing.T) {
	const takes = "Working " + one + ": takes pods until the cluster carries on without it: cp-2 is absent"
	for name, c := range map[string]struct {
		wants func(w *world)
		empty string
		done  func(w *world) bool
	}{
		"a configuration": {func(w *world) { w.wish(kernel) }, drain.Before(kernel), func(w *world) bool { return w.says() == "Done "+kernel+": " && w.boot == 1 }},
		"a reboot":        {func(w *world) { w.wants(tonight) }, forTheBoot, func(w *world) bool { return w.says() == "Done "+one+": " && w.boot == 1 }},
		"updates":         {func(w *world) { w.wantsUpdates(tonight) }, drain.Before("patch-" + tonight), func(w *world) bool { return w.packages != "1" }},
	} {
		for _, blocked := range []bool{false, true} {
			w := at(t, one)
			w.needed, w.blocked = true, blocked
			c.wants(w)
			w.looksAround()
			if w.annotations[drain.Desired] != c.empty {
				t.Errorf("%s, blocked %t: a minute later it asks for %q", name, blocked, w.asked)
			}
			w.settle(hour)
			if want := []string{c.empty, drain.After(one)}; w.says() != takes || !slices.Equal(w.asked, want) || w.boot != 0 || w.annotations[rollout.StageAt] != string(rollout.Held) {
				t.Errorf("%s, blocked %t: says %s, asks for %q, %d boots", name, blocked, w.says(), w.asked, w.boot)
			}
			w.needed, w.blocked = false, false
			w.settle(hour)
			if want := []string{c.empty, drain.After(one), c.empty}; !c.done(w) || !slices.Equal(w.asked[:min(3, len(w.asked))], want) || drain.Empties(w.annotations[drain.Desired]) {
				t.Errorf("%s, blocked %t: in the end it says %s, asks for %q", name, blocked, w.says(), w.asked)
			}
		}
	}
}

// TestTheLastQuestionBeforeTheRebootCounts: the other host goes away after the host has
// decided to boot.
func TestTheLastQuestionBeforeTheRebootCounts(t *testing.T) {
	w := at(t, one)
	w.needed = true
	w.wish(kernel)
	w.settle(time.Minute)
	w.agent.reboot(t.Context())
	if slices.Contains(w.orders, "reboot") {
		t.Error("it boots")
	}
	w.needed = false
	w.agent.reboot(t.Context())
	w.agent.reboot(t.Context())
	if n := strings.Count(strings.Join(w.orders, " "), "reboot"); n != 1 {
		t.Errorf("it orders %d reboots", n)
	}
	w.now = w.now.Add(bootPause)
	w.shutdownLooks() // nothing came of it
	w.agent.reboot(t.Context())
	if n := strings.Count(strings.Join(w.orders, " "), "reboot"); n != 2 {
		t.Errorf("after a long time it has ordered %d reboots", n)
	}
}

// TestAHostLeavesBeforeItBoots: the order comes after the virtual IPs have left and the
// API server has ended. Where the host does not boot after all, it may have them again.
func TestAHostLeavesBeforeItBoots(t *testing.T) {
	w := at(t, one)
	w.agent.reboot(t.Context())
	if want := []string{"leave", "give lead", "end API", "reboot"}; !slices.Equal(w.orders, want) {
		t.Errorf("it orders %q, want %q", w.orders, want)
	}
	w = at(t, one)
	w.leaving = func() { w.needed = true } // the other host goes away meanwhile
	w.agent.reboot(t.Context())
	if want := []string{"leave", "stay"}; !slices.Equal(w.orders, want) {
		t.Errorf("it orders %q, want %q", w.orders, want)
	}
	w = at(t, one)
	w.refused = "reboot"
	w.agent.reboot(t.Context())
	if want := []string{"leave", "give lead", "end API", "stay"}; !slices.Equal(w.orders, want) || w.agent.failed == "" {
		t.Errorf("it orders %q, want %q: %s", w.orders, want, w.agent.failed)
	}
}

func TestTheWayBackWaitsForNoPod(t *testing.T) {
	w := at(t, one)
	w.wish(kernel)
	for w.boot == 0 {
		if _, err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
	}
	w.blocked, w.commandLine = true, "root=x" // a boot loader that forgot
	delete(w.annotations, drain.Applied)
	w.watch()
	w.settle(hour)
	if !strings.HasPrefix(w.says(), "Degraded "+one+": the host was not ready") || w.boot != 2 || !slices.Equal(w.asked, []string{drain.Before(kernel), drain.After(one)}) {
		t.Errorf("says %s, %d boots, asks for %q", w.says(), w.boot, w.asked)
	}
}

// TestAHostThatItsConfigurationCutOffBootsOnItsWayBack: it sees nobody who carries on. It
// boots where it carries nothing itself, and on no other way.
func TestAHostThatItsConfigurationCutOffBootsOnItsWayBack(t *testing.T) {
	w := at(t, one)
	w.needed, w.idle = true, true
	w.wish(kernel)
	if w.settle(5 * time.Minute); w.boot != 0 || w.annotations[rollout.StageAt] != string(rollout.Held) {
		t.Errorf("on the way there: says %s, %d boots", w.says(), w.boot)
	}
	w.needed, w.idle = false, false
	for w.boot == 0 {
		if _, err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
	}
	w.notReady, w.away, w.needed = true, true, true
	if w.settle(hour / 3); w.boot != 1 || !w.agent.journal.Back {
		t.Errorf("it may carry the cluster: %d boots, %+v", w.boot, w.agent.journal)
	}
	w.idle = true
	for i := 0; w.boot == 1 && i < 10; i++ {
		if _, err := w.once(); err != nil {
			t.Log(err) // the API does not answer
		}
		w.now = w.now.Add(time.Second)
	}
	w.notReady, w.away, w.needed, w.idle = false, false, false, false
	w.watch()
	if w.settle(hour); !strings.HasPrefix(w.says(), "Degraded "+one+": the host was not ready") || w.boot != 2 {
		t.Errorf("back: says %s, %d boots", w.says(), w.boot)
	}
}

// TestACrashOnTheWayThroughAReboot plays it with a crash of the agent, or a power cut,
// after each effect.
func TestACrashOnTheWayThroughAReboot(t *testing.T) {
	whole := at(t, one)
	whole.wish(kernel)
	whole.settle(hour)
	if whole.effects < 5 {
		t.Fatalf("only %d effects", whole.effects)
	}
	for crash := range whole.effects {
		for _, power := range []bool{false, true} {
			w := at(t, one)
			w.wish(kernel)
			w.left, w.power = crash, power
			w.settle(hour)
			w.settle(hour)
			if w.says() != whole.says() || w.look() != whole.look() || w.annotations[drain.Applied] != drain.After(kernel) {
				t.Fatalf("crash after %d (power cut: %v): says %s, %q, has %s", crash, power, w.says(), w.annotations[drain.Applied], w.look())
			}
		}
	}
}
