package machineconfig

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

const tonight = "2026-11-23T03:00:00Z"

var forTheBoot = drain.Before("reboot-" + tonight)

// booted checks that a host has carried out the wish, with so many boots.
func (w *world) booted(t *testing.T, config string, boots int) {
	t.Helper()
	_, wanted := w.annotations[rollout.RebootWanted]
	_, from := w.annotations[rollout.RebootFrom]
	if w.says() != "Done "+config+": " || w.boot != boots || w.annotations[rollout.RebootDone] != tonight || wanted || from {
		t.Errorf("says %s, %d boots, %v", w.says(), w.boot, w.annotations)
	}
}

func TestAHostBootsInItsTurnWhenSomebodyWantsIt(t *testing.T) {
	w := at(t, one)
	w.noTurn = true
	w.wants(tonight)
	w.settle(hour)
	if w.boot != 0 || w.annotations[rollout.RebootFrom] != rollout.About(tonight, "0") || len(w.asked) != 0 {
		t.Errorf("before its turn: %d boots, asks for %q, %v", w.boot, w.asked, w.annotations)
	}
	w.noTurn = false
	w.wants(tonight)
	w.settle(hour)
	w.booted(t, one, 1)
	if want := []string{forTheBoot, drain.After(one)}; !slices.Equal(w.asked, want) {
		t.Errorf("it asks for %q", w.asked)
	}
	w.settle(hour)
	w.booted(t, one, 1)
}

func TestAWishThatIsTakenBackBeforeTheBootLeavesTheHostAsItWas(t *testing.T) {
	w := at(t, one)
	w.blocked = true
	w.wants(tonight)
	w.settle(hour)
	if w.says() != "Working "+one+": waits until its pods have moved" || w.boot != 0 {
		t.Errorf("says %s, %d boots", w.says(), w.boot)
	}
	w.blocked, w.needed = false, true
	w.operator()
	w.settle(time.Minute)
	if want := "Working " + one + ": waits with its reboot: the cluster may not carry on without it: cp-2 is absent"; w.says() != want || w.boot != 0 {
		t.Errorf("says %s, %d boots", w.says(), w.boot)
	}
	w.wants("")
	w.settle(hour)
	if want := []string{forTheBoot, drain.After(one)}; w.says() != "Done "+one+": " || w.boot != 0 || !slices.Equal(w.asked, want) || w.annotations[rollout.RebootFrom] != "" {
		t.Errorf("taken back: says %s, %d boots, asks for %q, %v", w.says(), w.boot, w.asked, w.annotations)
	}
}

func TestTheConfigurationGoesFirstAndOneBootServesBoth(t *testing.T) {
	w := at(t, one)
	w.annotations[rollout.DesiredConfig] = kernel
	w.wants(tonight)
	w.settle(hour)
	w.booted(t, kernel, 1)
	if want := []string{drain.Before(kernel), drain.After(kernel)}; !slices.Equal(w.asked, want) {
		t.Errorf("it asks for %q", w.asked)
	}
}

func TestAConfigurationWithoutABootIsFollowedByTheOneThatIsWanted(t *testing.T) {
	w := at(t, one)
	w.annotations[rollout.DesiredConfig] = two
	w.wants(tonight)
	w.settle(hour)
	w.booted(t, two, 1)
}

// TestAHostThatWasAwayBootsOnceItIsBack: it does not know whether it booted before the
// wish or after it.
func TestAHostThatWasAwayBootsOnceItIsBack(t *testing.T) {
	w := at(t, one)
	w.annotations[rollout.RebootWanted] = tonight
	w.boots()
	w.settle(hour)
	w.booted(t, one, 2)
}

// TestABootThatNobodyAskedForServesTheWish: the power fails before the host has its
// turn.
func TestABootThatNobodyAskedForServesTheWish(t *testing.T) {
	w := at(t, one)
	w.noTurn = true
	w.wants(tonight)
	w.settle(hour)
	w.boots()
	w.settle(hour)
	w.booted(t, one, 1)
	if len(w.asked) != 0 {
		t.Errorf("it asks for %q", w.asked)
	}
}

func TestAHostThatBootedIsWaitedForUntilItIsReady(t *testing.T) {
	w := at(t, one)
	w.wants(tonight)
	for w.boot == 0 {
		if _, err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
	}
	w.notReady = true
	w.settle(5 * hour)
	if want := "Working " + one + ": has booted as it was wanted, and waits until it is ready: kubelet is not healthy"; w.says() != want || w.boot != 1 {
		t.Errorf("says %s, %d boots", w.says(), w.boot)
	}
	if !drain.Emptied(w.annotations, forTheBoot) {
		t.Errorf("it takes pods: %v", w.annotations)
	}
	w.notReady = false
	w.settle(hour)
	w.booted(t, one, 1)
}

// TestAKernelArgumentThatWasLostHoldsNobodyUp: somebody took it from the boot loader. The
// host says so, boots as wanted, takes a configuration that needs no boot, and has the
// argument again after the command that it names, and a boot.
func TestAKernelArgumentThatWasLostHoldsNobodyUp(t *testing.T) {
	const (
		lost  = "somebody changed the kernel argument mitigations=off"
		quiet = "rendered-worker-quiet"
	)
	w := at(t, one)
	w.wish(kernel)
	w.settle(hour)
	w.menu = ""
	w.bootedWith("root=x")
	w.wants(tonight)
	w.settle(hour)
	w.now = w.now.Add(driftEvery)
	w.settle(hour)
	if w.says() != "Degraded "+kernel+": "+lost || w.annotations[rollout.RebootDone] != tonight || w.boot != 2 {
		t.Errorf("says %s, %d boots, %v", w.says(), w.boot, w.annotations)
	}
	w.has(quiet, map[string]string{"/etc/motd": "quiet\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 1\n"}, service("/bin/one"), "mitigations=off")
	w.wish(quiet)
	w.settle(hour)
	w.now = w.now.Add(driftEvery)
	if w.settle(hour); w.says() != "Degraded "+quiet+": "+lost || w.boot != 2 {
		t.Errorf("another configuration: says %s, %d boots", w.says(), w.boot)
	}
	w.menu = ""
	if err := w.agent.Configure(t.Context(), quiet); err != nil || arguments(w.menu) != "mitigations=off" {
		t.Errorf("the boot loader has %q: %v", w.menu, err)
	}
	w.boots()
	w.now = w.now.Add(driftEvery)
	if w.settle(hour); w.says() != "Done "+quiet+": " {
		t.Errorf("after a boot: says %s", w.says())
	}
}

func TestAHostOfAPoolThatPeopleBootBootsItselfWhenSomebodyWantsIt(t *testing.T) {
	w := at(t, one)
	w.byHand()
	w.wants(tonight)
	w.settle(hour)
	w.booted(t, one, 1)
}

// TestAHostThatWaitsForAPersonsBootBootsWhenSomebodyWantsIt: one boot serves the configuration and
// the wish. One that is taken back before leaves the boot to the person again, with pods.
func TestAHostThatWaitsForAPersonsBootBootsWhenSomebodyWantsIt(t *testing.T) {
	turn := func() *world {
		w := at(t, one)
		w.byHand()
		w.wish(kernel)
		w.settle(hour)
		if w.annotations[rollout.StageAt] != string(rollout.WaitsForBoot) {
			t.Fatalf("says %s", w.says())
		}
		w.wants(tonight)
		w.settle(time.Minute)
		w.annotations[rollout.RebootGiven] = rollout.About(tonight, w.now.Format(time.RFC3339))
		w.watch()
		return w
	}
	w := turn()
	w.settle(hour)
	w.booted(t, kernel, 1)
	if want := []string{drain.Before(kernel), drain.After(kernel)}; !slices.Equal(w.asked, want) {
		t.Errorf("it asks for %q", w.asked)
	}
	w = turn()
	w.blocked = true
	w.settle(time.Minute)
	w.wants("")
	w.settle(hour)
	if want := []string{drain.Before(kernel), drain.After(one)}; w.boot != 0 || w.annotations[rollout.StageAt] != string(rollout.WaitsForBoot) || !slices.Equal(w.asked, want) {
		t.Errorf("taken back: says %s, %d boots, asks for %q", w.says(), w.boot, w.asked)
	}
}

// TestAWishThatIsWrittenInPlaceOfAnotherOneIsNotDoneWithIt: a person takes a reboot back and wants
// another one in the moment in which the host finds that it has booted.
func TestAWishThatIsWrittenInPlaceOfAnotherOneIsNotDoneWithIt(t *testing.T) {
	const later = "2026-11-23T03:30:00Z"
	w := at(t, one)
	w.wants(tonight)
	for w.boot == 0 {
		if _, err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
	}
	written := false
	w.agent.Kubelet = func(context.Context) bool {
		if seen := w.agent.watch; !written && seen.wish == tonight && w.now.Sub(seen.since) >= hostapply.Settled {
			written = true
			w.annotations[rollout.RebootWanted] = later
			w.watch()
		}
		return true
	}
	w.settle(hour)
	w.settle(hour)
	if !written || w.boot != 2 || w.annotations[rollout.RebootDone] != later {
		t.Errorf("written %t, %d boots, %v", written, w.boot, w.annotations)
	}
}

func TestAHostThatFailedBootsWhenSomebodyWantsItAndStaysFailed(t *testing.T) {
	w := at(t, one)
	w.wish(bad)
	w.settle(hour)
	w.noTurn = false
	w.wants(tonight)
	w.settle(hour)
	if !strings.HasPrefix(w.says(), "Degraded "+one) || w.boot != 1 || w.annotations[rollout.RebootDone] != tonight {
		t.Errorf("says %s, %d boots, %v", w.says(), w.boot, w.annotations)
	}
}

func TestTheLastQuestionBeforeAWantedRebootCounts(t *testing.T) {
	w := at(t, one)
	w.wants(tonight)
	for !drain.Emptied(w.annotations, forTheBoot) {
		if _, err := w.once(); err != nil {
			t.Fatal(err)
		}
	}
	facts, _, err := w.agent.facts(t.Context(), w.agent.desired())
	if err != nil {
		t.Fatal(err)
	}
	w.needed = true // right after it was asked
	s := hostapply.Next(*w.agent.journal, facts)
	if w.agent.do(t.Context(), s); s.Do != hostapply.Reboot || slices.Contains(w.orders, "reboot") {
		t.Errorf("%+v, orders %q", s, w.orders)
	}
}

// TestACrashOnTheWayToAWantedBoot plays it with a crash of the agent, or a power cut,
// after each effect, writes into the API among them.
func TestACrashOnTheWayToAWantedBoot(t *testing.T) {
	for _, config := range []string{one, kernel} {
		wanted := func() *world {
			w := at(t, one)
			w.cutsWrites = true
			w.annotations[rollout.DesiredConfig] = config
			w.wants(tonight)
			return w
		}
		whole := wanted()
		whole.settle(hour)
		whole.booted(t, config, 1)
		if whole.effects < 4 {
			t.Fatalf("only %d effects", whole.effects)
		}
		for crash := range whole.effects {
			for _, power := range []bool{false, true} {
				w := wanted()
				w.left, w.power = crash, power
				w.settle(hour)
				w.settle(hour)
				w.booted(t, config, w.boot)
				if w.boot < 1 || !power && w.boot > 1 || w.boot > 2 || w.look() != whole.look() || drain.Empties(w.annotations[drain.Desired]) || w.annotations[drain.Desired] != w.annotations[drain.Applied] {
					t.Fatalf("to %s, crash after %d (power cut: %v): %d boots, says %s, %q, has %s", config, crash, power, w.boot, w.says(), w.annotations[drain.Applied], w.look())
				}
			}
		}
	}
}
