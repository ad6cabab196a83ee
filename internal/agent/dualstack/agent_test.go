package dualstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	install "github.com/holdfast/holdfast/internal/install/dualstack"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func TestASiteGetsTheSecondFamilyThoughAnAgentIsCutAtAnyEffect(t *testing.T) {
	whole := newTown(t)
	whole.announced = text(plan())
	whole.rests(t)
	if bad := whole.wrong(true); bad != "" {
		t.Fatal(bad)
	}
	want := []string{
		"cp-1 begins", "cp-1 serves", "cp-2 serves", "cp-1 notes", "cp-1 shares cp-1", "cp-1 shares cp-2", "cp-1 shares w-1", "cp-1 routes",
		"cp-1 changes", "cp-1 asks for a boot", "cp-2 changes", "cp-2 asks for a boot", "w-1 changes", "w-1 asks for a boot", "cp-1 settles", "cp-1 withdraws",
	}
	if !slices.Equal(whole.log, want) {
		t.Errorf("%q", whole.log)
	}
	for at := 1; at <= len(want); at++ {
		for _, after := range []bool{false, true} {
			w := newTown(t)
			w.announced, w.At, w.After = text(plan()), at, after
			w.rests(t)
			if bad := w.wrong(true); bad != "" || w.crashes != 1 {
				t.Errorf("cut at %s, after %v: %d crashes\n%s", want[at-1], after, w.crashes, bad)
			}
		}
	}
}

// A host that is lost for good comes back under another name, or not at all.
func TestAPlanEndsWithoutAHostThatWasTakenOutWheneverThatIs(t *testing.T) {
	for _, burns := range names {
		for at := 1; at <= 16; at++ {
			for _, after := range []bool{false, true} {
				w := newTown(t)
				w.announced, w.burns, w.At, w.After = text(plan()), burns, at, after
				w.rests(t)
				if bad := w.wrong(true); bad != "" || w.crashes != 1 {
					t.Errorf("%s is lost at effect %d, after %v: %d crashes\n%s\n%q", burns, at, after, w.crashes, bad, w.log)
				}
			}
		}
	}
}

// A worker that a person has cordoned does not make its Node again: the carrier does, which has it on its
// disk.
func TestACarrierThatWasCutMakesTheNodeOfACordonedWorkerAgain(t *testing.T) {
	w := newTown(t)
	w.announced, w.At = text(plan()), 7
	for w.crashes == 0 {
		w.look(t)
	}
	if last := w.log[len(w.log)-1]; last != "cp-1 shares cp-2" {
		t.Fatalf("the carrier is cut after %s", last)
	}
	w.hosts["w-1"].gone = true
	w.rests(t)
	if bad := w.wrong(true); bad == "" {
		t.Fatal("the Node of w-1 is missing, nobody has it, and the plan ends")
	}
	if err := w.hosts["cp-1"].Store.PutNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1"}}); err != nil {
		t.Fatal(err)
	}
	w.rests(t)
	if bad := w.wrong(true); bad != "" {
		t.Error(bad)
	}
}

// The deletion of a Node by the carrier failed, and its host went away then. If a person deletes the Node, it does
// not come back from the carrier's copy.
func TestANodeThatTheCarrierDidNotDeleteIsNotMadeAgain(t *testing.T) {
	w := newTown(t)
	w.announced, w.At = text(plan()), 7
	for w.crashes == 0 {
		w.look(t)
	}
	store, h := w.hosts["cp-1"].Store, w.hosts["w-1"]
	if err := store.PutNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1"}}); err != nil {
		t.Fatal(err)
	}
	h.away = true
	w.look(t)
	if left, err := store.Node("w-1"); left != nil || err != nil {
		t.Errorf("the copy is kept: %v", err)
	}
	h.gone = true
	for range 5 {
		w.look(t)
	}
	if !h.gone {
		t.Errorf("the Node is there again: %q", w.log)
	}
	h.gone, h.away = false, false // the host registers
	w.rests(t)
	if bad := w.wrong(true); bad != "" {
		t.Error(bad)
	}
}

// The pod network's daemon reads the Node at the boot, so the container runtime has the same shares.
func TestTheContainerRuntimeGetsTheSharesThatTheNodeHas(t *testing.T) {
	w := newTown(t)
	w.announced, w.hosts["w-1"].registers = text(plan()), true
	w.rests(t)
	if bad := w.wrong(true); bad != "" {
		t.Fatal(bad)
	}
	for name, want := range map[string]string{"cp-1": "[10.128.2.0/23 fd44:0:0:ff::/64]", "w-1": "[10.128.6.0/23 fd44:0:0:7::/64]"} {
		if got := fmt.Sprint(w.hosts[name].runtime); got != want {
			t.Errorf("%s has the shares %s, and its Node %s", name, got, want)
		}
	}
}

// A person deletes the lock to replace a control plane that is lost (docs/runbook/dual-stack.md).
func TestTheCarrierDoesNothingWithoutTheLock(t *testing.T) {
	other := errors.New("the plan q of ada replaces cp-2")
	for at := 1; at <= 15; at++ {
		w := newTown(t)
		w.announced, w.At, w.After = text(plan()), at, true
		for w.crashes == 0 {
			w.look(t)
		}
		done := len(w.log)
		w.locked, w.other = false, other
		for range 20 {
			w.look(t)
		}
		var d install.Doing
		if err := json.Unmarshal([]byte(w.hosts["cp-1"].told), &d); err != nil {
			t.Fatal(err)
		}
		if waits := strings.HasPrefix(d.Words, "waits"); len(w.bare) > 0 || !waits && d.Problem != other.Error() {
			t.Errorf("the lock is another one's after %s: cp-1 does %q and says %+v", w.log[done-1], w.bare, d)
		}
		w.other = nil
		w.rests(t)
		if bad := w.wrong(true); bad != "" || len(w.bare) > 0 {
			t.Errorf("the lock is deleted after %s: %q\n%s", w.log[done-1], w.bare, bad)
		}
	}
}

// While a host is not ready the carrier does not take the lock. If another plan has it then, the carrier does not
// start its API server anew, and leaves its files alone.
func TestTheCarrierLeavesItselfAloneWhileAnotherPlanHasTheLock(t *testing.T) {
	for at, next := range map[int]string{1: "cp-1 serves", 8: "cp-1 changes"} {
		w := newTown(t)
		w.announced, w.At, w.After = text(plan()), at, true
		for w.crashes == 0 {
			w.look(t)
		}
		done := len(w.log)
		w.hosts["w-1"].away, w.locked, w.other = true, false, errors.New("the plan q of ada replaces w-1")
		for range 5 {
			w.lookAt(t, "cp-1")
		}
		var d install.Doing
		if err := json.Unmarshal([]byte(w.hosts["cp-1"].told), &d); err != nil {
			t.Fatal(err)
		}
		if len(w.log) != done || d.Words != "waits for another plan: the plan q of ada replaces w-1" {
			t.Errorf("before %q: %q, %+v", next, w.log[done:], d)
		}
		w.hosts["w-1"].away, w.other = false, nil
		w.rests(t)
		if bad := w.wrong(true); bad != "" || !slices.Contains(w.log[done:], next) {
			t.Errorf("after it: %q\n%s", w.log[done:], bad)
		}
	}
}

func TestTheLockStaysAwayWhileTheCarrierWaitsForAHostThatIsLost(t *testing.T) {
	w := newTown(t)
	w.announced, w.At = text(plan()), 13 // w-1 writes
	for w.crashes == 0 {
		w.look(t)
	}
	h := w.hosts["w-1"]
	h.away, w.locked = true, false
	for range 3 {
		w.lookAt(t, "cp-1")
	}
	if w.locked {
		t.Error("a person deletes it in vain")
	}
	h.away = false
	w.lookAt(t, "cp-1")
	if !w.locked {
		t.Errorf("w-1 is back, and goes on without the lock: %q", w.log)
	}
	w.rests(t)
	if bad := w.wrong(true); bad != "" {
		t.Error(bad)
	}
}

func TestAHostThatThePlanDoesNotNameChangesNothing(t *testing.T) {
	w := newTown(t)
	p := plan()
	p.Begun = true
	delete(p.Hosts, "w-1")
	w.announced = text(p)
	w.rests(t)
	if h := w.hosts["w-1"]; h.files || h.wish || h.boot != 0 {
		t.Errorf("it changes files, or boots: %q", w.log)
	}
	if p, _, err := w.hosts["w-1"].Store.Load(); p != nil || err != nil || w.announced != "" {
		t.Errorf("the plan is over, and the host has it: %v %v %q", p, err, w.announced)
	}
}

func TestAPlanThatWasTakenBackLeavesNothing(t *testing.T) {
	w := newTown(t)
	w.announced, w.hosts["w-1"].lacks = text(plan()), "it has no address in fd98::/64"
	w.rests(t)
	if len(w.log) > 0 {
		t.Errorf("it begins though a host lacks an address: %q", w.log)
	}
	var d install.Doing
	if err := json.Unmarshal([]byte(w.hosts["cp-1"].told), &d); err != nil || !strings.Contains(d.Words, "w-1 (it has no address in fd98::/64)") {
		t.Errorf("%v: %+v", err, d)
	}
	w.announced = ""
	w.rests(t)
	if bad := w.wrong(false); bad != "" {
		t.Error(bad)
	}
}

func TestAnAnnouncementThatSomebodyDeletesIsWrittenAgain(t *testing.T) {
	for at := 2; at <= 15; at++ {
		w := newTown(t)
		w.announced, w.At = text(plan()), at
		deleted := false
		for range 400 {
			w.now = w.now.Add(time.Minute)
			for _, name := range names {
				h := w.hosts[name]
				h.Nodes(w.nodes())
				h.Infrastructure(kube.Infrastructure{DualStack: w.announced})
				if _, err := h.step(t.Context()); errors.Is(err, powercut.Err) {
					w.Cut, w.announced, deleted = powercut.Cut{}, "", true
					h.begin()
				}
				if h.wish {
					h.boot, h.wish, h.both = h.boot+1, false, h.files
				}
			}
			if deleted {
				break
			}
		}
		w.rests(t)
		if bad := w.wrong(true); bad != "" {
			t.Errorf("deleted at effect %d:\n%s", at, bad)
		}
	}
}

func TestAPlanThatDoesNotNameEveryHostDoesNotBegin(t *testing.T) {
	w := newTown(t)
	p := plan()
	delete(p.Hosts, "w-1")
	w.announced = text(p)
	w.rests(t)
	var d install.Doing
	if err := json.Unmarshal([]byte(w.hosts["cp-1"].told), &d); err != nil || len(w.log) > 0 || !strings.Contains(d.Words, "w-1 joined after the plan was made") {
		t.Errorf("%v %q %+v", err, w.log, d)
	}
}

func TestAPlanThatCannotBeFollowedIsNotKept(t *testing.T) {
	w := newTown(t)
	h := w.hosts["cp-1"]
	for _, text := range []string{"{", `{"id":"p"}`} {
		h.Infrastructure(kube.Infrastructure{DualStack: text})
		if _, err := h.step(t.Context()); err == nil || !strings.Contains(err.Error(), kube.DualStackAnnotation) {
			t.Errorf("%s: %v", text, err)
		}
		if p, _, err := h.Store.Load(); p != nil || err != nil {
			t.Errorf("%+v %v", p, err)
		}
	}
}
