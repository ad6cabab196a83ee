package machineconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// annotates writes an annotation of a node, or removes it.
func (s *site) annotates(node, name, value string) {
	s.t.Helper()
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	s.patch(s.node(node), fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, name, text))
}

// wants has somebody want a reboot, of which the agent hears.
func (s *site) wants(node string) string {
	s.t.Helper()
	wanted := s.now.Add(-time.Minute).UTC().Format(time.RFC3339)
	s.annotates(node, rollout.RebootWanted, wanted)
	s.annotates(node, rollout.RebootReason, "kernel")
	s.annotates(node, rollout.RebootFrom, rollout.About(wanted, "boot-1"))
	return wanted
}

// isBooting reports whether a host has its turn.
func (s *site) isBooting(node string) bool {
	s.t.Helper()
	return rollout.WishOf(s.node(node).Annotations).HasTurn()
}

// waits returns for what a reboot waits.
func (s *site) waits(node string) string {
	s.t.Helper()
	a := s.node(node).Annotations
	return strings.TrimPrefix(a[rollout.RebootWaits], a[rollout.RebootWanted]+" ")
}

// left lists what stands at a node of a wish.
func (s *site) left(node string) []string {
	s.t.Helper()
	var out []string
	for name := range s.node(node).Annotations {
		if slices.Contains([]string{rollout.RebootWanted, rollout.RebootReason, rollout.RebootGiven, rollout.RebootWaits}, name) {
			out = append(out, name)
		}
	}
	return out
}

func TestHostsBootOneAfterTheOtherAndTheWishIsRemovedOnceItWasCarriedOut(t *testing.T) {
	s := newSite(t)
	s.settle()
	worker := s.wants("w-1")
	s.annotates("w-1", rollout.RebootFrom, "")
	first, _ := s.wants("cp-1"), s.wants("cp-2")
	s.looks()
	if s.isBooting("w-1") || !strings.HasPrefix(s.waits("w-1"), "its agent has not answered yet") || !s.isBooting("cp-1") || s.waits("cp-2") != "cp-1 (its agent has not answered yet) is at work" {
		t.Errorf("w-1 waits for %q, cp-2 for %q", s.waits("w-1"), s.waits("cp-2"))
	}
	s.annotates("w-1", rollout.RebootFrom, rollout.About(worker, "boot-1"))
	s.looks()
	if got := s.waits("w-1"); got != "cp-1 (its agent has not answered yet) of the pool master is at work" {
		t.Errorf("w-1 waits for %q", got)
	}
	s.told()
	s.annotates("cp-1", rollout.RebootDone, first)
	s.looks()
	if left := s.left("cp-1"); len(left) > 0 || !s.isBooting("w-1") || s.isBooting("cp-2") || s.waits("w-1") != "" {
		t.Errorf("cp-1 has %q, w-1 %v", left, s.node("w-1").Annotations)
	}
	if got := s.told(); !strings.Contains(got, "cp-1 Normal RebootDone: ") || !strings.Contains(got, "w-1 Normal RebootGiven: ") {
		t.Errorf("it told %s", got)
	}
	s.annotates("w-1", rollout.RebootWanted, "")
	s.looks()
	if left := s.left("w-1"); len(left) > 0 || !s.isBooting("cp-2") || !strings.Contains(s.told(), "w-1 Normal RebootTakenBack: ") {
		t.Errorf("taken back: w-1 has %q", left)
	}
	s.writes.Count = 0
	s.looks()
	if s.writes.Count > 0 {
		t.Errorf("%d writes while nothing changes", s.writes.Count)
	}
}

// TestUpdatesHaveTheTurnOfAReboot: one host after the other, whatever they are wanted
// for. The event says what became of them.
func TestUpdatesHaveTheTurnOfAReboot(t *testing.T) {
	s := newSite(t)
	s.settle()
	wanted := s.now.Add(-time.Hour).UTC().Format(time.RFC3339) + rollout.NoReboot
	s.annotates("cp-1", rollout.PatchWanted, wanted)
	s.annotates("cp-1", rollout.PatchReason, "CVE")
	s.annotates("cp-1", rollout.PatchFrom, rollout.About(wanted, "boot-1"))
	s.wants("cp-2")
	s.looks()
	if !s.isBooting("cp-1") || s.isBooting("cp-2") || s.waits("cp-2") != "cp-1 (its agent has not answered yet) is at work" || s.node("cp-1").Annotations[rollout.RebootGiven] != "" {
		t.Errorf("cp-2 waits for %q, cp-1 %v", s.waits("cp-2"), s.node("cp-1").Annotations)
	}
	s.told()
	s.annotates("cp-1", rollout.PatchResult, rollout.About(wanted, "installed 1 update: libc6"))
	s.annotates("cp-1", rollout.PatchDone, wanted)
	s.looks()
	a := s.node("cp-1").Annotations
	if a[rollout.PatchWanted]+a[rollout.PatchReason]+a[rollout.PatchGiven] != "" || a[rollout.PatchResult] == "" || !s.isBooting("cp-2") {
		t.Errorf("cp-1 has %v", a)
	}
	if got := s.told(); !strings.Contains(got, "cp-1 Normal PatchDone: installed 1 update: libc6") {
		t.Errorf("it told %s", got)
	}
}

// TestARebootThatADistributionWantsIsWishedOnceAndWaitsForTheWindow also keeps a
// configuration back until then. A reboot that a person wants waits for no window.
func TestARebootThatADistributionWantsIsWishedOnceAndWaitsForTheWindow(t *testing.T) {
	s := newSite(t)
	s.settle()
	opens := s.now.Add(time.Hour).UTC().Truncate(time.Minute)
	s.patch(s.pool("worker"), fmt.Sprintf(`{"metadata":{"annotations":{"holdfast.io/maintenance-window":"Daily %s 15m UTC","holdfast.io/reboot-required":"Boot"}}}`, opens.Format("15:04")))
	const kernel = "the kernel 2 is installed, and 1 runs"
	const why = "its packages ask for it: libc6; " + kernel
	s.annotates("w-1", rollout.RebootRequired, "Yes: "+why)
	s.looks()
	wish := rollout.WishOf(s.node("w-1").Annotations)
	if !wish.Open() || !wish.InWindow || s.node("w-1").Annotations[rollout.RebootReason] != "its distribution wants it: "+why {
		t.Fatalf("w-1 has %v", s.node("w-1").Annotations)
	}
	s.annotates("w-1", rollout.RebootFrom, rollout.About(wish.Wanted, "boot-1"))
	s.looks()
	if want := "its maintenance window opens at " + opens.Format(time.RFC3339); s.waits("w-1") != want || s.isBooting("w-1") {
		t.Errorf("w-1 waits for %q, want %q", s.waits("w-1"), want)
	}
	s.now = opens
	s.looks()
	if !s.isBooting("w-1") {
		t.Errorf("the window is open: w-1 waits for %q", s.waits("w-1"))
	}
	s.annotates("w-1", rollout.RebootDone, wish.Wanted)
	s.looks()
	if left := s.left("w-1"); len(left) > 0 {
		t.Errorf("it has booted, and its distribution wants it still: %q", left)
	}
	s.annotates("w-1", rollout.RebootRequired, "Yes: "+kernel)
	s.looks()
	if n := s.node("w-1").Annotations; n[rollout.RebootWanted] != "" || n[rollout.RequiredWished] != kernel {
		t.Errorf("the boot satisfied one reason of two: %v", n)
	}
	s.annotates("w-1", rollout.RebootRequired, "No")
	s.looks()
	if wished := s.node("w-1").Annotations[rollout.RequiredWished]; wished != "" {
		t.Errorf("remembered: %q", wished)
	}
	s.now = opens.Add(time.Hour)
	wanted := s.wants("w-1")
	s.looks()
	if !s.isBooting("w-1") {
		t.Errorf("a person wants it now: w-1 waits for %q", s.waits("w-1"))
	}
	s.annotates("w-1", rollout.RebootDone, wanted)
	s.looks()
	s.annotates("w-1", rollout.RebootRequired, "")
	s.writes.Count = 0
	if s.looks(); s.writes.Count > 0 {
		t.Errorf("%d writes while nothing changes", s.writes.Count)
	}
}

// TestARebootDoesNotWaitForUpdatesThatWaitForTheWindow: the node says of both for what they wait,
// in one look, and the updates wait on once it has booted.
func TestARebootDoesNotWaitForUpdatesThatWaitForTheWindow(t *testing.T) {
	s := newSite(t)
	s.settle()
	opens := s.now.Add(time.Hour).UTC().Truncate(time.Minute)
	s.patch(s.pool("worker"), fmt.Sprintf(`{"metadata":{"annotations":{"holdfast.io/maintenance-window":"Daily %s 15m UTC"}}}`, opens.Format("15:04")))
	updates := s.now.Add(-time.Hour).UTC().Format(time.RFC3339) + rollout.InWindow
	s.annotates("w-1", rollout.PatchWanted, updates)
	s.annotates("w-1", rollout.PatchFrom, rollout.About(updates, "boot-1"))
	wanted := s.wants("w-1")
	s.annotates("w-1", rollout.RebootFrom, "")
	if err := s.look(); err != nil {
		t.Fatal(err)
	}
	closed := rollout.About(updates, "its maintenance window opens at "+opens.Format(time.RFC3339))
	if a := s.node("w-1").Annotations; s.isBooting("w-1") || a[rollout.PatchWaits] != closed || !strings.HasPrefix(s.waits("w-1"), "its agent has not answered yet") {
		t.Errorf("w-1 has %v", a)
	}
	s.annotates("w-1", rollout.RebootFrom, rollout.About(wanted, "boot-1"))
	s.looks()
	if a := s.node("w-1").Annotations; !s.isBooting("w-1") || a[rollout.RebootGiven] == "" || a[rollout.PatchGiven] != "" || a[rollout.RebootWaits] != "" || a[rollout.PatchWaits] != closed {
		t.Errorf("w-1 has %v", a)
	}
	s.annotates("w-1", rollout.RebootDone, wanted)
	s.looks()
	if a := s.node("w-1").Annotations; len(s.left("w-1")) > 0 || a[rollout.PatchWanted] != updates || s.isBooting("w-1") {
		t.Errorf("it has booted: w-1 has %v", a)
	}
	s.now = opens
	s.looks()
	if a := s.node("w-1").Annotations; a[rollout.PatchGiven] == "" {
		t.Errorf("the window is open: w-1 has %v", a)
	}
}

func TestAControlPlaneThatIsNeededWaitsWithItsReboot(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.pacemaker("etcd-blocked")
	s.wants("cp-2")
	s.looks()
	if s.isBooting("cp-2") || !strings.HasPrefix(s.waits("cp-2"), "the cluster may not carry on without ") {
		t.Errorf("waits for %q", s.waits("cp-2"))
	}
}

// TestWhereverTheOperatorIsCutOffEachWishIsCarriedOutOnce ends the operator before and
// after each of its writes.
func TestWhereverTheOperatorIsCutOffEachWishIsCarriedOutOnce(t *testing.T) {
	broken := errors.New("the API went away")
	for after := range 2 {
		for n := 1; ; n++ {
			s := newSite(t)
			s.settle()
			s.writes.Count = 0
			cut := func(i int) error {
				if i == n {
					return broken
				}
				return nil
			}
			if after == 1 {
				s.writes.After = cut
			} else {
				s.writes.Before = cut
			}
			order := s.carriedOut("cp-1", "w-1")
			if want := []string{"w-1", "cp-1"}; !slices.Equal(order, want) {
				t.Fatalf("cut at write %d: %q boot", n, order)
			}
			if s.writes.Count < n {
				if n < 4 {
					t.Errorf("there were only %d writes", s.writes.Count)
				}
				break
			}
		}
	}
}

// carriedOut lets hosts boot that somebody wants to, and returns them in their order.
func (s *site) carriedOut(hosts ...string) (order []string) {
	s.t.Helper()
	for _, h := range hosts {
		s.wants(h)
	}
	for range 20 {
		s.pacemakerLives()
		s.now = s.now.Add(Settle)
		if err := s.look(); err != nil {
			s.restart()
			continue
		}
		var now []string
		for _, h := range hosts {
			if s.isBooting(h) {
				now = append(now, h)
			}
		}
		if len(now) > 1 {
			s.t.Fatalf("%q boot at the same time", now)
		}
		for _, h := range now {
			order = append(order, h)
			s.annotates(h, rollout.RebootDone, s.node(h).Annotations[rollout.RebootWanted])
		}
	}
	for _, h := range hosts {
		if left := s.left(h); len(left) > 0 {
			s.t.Fatalf("%s has %q", h, left)
		}
	}
	return order
}
