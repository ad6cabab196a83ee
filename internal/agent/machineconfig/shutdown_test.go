package machineconfig

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// fromShutdown is the API as `holdfast-agent leave` uses it. Each look has the agent take a
// step, as it does at each change of its node.
type fromShutdown struct {
	*world
	other state.Node
	// controlPlane: the host is one.
	controlPlane bool
	// patience is for how long the shutdown waits, zero for longer than a busy machine needs.
	patience time.Duration
	// looks is called before each look.
	looks func(n int)
	n     int
}

func (f *fromShutdown) Nodes(context.Context) ([]state.Node, error) {
	if f.n++; f.looks != nil {
		f.looks(f.n)
	}
	if f.away {
		return nil, errAway
	}
	f.watch()
	f.settle(hour) //nolint:contextcheck // the world has its own
	self := state.Node{Name: node, Ready: true, Labels: map[string]string{}, Annotations: maps.Clone(f.annotations)}
	if f.controlPlane {
		self.Labels[state.LabelControlPlane] = ""
	}
	return []state.Node{f.other, self}, nil
}

// leave is the command, as far as it is about pods. The host shuts down from then on.
func (f *fromShutdown) leave(t *testing.T) string {
	t.Helper()
	f.down = true
	said, _ := f.leaver(t)
	return said
}

func (f *fromShutdown) leaver(t *testing.T) (said string, waits bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), cmp.Or(f.patience, time.Minute), errors.New("the test waits no longer"))
	defer cancel()
	return Leaver{API: f, Node: node, Boot: "0", Down: func(ctx context.Context) (bool, error) { return goesDown(ctx, f.systemctl) }, Pause: time.Millisecond}.Leave(ctx)
}

func shuttingDown(t *testing.T) *fromShutdown {
	return &fromShutdown{world: at(t, one), other: state.Node{Name: "other", Ready: true}}
}

var shutdown = drain.Leave("0")

func TestAHostThatShutsDownIsEmptyUntilItHasBooted(t *testing.T) {
	w := shuttingDown(t)
	if said := w.leave(t); said != "other hosts have its pods" {
		t.Error(said)
	}
	w.settle(hour)
	if !slices.Equal(w.asked, []string{shutdown}) || w.says() != "Done "+one+": " {
		t.Errorf("it asks for %q and says %s", w.asked, w.says())
	}
	w.boots()
	w.settle(hour)
	if !slices.Equal(w.asked, []string{shutdown, drain.After(one)}) || w.says() != "Done "+one+": " {
		t.Errorf("after the boot it asks for %q and says %s", w.asked, w.says())
	}
}

// TestAShutdownThatDidNotComeIsOver: the agent was stopped by it, and runs again in the
// same boot.
func TestAShutdownThatDidNotComeIsOver(t *testing.T) {
	w := shuttingDown(t)
	w.leave(t)
	w.down = false
	w.start()
	w.settle(hour)
	if !slices.Equal(w.asked, []string{shutdown, drain.After(one)}) {
		t.Errorf("it asks for %q", w.asked)
	}
}

// TestAShutdownThatDidNotComeIsOverAlsoOnTheWayToAConfiguration: while a person is to boot the host,
// and while it is checked.
func TestAShutdownThatDidNotComeIsOverAlsoOnTheWayToAConfiguration(t *testing.T) {
	w := shuttingDown(t)
	w.byHand()
	w.wish(kernel)
	w.settle(hour)
	w.leave(t)
	w.down = false
	w.start()
	w.settle(hour)
	if !slices.Equal(w.asked, []string{shutdown, drain.After(one)}) || w.annotations[rollout.StageAt] != string(rollout.WaitsForBoot) {
		t.Errorf("a person is to boot it: it asks for %q and says %s", w.asked, w.says())
	}
	w = shuttingDown(t)
	w.notReady = true
	w.wish(two)
	w.settle(time.Minute)
	w.annotations[drain.Desired] = shutdown
	w.watch()
	w.settle(time.Minute)
	if w.agent.journal.Phase != hostapply.Checking || w.annotations[drain.Desired] != drain.After(one) {
		t.Errorf("it is checked: %+v, asks for %q", w.agent.journal, w.annotations[drain.Desired])
	}
}

func TestAShutdownWaitsForPodsAndNotForever(t *testing.T) {
	w := shuttingDown(t)
	w.blocked, w.patience = true, time.Second
	if said := w.leave(t); said != "the shutdown waits no longer: pods of it are still here" || !slices.Equal(w.asked, []string{shutdown}) {
		t.Errorf("%s, it asks for %q", said, w.asked)
	}
	w = shuttingDown(t)
	w.blocked = true
	w.looks = func(n int) { // the pods go while it waits
		if n == 4 {
			w.blocked = false
			w.operator()
		}
	}
	if said := w.leave(t); said != "other hosts have its pods" || w.n < 4 || w.n > 5 {
		t.Errorf("%s after %d looks", said, w.n)
	}
}

func TestAShutdownGoesOnWithoutTheAPI(t *testing.T) {
	w := shuttingDown(t)
	w.away, w.patience = true, time.Second
	if said := w.leave(t); !strings.HasPrefix(said, "the shutdown waits no longer: the API does not answer: ") || len(w.asked) > 0 {
		t.Errorf("%s, it asks for %q", said, w.asked)
	}
	w = shuttingDown(t)
	w.away = true
	w.looks = func(n int) { w.away = n < 4 } // it comes back
	if said := w.leave(t); said != "other hosts have its pods" {
		t.Error(said)
	}
}

func TestAHostThatIsAloneOrFollowsNoConfigurationShutsDownAtOnce(t *testing.T) {
	w := shuttingDown(t)
	w.other.Ready = false
	if said := w.leave(t); said != "no other host takes pods now" || len(w.asked) > 0 || w.n != 1 {
		t.Errorf("%s after %d looks, it asks for %q", said, w.n, w.asked)
	}
	w = &fromShutdown{world: newWorld(t), other: state.Node{Name: "other", Ready: true}}
	if said := w.leave(t); said != "nothing would have it take pods again after the boot" || len(w.asked) > 0 || w.n != 1 {
		t.Errorf("%s after %d looks, it asks for %q", said, w.n, w.asked)
	}
}

// TestAShutdownInTheTurnOfAHostWaitsForThatDrain, and the host boots for its turn.
func TestAShutdownInTheTurnOfAHostWaitsForThatDrain(t *testing.T) {
	w := shuttingDown(t)
	w.blocked = true
	w.wants(tonight)
	w.settle(hour)
	w.needed = true // it does not boot by itself
	w.looks = func(n int) {
		if n == 3 {
			w.blocked = false
			w.operator()
		}
	}
	if said := w.leave(t); said != "other hosts have its pods" || !slices.Equal(w.asked, []string{forTheBoot}) {
		t.Errorf("%s, it asks for %q", said, w.asked)
	}
	w.boots()
	w.settle(hour)
	if !slices.Equal(w.asked, []string{forTheBoot, drain.After(one)}) || w.annotations[rollout.RebootWanted] != "" {
		t.Errorf("after the boot it asks for %q, %v", w.asked, w.annotations)
	}
}

// TestAShutdownInTheTurnOfAConfigurationFailsNoConfiguration: it begins while the host waits for
// its pods, and systemd starts nothing from then on. The boot of the person and that of the way
// are two.
func TestAShutdownInTheTurnOfAConfigurationFailsNoConfiguration(t *testing.T) {
	w := shuttingDown(t)
	w.blocked = true
	w.wish(kernel)
	w.settle(hour)
	w.looks = func(n int) {
		if n == 3 {
			w.blocked = false
			w.operator()
		}
	}
	if said := w.leave(t); said != "other hosts have its pods" || w.agent.journal.Phase != hostapply.Writing || w.agent.journal.Back {
		t.Errorf("%s, journal %+v", said, w.agent.journal)
	}
	w.boots()
	w.settle(hour)
	if j := w.agent.journal; w.says() != "Done "+kernel+": " || j.Failed != "" || w.boot != 2 || drain.Empties(w.annotations[drain.Desired]) {
		t.Errorf("after the boot it says %s, %d boots, journal %+v", w.says(), w.boot, j)
	}
}

// TestAShutdownThatEndsAStepFailsNoConfiguration: one that falls into what writes files, or into
// the restarts after it.
func TestAShutdownThatEndsAStepFailsNoConfiguration(t *testing.T) {
	for phase, falls := range map[hostapply.Phase]func(w *world){ //nolint:exhaustive // in the other phases no unit is started
		hostapply.Writing: func(w *world) {
			configure := w.agent.Configure
			w.agent.Configure = func(ctx context.Context, name string) error {
				_ = configure(ctx, name)
				w.down = true
				return errors.New("job for holdfast-configure.service canceled")
			}
		},
		hostapply.Acting: func(w *world) {
			systemctl := w.agent.Systemctl
			w.agent.Systemctl = func(ctx context.Context, args ...string) ([]byte, error) {
				w.down = w.down || args[0] == "restart"
				return systemctl(ctx, args...)
			}
		},
	} {
		w := at(t, one)
		falls(w)
		w.wish(two)
		w.settle(hour)
		if j := w.agent.journal; !w.down || j.Phase != phase || j.Back {
			t.Errorf("%s: journal %+v", phase, j)
		}
		w.boots()
		if w.settle(hour); w.says() != "Done "+two+": " || w.agent.journal.Failed != "" {
			t.Errorf("%s: after the boot it says %s, journal %+v", phase, w.says(), w.agent.journal)
		}
	}
}
