package machineconfig

import (
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

func TestWhatFailsAtTheBootIsTold(t *testing.T) {
	w := at(t, one)
	w.bad = "what etcd runs on: no room"
	w.wantsUpdates(withHeld)
	w.settle(hour)
	w.patched(t, withHeld, "failed: what etcd runs on: no room", 1)
}

func TestAUnitThatDoesNotBeginAtItsBootIsGivenUp(t *testing.T) {
	w := at(t, one)
	w.skipped = true
	w.wantsUpdates(withHeld)
	w.settle(hour)
	w.patched(t, withHeld, "failed: holdfast-held.service did not begin within 15m0s after the boot; its journal says why", 1)
}

// TestAHostThatTheClusterNeedsDoesNotBootForWhatEtcdRunsOn, and once the wish is taken back no
// later boot changes it, also if the boot was ordered and refused.
func TestAHostThatTheClusterNeedsDoesNotBootForWhatEtcdRunsOn(t *testing.T) {
	for _, refused := range []string{"", "reboot"} {
		w := at(t, one)
		w.wantsUpdates(withHeld)
		for i := 0; w.packages != "2"; i++ { // it is staged
			if _, _ = w.once(); i > 100 {
				t.Fatal("it is never staged")
			}
		}
		w.needed, w.refused = refused == "", refused
		w.settle(hour)
		if request, err := w.agent.Updates.Request(); err != nil || w.boot > 0 || w.stack != "1" || request.AtBoot != (refused != "") {
			t.Fatalf("%q: %d boots, %+v, %v", refused, w.boot, request, err)
		}
		w.refused, w.needed = "", false
		w.wantsUpdates("")
		w.settle(hour)
		w.boots()
		w.settle(hour)
		if record, err := w.agent.Updates.Record(); err != nil || w.stack != "1" || record.Phase != updates.Staged || drain.Empties(w.annotations[drain.Desired]) {
			t.Errorf("%q: what etcd runs on is %s, %+v, %v", refused, w.stack, record, err)
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
