package machineconfig

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// upgrading is a lock by which a program forbids shutdowns.
var upgrading = []hostapply.Lock{{What: "shutdown", Who: "apt", Why: "APT is installing or removing packages", Mode: "block", Process: 9}}

const heldByApt = `waits with its reboot: shutdowns are blocked at logind by "apt" ("APT is installing or removing packages"), process 9 of root; it boots once nobody blocks them (on the host: systemd-inhibit --list)`

// leaves reports whether a host has begun to give up what it serves, or was booted.
func (w *world) leaves() bool {
	return w.boot != 0 || slices.ContainsFunc(w.orders, func(o string) bool { return slices.Contains([]string{"leave", "give lead", "end API", "reboot"}, o) })
}

// TestAHostWhoseShutdownsAreBlockedKeepsWhatItServes, until the program has ended that blocks them.
func TestAHostWhoseShutdownsAreBlockedKeepsWhatItServes(t *testing.T) {
	for name, wants := range map[string]func(w *world){
		"a configuration": func(w *world) { w.wish(kernel) },
		"a reboot":        func(w *world) { w.wants(tonight) },
		"updates":         func(w *world) { w.needsBoot(); w.wantsUpdates(tonight) },
	} {
		w := at(t, one)
		w.locks = upgrading
		wants(w)
		w.settle(hour)
		if w.says() != "Working "+one+": "+heldByApt || w.annotations[rollout.StageAt] != string(rollout.Held) || !rollout.Blocked(w.annotations) || w.leaves() {
			t.Errorf("%s: says %s, blocked %v, %d boots, orders %q", name, w.says(), rollout.Blocked(w.annotations), w.boot, w.orders)
		}
		w.locks = nil
		w.settle(hour)
		if _, stays := w.annotations[rollout.BlockedOf]; stays || w.boot != 1 || !strings.HasPrefix(w.says(), "Done ") {
			t.Errorf("%s: nobody blocks shutdowns any more, and it says %s, %d boots, the mark stays %v", name, w.says(), w.boot, stays)
		}
	}
}

func TestAHostThatHasYetToJoinSaysInItsLogWhoBlocksItsBoot(t *testing.T) {
	w := joining(t, kernel)
	w.locks = upgrading
	var err error
	for range 20 {
		_, err = w.once()
	}
	if err == nil || !strings.Contains(err.Error(), heldByApt) || w.leaves() {
		t.Errorf("%v, %d boots, orders %q", err, w.boot, w.orders)
	}
	w.locks = nil
	if w.mayJoin(); w.boot != 1 {
		t.Errorf("nobody blocks shutdowns any more: %d boots", w.boot)
	}
}

// TestABootAsksForLocksAtTheLastMoment: a program may begin after the host has decided to boot, and while
// its virtual IPs leave.
func TestABootAsksForLocksAtTheLastMoment(t *testing.T) {
	w := at(t, one)
	w.locks = upgrading
	if w.agent.reboot(t.Context()); len(w.orders) > 0 {
		t.Errorf("it orders %q", w.orders)
	}
	w.locks, w.leaving = nil, func() { w.locks = upgrading }
	if w.agent.reboot(t.Context()); !slices.Equal(w.orders, []string{"leave", "stay"}) {
		t.Errorf("it orders %q", w.orders)
	}
}

// TestAHostWhoseLogindDoesNotAnswerBoots: it would wait for ever otherwise.
func TestAHostWhoseLogindDoesNotAnswerBoots(t *testing.T) {
	w := at(t, one)
	w.locks, w.noLogind = upgrading, errors.New("no such file or directory")
	w.wish(kernel)
	if w.settle(hour); w.boot != 1 || w.says() != "Done "+kernel+": " {
		t.Errorf("says %s, %d boots", w.says(), w.boot)
	}
}

// TestAShutdownOfAPersonAsksForNoLocks: it is on its way, and the host goes down whatever the agent does.
func TestAShutdownOfAPersonAsksForNoLocks(t *testing.T) {
	w := at(t, one)
	w.down, w.locks = true, upgrading
	if said := w.agent.Depart(t.Context()); said != departed {
		t.Error(said)
	}
}

// TestTheLocksOfLogindAreRead has what `busctl --json=short` of systemd 252 has printed.
func TestTheLocksOfLogindAreRead(t *testing.T) {
	const recorded = `{"type":"a(ssssuu)","data":[[["shutdown","unattended-upgrades","Stop ongoing upgrades","delay",0,10],["shutdown:sleep","fwupd é \"x\"","Firmware update in progress","block",0,9]]]}` + "\n"
	want := []hostapply.Lock{
		{What: "shutdown", Who: "unattended-upgrades", Why: "Stop ongoing upgrades", Mode: "delay", Process: 10},
		{What: "shutdown:sleep", Who: `fwupd é "x"`, Why: "Firmware update in progress", Mode: "block", Process: 9},
	}
	got, err := readLocks([]byte(recorded))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	if got, err := readLocks([]byte(`{"type":"a(ssssuu)","data":[[]]}`)); len(got) > 0 || err != nil {
		t.Errorf("no locks: %v, %v", got, err)
	}
	for _, answer := range []string{
		"", "{}", `{"type":"as","data":[["shutdown"]]}`, `{"type":"a(ssssuu)","data":[]}`, `{"type":"a(ssssuu)","data":[[["shutdown","a","b","block",0]]]}`,
		`{"type":"a(ssssuu)","data":[[["shutdown","a","b","block","0",9]]]}`,
	} {
		if got, err := readLocks([]byte(answer)); err == nil {
			t.Errorf("%s is read as %+v", answer, got)
		}
	}
}
