package machineconfig

import (
	"fmt"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
)

const (
	withHeld   = tonight + rollout.HeldToo
	heldResult = "installed 1 update: libc6; changed what etcd runs on, at its boot: corosync=2"
)

// TestWhatEtcdRunsOnChangesAtTheBootThatTheHostOrders, once everything else is installed and the
// host is empty.
func TestWhatEtcdRunsOnChangesAtTheBootThatTheHostOrders(t *testing.T) {
	w := at(t, one)
	w.wantsUpdates(withHeld)
	w.settle(hour)
	w.patched(t, withHeld, heldResult, 1)
	if w.stack != "2" {
		t.Errorf("what etcd runs on is %s", w.stack)
	}
	w = at(t, one)
	w.needsBoot()
	w.wantsUpdates(tonight)
	w.settle(hour)
	if w.patched(t, tonight, "installed 1 update: libc6", 1); w.stack != "1" {
		t.Errorf("nobody wanted it, and what etcd runs on is %s", w.stack)
	}
}

// TestAUnitThatEndsBetweenTwoLooksHasNotFailed: the record said that packages change, and systemd
// that nothing runs.
func TestAUnitThatEndsBetweenTwoLooksHasNotFailed(t *testing.T) {
	w := at(t, one)
	w.between = true
	w.wantsUpdates(withHeld)
	w.settle(hour)
	w.patched(t, withHeld, heldResult, 1)
}

func TestWhatFailsAtTheBootIsTold(t *testing.T) {
	w := at(t, one)
	w.bad = "what etcd runs on: no room"
	w.wantsUpdates(withHeld)
	w.settle(hour)
	w.patched(t, withHeld, "failed: what etcd runs on: no room", 1)
}

// TestAUnitThatDoesNotBeginAtItsBootIsGivenUp, and no later boot changes anything.
func TestAUnitThatDoesNotBeginAtItsBootIsGivenUp(t *testing.T) {
	w := at(t, one)
	w.skipped = true
	w.wantsUpdates(withHeld)
	w.settle(hour)
	w.patched(t, withHeld, "failed: holdfast-held.service did not begin within 15m0s after the boot; its journal says why", 1)
	w.skipped = false
	w.boots()
	w.settle(hour)
	w.unchanged(t, "a boot for something else")
}

// unchanged checks that what etcd runs on is staged and ordered at no boot, and that the unit
// of this one changes nothing.
func (w *world) unchanged(t *testing.T, sentence string) {
	t.Helper()
	for range 3 {
		if _, err := w.bootUnit(); err != nil {
			t.Fatal(err)
		}
	}
	record, err := w.agent.Updates.Record()
	request, unread := w.agent.Updates.Request()
	if err != nil || unread != nil || w.stack != "1" || record.Phase != updates.Staged || request.AtBoot || drain.Empties(w.annotations[drain.Desired]) {
		t.Errorf("%s: what etcd runs on is %s, %+v, %+v, %v, %v", sentence, w.stack, record, request, err, unread)
	}
}

// staged returns a host on which all but what etcd runs on is installed.
func staged(t *testing.T) *world {
	t.Helper()
	w := at(t, one)
	w.wantsUpdates(withHeld)
	for i := 0; w.packages != "2"; i++ {
		if _, _ = w.once(); i > 100 {
			t.Fatal("it is never staged")
		}
	}
	return w
}

// TestAHostThatTheClusterNeedsDoesNotBootForWhatEtcdRunsOn, and once the wish is taken back no
// later boot changes it, also if the boot was ordered and refused, in the boot in which that
// was staged or in a later one.
func TestAHostThatTheClusterNeedsDoesNotBootForWhatEtcdRunsOn(t *testing.T) {
	for _, c := range []struct {
		refused string
		boots   int
	}{{"", 0}, {"reboot", 0}, {"", 1}, {"reboot", 1}} {
		w := staged(t)
		for range c.boots {
			w.needed = true
			w.settle(hour)
			w.boots()
		}
		refused := c.refused
		w.needed, w.refused = refused == "", refused
		w.settle(hour)
		if request, err := w.agent.Updates.Request(); err != nil || w.boot != c.boots || w.stack != "1" || request.AtBoot != (refused != "") {
			t.Fatalf("%+v: %d boots, %+v, %v", c, w.boot, request, err)
		}
		w.refused, w.needed = "", false
		w.wantsUpdates("")
		w.settle(hour)
		w.boots()
		w.settle(hour)
		w.unchanged(t, fmt.Sprintf("%+v", c))
	}
}

// TestAnOrderIsForTheBootAfterIt: the host boots unasked before it orders one, and the agent
// crashes after each effect, that order among them.
func TestAnOrderIsForTheBootAfterIt(t *testing.T) {
	waits := func() *world {
		w := staged(t)
		w.needed = true
		w.settle(hour)
		w.boots()
		w.settle(hour)
		w.needed, w.effects = false, 0
		return w
	}
	whole := waits()
	whole.settle(hour)
	whole.patched(t, withHeld, heldResult, 2)
	for crash := range whole.effects {
		w := waits()
		w.left = crash
		w.settle(hour)
		w.settle(hour)
		if w.patched(t, withHeld, heldResult, 2); w.stack != "2" {
			t.Fatalf("crash after %d of %d: what etcd runs on is %s", crash, whole.effects, w.stack)
		}
	}
}

// TestACrashOnTheWayToWhatEtcdRunsOn plays it with a crash of the agent, or a power cut, after
// each effect, those of the unit at the boot among them.
func TestACrashOnTheWayToWhatEtcdRunsOn(t *testing.T) {
	wanted := func(power bool) *world {
		w := at(t, one)
		w.cutsWrites, w.power = true, power
		w.wantsUpdates(withHeld)
		return w
	}
	for _, power := range []bool{false, true} {
		whole := wanted(power)
		whole.settle(hour)
		whole.patched(t, withHeld, heldResult, 1)
		if whole.effects < 12 {
			t.Fatalf("only %d effects", whole.effects)
		}
		for crash := range whole.effects {
			w := wanted(power)
			w.left = crash
			w.settle(hour)
			w.settle(hour)
			w.patched(t, withHeld, heldResult, w.boot)
			if w.stack != "2" || w.boot > 3 || !power && w.boot != 1 || w.annotations[drain.Desired] != w.annotations[drain.Applied] {
				t.Fatalf("crash after %d (power cut: %v): what etcd runs on is %s, %d boots, %v", crash, power, w.stack, w.boot, w.annotations)
			}
		}
	}
}
