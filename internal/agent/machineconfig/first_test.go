package machineconfig

import (
	"errors"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// joining returns a host that has yet to join, with a first configuration. The API
// does not know it, and the cluster would not carry on without a node.
func joining(t *testing.T, first string) *world {
	t.Helper()
	w := withConfigs(t)
	w.first, w.unjoined, w.away, w.needed = first, true, true, true
	w.start()
	return w
}

// mayJoin runs the agent until the installation goes on.
func (w *world) mayJoin() {
	w.t.Helper()
	for range 200 {
		j, err := w.agent.Store.Journal()
		if err != nil {
			w.t.Fatal(err)
		}
		if ok, _ := j.MayJoin(); ok {
			return
		}
		_, _ = w.once()
		w.now = w.now.Add(time.Second)
	}
	w.t.Fatalf("it may never join: %+v", w.agent.journal)
}

// joins makes the host a node.
func (w *world) joins() {
	w.unjoined, w.away = false, false
	w.watch()
}

func TestAHostHasItsFirstConfigurationBeforeItJoins(t *testing.T) {
	w := joining(t, one)
	w.mayJoin()
	if w.file("/etc/motd") != "one\n" || w.parameters["vm/swappiness"] != "1" || w.running["site.service"] == "" || len(w.annotations) != 0 {
		t.Fatalf("it joins with %s", w.look())
	}
	w.joins()
	if w.settle(hour); w.says() != "Done "+one+": " || len(w.asked) != 0 {
		t.Errorf("says %s, asked for %q", w.says(), w.asked)
	}
	orders, boots := len(w.orders), w.boot
	w.wish(one) // its turn, in which nothing is left to do
	if w.settle(hour); w.says() != "Done "+one+": " || len(w.orders) != orders || w.boot != boots {
		t.Errorf("in its turn: says %s, orders %q", w.says(), w.orders[orders:])
	}
	w.wish(two)
	if w.settle(hour); w.says() != "Done "+two+": " {
		t.Errorf("the next one: %s", w.says())
	}
}

// TestAHostBootsForItsFirstConfigurationBeforeItJoins: nobody is asked whether the
// cluster carries on, and nobody drains it.
func TestAHostBootsForItsFirstConfigurationBeforeItJoins(t *testing.T) {
	w := joining(t, kernel)
	w.mayJoin()
	if w.boot != 1 || !strings.Contains(w.commandLine, "mitigations=off") {
		t.Fatalf("it joins after %d boots with %q", w.boot, w.commandLine)
	}
	w.joins()
	if w.settle(hour); w.says() != "Done "+kernel+": " || w.boot != 1 || len(w.asked) != 0 {
		t.Errorf("says %s after %d boots, asked for %q", w.says(), w.boot, w.asked)
	}
}

// TestABadFirstConfigurationKeepsNoHostFromJoining: the host goes back, joins as one
// that never had any, and says in its turn what is wrong.
func TestABadFirstConfigurationKeepsNoHostFromJoining(t *testing.T) {
	for name, c := range map[string]struct{ config, says string }{
		"a unit does not start":   {bad, "Degraded : run systemctl restart site.service: exit status 1: Job for site.service failed"},
		"the host cannot have it": {"rendered-worker-folder", "Unreconcilable : storage.files.0: /etc/sysctl.d is a directory on this host"},
	} {
		w := withConfigs(t)
		w.has("rendered-worker-folder", map[string]string{"/etc/sysctl.d": "x"}, nil)
		w.first, w.unjoined, w.away = c.config, true, true
		w.start()
		before := w.look()
		w.mayJoin()
		w.joins()
		w.settle(hour)
		if w.says() != "Done : " || w.look() != before || w.agent.journal.Failed != c.config {
			t.Errorf("%s: says %s, has %s\nand had %s", name, w.says(), w.look(), before)
		}
		w.wish(c.config)
		if w.settle(hour); !strings.HasPrefix(w.says(), c.says) || w.look() != before {
			t.Errorf("%s, in its turn: says %s", name, w.says())
		}
		w.wish(one)
		if w.settle(hour); w.says() != "Done "+one+": " {
			t.Errorf("%s, given another one: %s", name, w.says())
		}
	}
}

// TestAHostThatCannotJoinWithItsFirstConfigurationJoinsWithoutIt: after half an hour it
// goes back, with a boot if that one took effect by a boot, and nothing is held against
// it.
func TestAHostThatCannotJoinWithItsFirstConfigurationJoinsWithoutIt(t *testing.T) {
	for _, first := range []string{one, kernel} {
		w := withConfigs(t)
		before := w.look()
		w.first, w.unjoined, w.away, w.needed = first, true, true, true
		w.start()
		w.mayJoin()
		boots, began := w.boot, w.now
		for w.agent.journal == nil || !w.agent.journal.Back {
			if _, _ = w.once(); w.now.Sub(began) > 2*hostapply.JoinLimit {
				t.Fatalf("%s: it never goes back: %+v", first, w.agent.journal)
			}
			w.now = w.now.Add(onTheWay)
		}
		if late := w.now.Sub(began); late < hostapply.JoinLimit {
			t.Errorf("%s: it goes back after %s", first, late)
		}
		for range 100 {
			_, _ = w.once()
			w.now = w.now.Add(onTheWay)
		}
		if w.look() != before || w.boot != 2*boots {
			t.Errorf("%s: after %d boots it has %s\nand had %s", first, w.boot, w.look(), before)
		}
		w.needed = false
		w.joins()
		if w.settle(hour); w.says() != "Done : " {
			t.Errorf("%s: joined it says %s", first, w.says())
		}
		w.wish(first)
		if w.settle(hour); w.says() != "Done "+first+": " {
			t.Errorf("%s: in its turn it says %s", first, w.says())
		}
	}
}

// TestACrashBeforeAHostJoinsChangesNothing plays the way to a first configuration with a
// crash of the agent, or a power cut, after each effect.
func TestACrashBeforeAHostJoinsChangesNothing(t *testing.T) {
	for _, first := range []string{one, bad, kernel} {
		play := func(crash int, power bool) *world {
			w := joining(t, first)
			w.left, w.power = crash, power
			w.mayJoin()
			w.joins()
			w.needed = false
			w.settle(hour)
			w.settle(hour)
			return w
		}
		whole := play(-1, false)
		if whole.effects < 10 {
			t.Fatalf("%s: only %d effects", first, whole.effects)
		}
		step := 2 // each costs a whole way
		if testing.Short() {
			step = 12
		}
		for crash := 0; crash < whole.effects; crash += step {
			for _, power := range []bool{false, true} {
				if w := play(crash, power); w.short() != whole.short() || w.look() != whole.look() {
					t.Fatalf("%s, crash after %d (power cut: %v): says %s, not %s\nit has %s\nnot     %s", first, crash, power, w.says(), whole.says(), w.look(), whole.look())
				}
			}
		}
	}
}

// TestANodeHeedsTheAPIAlone: what came with its Ignition config counts no more.
func TestANodeHeedsTheAPIAlone(t *testing.T) {
	w := withConfigs(t)
	w.first = one
	if result, err := w.once(); err != nil || result != (loop.Result{}) || w.effects != 0 {
		t.Errorf("%+v, %v, %d effects", result, err, w.effects)
	}
	w.wish(two)
	if w.settle(hour); w.says() != "Done "+two+": " {
		t.Errorf("says %s", w.says())
	}
	clear(w.annotations)
	w.unjoined = true // as an installation that is begun anew
	w.start()
	w.mayJoin()
	if w.file("/etc/motd") != "two\n" || w.annotations[rollout.CurrentConfig] != "" {
		t.Errorf("begun anew it has %s", w.look())
	}
}

func TestAFirstConfigurationThatCannotBeReadIsAnError(t *testing.T) {
	w := joining(t, one)
	damaged := errors.New("damaged")
	w.agent.First = func() (*mcfgv1.MachineConfig, error) { return nil, damaged }
	if _, err := w.once(); !errors.Is(err, damaged) || w.effects != 0 {
		t.Errorf("%v after %d effects", err, w.effects)
	}
}
