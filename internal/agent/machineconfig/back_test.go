package machineconfig

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
)

// locks is a configuration that sets a parameter which does not take its former value again, and that
// has a unit which does not start, after the parameters were set.
const locks = "rendered-worker-locks"

// withLocks returns a host that has one.
func withLocks(t *testing.T, failing string) *world {
	t.Helper()
	w := at(t, one)
	w.oneWay = map[string]string{"vm/dirty_ratio": "20"}
	contents := "[Service]\nExecStart=/bad\n[Install]\nWantedBy=multi-user.target\n"
	w.has(locks, map[string]string{"/etc/motd": "locks\n", "/etc/sysctl.d/50-site.conf": "vm.dirty_ratio = 5\nvm.swappiness = 1\n"},
		append(service("/bin/one"), types.Unit{Name: failing, Enabled: new(true), Contents: new(contents)}))
	return w
}

// TestAParameterThatRefusesItsFormerValueIsUndoneByABoot, and keeps no order of the way back from being
// given. One that was not changed yet needs no boot.
func TestAParameterThatRefusesItsFormerValueIsUndoneByABoot(t *testing.T) {
	const sysctl = "restart -- systemd-sysctl.service"
	count := func(orders []string, order string) int {
		return len(slices.DeleteFunc(slices.Clone(orders), func(o string) bool { return o != order }))
	}
	w := withLocks(t, "zeta.service")
	before := w.look()
	w.wish(locks)
	w.settle(hour)
	if want := "Degraded " + one + ": run systemctl restart zeta.service: exit status 1: Job for zeta.service failed"; w.says() != want || w.look() != before || w.boot != 1 {
		t.Errorf("says %s, %d boots\nit has %s\nand had %s", w.says(), w.boot, w.look(), before)
	}
	if count(w.orders, sysctl) != 2 || count(w.orders, "daemon-reload") != 2 {
		t.Errorf("it orders %q", w.orders)
	}
	w.wish(one)
	if w.settle(hour); w.says() != "Done "+one+": " || w.boot != 1 {
		t.Errorf("given what it has: says %s, %d boots", w.says(), w.boot)
	}

	w = withLocks(t, "aleph.service")
	before = w.look()
	w.wish(locks)
	if w.settle(hour); w.short() != "Degraded "+one || strings.Contains(w.says(), "vm/dirty_ratio") || w.look() != before || w.boot != 0 {
		t.Errorf("it was not set: says %s, %d boots, has %s", w.says(), w.boot, w.look())
	}
}

// TestAnOrderWithoutAnEndIsTheLastOfAWayBack: a systemd that hangs would take all the time of a run, again
// and again, and the host would never boot.
func TestAnOrderWithoutAnEndIsTheLastOfAWayBack(t *testing.T) {
	w := withLocks(t, "zeta.service")
	w.wish(locks)
	hangs := w.agent.Systemctl
	asked := 0
	w.agent.Systemctl = func(ctx context.Context, args ...string) ([]byte, error) {
		if j := w.agent.journal; j.Back && j.Phase == hostapply.Acting && args[0] != "show" {
			asked++
			return nil, errNoEnd
		}
		return hangs(ctx, args...)
	}
	if w.settle(hour); asked != 1 || w.boot != 1 || w.short() != "Degraded "+one {
		t.Errorf("%d orders, %d boots, says %s", asked, w.boot, w.says())
	}
}

// TestWhatIsUndoneByABootWaitsForTheCluster, and says why.
func TestWhatIsUndoneByABootWaitsForTheCluster(t *testing.T) {
	w := withLocks(t, "zeta.service")
	w.needed = true
	w.wish(locks)
	w.settle(hour)
	if says := w.says(); w.boot != 0 || !strings.HasPrefix(says, "Working "+one+": goes back to "+one) || !strings.Contains(says, "set the kernel parameter vm/dirty_ratio again: invalid argument") || !strings.HasSuffix(says, "cp-2 is absent") {
		t.Errorf("says %s, %d boots", says, w.boot)
	}
	w.idle = true
	if w.settle(hour); w.short() != "Degraded "+one || w.boot != 1 {
		t.Errorf("it carries nothing: says %s, %d boots", w.says(), w.boot)
	}

	w = withLocks(t, "zeta.service")
	w.byHand()
	w.wish(locks)
	if w.settle(hour); w.boot != 0 || !strings.HasSuffix(w.says(), "needs a reboot: the way back needs one. Drain worker-1, then boot it") {
		t.Errorf("a person boots it: says %s, %d boots", w.says(), w.boot)
	}
	w.boots()
	if w.settle(hour); w.short() != "Degraded "+one {
		t.Errorf("he has: says %s", w.says())
	}
}

// TestACrashOnAWayBackThatBoots plays it with a crash of the agent, or a power cut, after each effect.
func TestACrashOnAWayBackThatBoots(t *testing.T) {
	whole := withLocks(t, "zeta.service")
	whole.wish(locks)
	whole.settle(hour)
	step := 1
	if testing.Short() {
		step = 6
	}
	for crash := 0; crash < whole.effects; crash += step {
		for _, power := range []bool{false, true} {
			w := withLocks(t, "zeta.service")
			w.wish(locks)
			w.left, w.power = crash, power
			w.settle(hour)
			w.settle(hour)
			if w.short() != whole.short() || w.look() != whole.look() || w.boot > 3 {
				t.Fatalf("crash after %d (power cut: %v): says %s after %d boots, not %s\nit has %s\nnot     %s", crash, power, w.says(), w.boot, whole.says(), w.look(), whole.look())
			}
		}
	}
}

// TestAHostThatIsNotReadyOnItsWayBackBootsBeforeItIsDone: it is given what it has. It boots once, with its
// pods elsewhere, and not again while it is not ready.
func TestAHostThatIsNotReadyOnItsWayBackBootsBeforeItIsDone(t *testing.T) {
	for _, mended := range []bool{true, false} {
		w := at(t, one)
		w.wish(two)
		for began := w.now; w.now.Sub(began) < hour; {
			w.notReady = strings.HasPrefix(w.file("/etc/motd"), "two") || w.agent.journal != nil && w.agent.journal.Back
			result, _ := w.once()
			w.now = w.now.Add(max(result.Again, onTheWay))
		}
		if want := "Degraded " + one + ": the host was not ready 10m0s after: kubelet is not healthy; back with " + one + ": the host was not ready 10m0s after: kubelet is not healthy"; w.says() != want || w.boot != 0 {
			t.Fatalf("says %s, %d boots", w.says(), w.boot)
		}
		w.notReady, w.asked = !mended, nil
		w.wish(one)
		w.settle(hour)
		if want := []string{drain.Before(one), drain.After(one)}; w.boot != 1 || !slices.Equal(w.asked, want) {
			t.Errorf("mended %t: %d boots, asks for %q", mended, w.boot, w.asked)
		}
		if mended {
			if w.says() != "Done "+one+": " {
				t.Errorf("says %s", w.says())
			}
			continue
		}
		w.settle(hour)
		if want := "Degraded " + one + ": an earlier way back did not end; back with " + one + ": the host was not ready 10m0s after: kubelet is not healthy"; w.says() != want || w.boot != 1 {
			t.Errorf("says %s, %d boots", w.says(), w.boot)
		}
		w.notReady = false
		w.wants(tonight)
		if w.settle(hour); w.says() != "Done "+one+": " || w.boot != 2 {
			t.Errorf("somebody has it boot: says %s, %d boots", w.says(), w.boot)
		}
	}
}
