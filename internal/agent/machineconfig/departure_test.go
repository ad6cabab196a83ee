package machineconfig

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

const (
	departed = "its virtual IPs and its API server have left"
	stays    = "its virtual IPs and its API server stay until systemd stops them: "
	unitRuns = "start --no-block -- holdfast-leave.service"
)

// shutdownLooks runs the loop that watches a shutdown once.
func (w *world) shutdownLooks() loop.Result {
	result, err := w.agent.watchShutdown(w.t.Context())
	if w.dead {
		w.start()
	} else if err != nil {
		result.Again = shutdownLook
	}
	return result
}

func TestAHostThatAPersonShutsDownLeavesAsBeforeABootOfItsOwn(t *testing.T) {
	w := at(t, one)
	w.down = true
	if said, want := w.agent.Depart(t.Context()), []string{"leave", "give lead", "end API"}; said != departed || !slices.Equal(w.orders, want) {
		t.Errorf("%s, it orders %q, want %q", said, w.orders, want)
	}
	if said := w.agent.Depart(t.Context()); said != departed+" before" || len(w.orders) != 3 {
		t.Errorf("asked once more: %s, %q", said, w.orders)
	}
}

// TestAShutdownFindsAHostThatBootsByItselfGone: its API server is asked to end once, and
// nobody orders a boot in the place of a power-off.
func TestAShutdownFindsAHostThatBootsByItselfGone(t *testing.T) {
	w := at(t, one)
	w.agent.reboot(t.Context())
	w.down = true
	if said, want := w.agent.Depart(t.Context()), []string{"leave", "give lead", "end API", "reboot"}; said != departed+" before" || !slices.Equal(w.orders, want) {
		t.Errorf("%s, it orders %q, want %q", said, w.orders, want)
	}
	w = at(t, one)
	w.down = true
	if w.agent.reboot(t.Context()); len(w.orders) > 0 {
		t.Errorf("while a person switches it off it orders %q", w.orders)
	}
	w.agent.Depart(t.Context())
	w.down = false // it was cancelled, and nobody has looked since
	if w.agent.reboot(t.Context()); !slices.Equal(w.orders, []string{"leave", "give lead", "end API"}) {
		t.Errorf("it orders %q", w.orders)
	}
}

// TestAHostKeepsWhatNobodyElseServes has each reason; most of all, a restart of the unit
// is no shutdown.
func TestAHostKeepsWhatNobodyElseServes(t *testing.T) {
	controlPlane := state.Node{Labels: map[string]string{state.LabelControlPlane: ""}}
	for name, c := range map[string]struct {
		change func(w *world)
		why    string
		orders []string
	}{
		"the unit is restarted":             {func(w *world) { w.down = false }, "the host does not shut down", nil},
		"systemd does not answer":           {func(w *world) { w.deaf = true }, "systemd does not say whether the host shuts down", nil},
		"the cluster needs it":              {func(w *world) { w.needed = true }, "cp-2 is absent", nil},
		"the other one goes away meanwhile": {func(w *world) { w.leaving = func() { w.needed = true } }, "cp-2 is absent", []string{"leave", "stay"}},
		"it is the only control plane": {func(w *world) {
			w.view.Role, w.view.Nodes = state.RoleMaster, state.Known([]state.Node{controlPlane, {}})
		}, "no other host serves the API", nil},
		"a control plane that knows no others": {func(w *world) { w.view.Role = state.RoleMaster }, "nobody says which other hosts serve the API", nil},
	} {
		w := at(t, one)
		w.down = true
		c.change(w)
		if said := w.agent.Depart(t.Context()); said != stays+c.why || !slices.Equal(w.orders, c.orders) || w.gone {
			t.Errorf("%s: %s, it orders %q", name, said, w.orders)
		}
		if w.shutdownLooks(); slices.Contains(w.orders, "end API") {
			t.Errorf("%s: it orders %q", name, w.orders)
		}
	}
}

// TestEtcdLeavesInAShutdownWherePacemakerLeavesItAlone: a person has Pacemaker in maintenance, so
// the cluster would not survive the loss of a host, but goes on without one that leaves.
func TestEtcdLeavesInAShutdownWherePacemakerLeavesItAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		said   string
		orders []string
	}{
		"in maintenance":              {func(*world) {}, departed + "; Pacemaker leaves etcd alone, so the agent had it stopped", []string{"leave", "give lead", "end API", "halt etcd"}},
		"the keeper does not stop it": {func(w *world) { w.halts = errors.New("it hangs") }, departed + "; Pacemaker leaves etcd alone, and the agent could not have it stopped: it hangs", []string{"leave", "give lead", "end API", "halt etcd"}},
		"the other one cannot go on":  {func(w *world) { w.otherDown = true }, stays + "cp-2 is absent", nil},
		"it goes away meanwhile":      {func(w *world) { w.leaving = func() { w.otherDown = true } }, stays + "cp-2 does not run", []string{"leave", "stay"}},
		"the unit is restarted":       {func(w *world) { w.down = false }, stays + "the host does not shut down", nil},
	} {
		w := at(t, one)
		w.down, w.needed, w.leftAlone = true, true, true
		c.change(w)
		if said := w.agent.Depart(t.Context()); said != c.said || !slices.Equal(w.orders, c.orders) {
			t.Errorf("%s: %s, it orders %q", name, said, w.orders)
		}
	}
}

// TestEtcdHasItsWholeTimeToLeaveInAShutdown, also if nothing is left of the time for all else.
func TestEtcdHasItsWholeTimeToLeaveInAShutdown(t *testing.T) {
	w := at(t, one)
	w.down, w.needed, w.leftAlone = true, true, true
	ctx, over := context.WithCancel(t.Context())
	w.leaving = over
	if said := w.agent.Depart(ctx); said != departed+"; Pacemaker leaves etcd alone, so the agent had it stopped" {
		t.Error(said)
	}
	const lookAndEnd = 10 * time.Second // of the etcd keeper and of etcd, on a machine short of processors
	if leave := etcdmember.LeaveLimit + lookAndEnd + etcdmember.ToldLimit; haltLimit < leave {
		t.Errorf("it has %s, and a leave takes up to %s", haltLimit, leave)
	}
	const pods = 25 * time.Second // leaveLimit of package agent
	stop, err := time.ParseDuration(unit.LeaveStop)
	if takes := pods + departLimit + haltLimit + askLonger; err != nil || takes > stop {
		t.Errorf("the agent takes up to %s, and the shutdown waits for %s, %v", takes, stop, err)
	}
}

// TestABootOfItsOwnHasEtcdLeaveToo, where Pacemaker leaves this host alone and not the other one;
// and takes no boot for a shutdown in a maintenance of both.
func TestABootOfItsOwnHasEtcdLeaveToo(t *testing.T) {
	w := at(t, one)
	w.leftAlone = true
	if w.agent.reboot(t.Context()); !slices.Equal(w.orders, []string{"leave", "give lead", "end API", "halt etcd", "reboot"}) {
		t.Errorf("it orders %q", w.orders)
	}
	w = at(t, one)
	w.leftAlone, w.needed = true, true
	if w.agent.reboot(t.Context()); len(w.orders) > 0 {
		t.Errorf("in maintenance it orders %q", w.orders)
	}
}

// TestEtcdStartsAgainAfterAShutdownThatWasCancelled: Pacemaker would not have it started either.
func TestEtcdStartsAgainAfterAShutdownThatWasCancelled(t *testing.T) {
	w := at(t, one)
	w.down, w.needed, w.leftAlone = true, true, true
	w.agent.Depart(t.Context())
	w.shutdownLooks()
	w.down, w.halts, w.orders = false, errors.New("it does not answer"), nil
	w.shutdownLooks()
	w.halts = nil
	w.shutdownLooks()
	w.shutdownLooks()
	// The unit starts although etcd does not: the next shutdown needs it.
	if want := []string{"stay", unitRuns, "start etcd", "start etcd"}; !slices.Equal(w.orders, want) || w.shutdownLooks() != (loop.Result{}) {
		t.Errorf("it orders %q, want %q", w.orders, want)
	}
}

func TestAShutdownThatWasCancelledIsTakenBack(t *testing.T) {
	w := shuttingDown(t)
	w.leave(t)
	w.agent.Depart(t.Context())
	for range 3 {
		if r := w.shutdownLooks(); r.Again != shutdownLook || !w.gone {
			t.Fatalf("while it goes on: %+v, %q", r, w.orders)
		}
	}
	w.deaf = true
	if w.shutdownLooks(); !w.gone {
		t.Error("systemd does not answer, and it takes its virtual IPs back")
	}
	w.deaf, w.down, w.refused = false, false, "start"
	if r := w.shutdownLooks(); w.gone || r.Changed == "" || r.Again != shutdownLook {
		t.Errorf("it was cancelled: %+v, it orders %q", r, w.orders)
	}
	w.refused = ""
	w.shutdownLooks()
	// kubelet starts the API server anew while the shutdown goes on, and not once it was cancelled.
	if want := []string{"leave", "give lead", "end API", "end anew", "end anew", "end anew", "stay", unitRuns}; !slices.Equal(w.orders, want) {
		t.Errorf("it orders %q, want %q", w.orders, want)
	}
	w.settle(hour)
	if !slices.Equal(w.asked, []string{shutdown, drain.After(one)}) {
		t.Errorf("it asks for %q", w.asked)
	}
	if r := w.shutdownLooks(); r != (loop.Result{}) {
		t.Errorf("at rest it looks again: %+v", r)
	}
	// The next shutdown in the same boot is one.
	if said := w.leave(t); said != "other hosts have its pods" || w.annotations[drain.Desired] != shutdown {
		t.Errorf("%s, it asks for %q", said, w.annotations[drain.Desired])
	}
	if said := w.agent.Depart(t.Context()); said != departed {
		t.Error(said)
	}
}

// TestAShutdownThatWasOrderedMayBeginLate: something delays it at logind.
func TestAShutdownThatWasOrderedMayBeginLate(t *testing.T) {
	w := at(t, one)
	w.agent.reboot(t.Context())
	w.now = w.now.Add(shutdownBegins - time.Second)
	if r := w.shutdownLooks(); r.Again != shutdownLook || !w.gone {
		t.Errorf("%+v, it orders %q", r, w.orders)
	}
	w.now = w.now.Add(time.Second)
	if w.shutdownLooks(); w.gone {
		t.Errorf("it does not begin, and the host has no virtual IP: %q", w.orders)
	}
	if want := []string{"leave", "give lead", "end API", "reboot", "end anew", "stay", unitRuns}; !slices.Equal(w.orders, want) {
		t.Errorf("it orders %q, want %q", w.orders, want)
	}
	w = at(t, one)
	w.agent.reboot(t.Context())
	w.down = true
	w.shutdownLooks()
	w.down = false
	if w.shutdownLooks(); w.gone {
		t.Errorf("it was cancelled right after its begin, and the host has no virtual IP: %q", w.orders)
	}
}

// TestAnAgentThatStartsHasTheNextShutdownAsk: one before it may have seen half of one.
func TestAnAgentThatStartsHasTheNextShutdownAsk(t *testing.T) {
	w := at(t, one)
	w.shutdownLooks()
	w.shutdownLooks()
	if want := []string{unitRuns}; !slices.Equal(w.orders, want) || w.shutdownLooks() != (loop.Result{}) {
		t.Errorf("it orders %q, want %q", w.orders, want)
	}
}

func TestAShutdownBesideThatOfTheOtherControlPlaneWaitsForNothing(t *testing.T) {
	w := shuttingDown(t)
	w.controlPlane = true
	w.other = state.Node{Name: "other", Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{drain.Desired: drain.Leave("7")}}
	w.down = true
	if said, waits := w.leaver(t); said != "other shuts down too" || waits {
		t.Errorf("%s, and it gives its virtual IPs away: %v", said, waits)
	}
	w = shuttingDown(t)
	w.other.Ready, w.down = false, true
	if said, waits := w.leaver(t); said != "no other host takes pods now" || !waits {
		t.Errorf("%s, and it asks about its virtual IPs: %v", said, waits)
	}
	w = shuttingDown(t)
	w.away, w.down, w.patience = true, true, time.Second
	if said, waits := w.leaver(t); !strings.HasPrefix(said, "the shutdown waits no longer") || !waits {
		t.Errorf("%s, and it asks about its virtual IPs: %v", said, waits)
	}
}

func TestARestartOfTheUnitAsksForNothing(t *testing.T) {
	w := shuttingDown(t)
	if said, waits := w.leaver(t); said != "the host does not shut down: nothing to do" || waits || len(w.asked) > 0 || w.n > 0 {
		t.Errorf("%s, %v, it asks for %q", said, waits, w.asked)
	}
	w = shuttingDown(t)
	w.blocked, w.down = true, true
	w.looks = func(n int) { w.down = n < 4 } // it is cancelled while it waits
	if said, waits := w.leaver(t); said != "the host does not shut down: nothing to do" || waits || w.n != 4 {
		t.Errorf("%s, %v after %d looks", said, waits, w.n)
	}
}

// TestACutAtAnyMomentOfAShutdownLeavesNothingBehind cuts the agent off after each effect.
// Then the host boots, or the shutdown is cancelled.
func TestACutAtAnyMomentOfAShutdownLeavesNothingBehind(t *testing.T) {
	play := func(cut int, cancelled bool) *fromShutdown {
		w := shuttingDown(t)
		w.cutsWrites, w.left, w.effects, w.orders = true, cut, 0, nil
		w.leave(t)
		if !w.dead { // systemd starts none anew in a shutdown
			w.agent.Depart(t.Context())
		}
		if cancelled {
			if w.down = false; w.dead {
				w.start()
			}
		} else {
			w.boots()
		}
		w.watch()
		for range 20 {
			w.shutdownLooks()
			w.settle(hour)
		}
		return w
	}
	for _, cancelled := range []bool{false, true} {
		whole := play(-1, cancelled)
		if whole.effects < 5 || !slices.Contains(whole.orders, "end API") {
			t.Fatalf("only %d effects: %q", whole.effects, whole.orders)
		}
		for cut := range whole.effects {
			w := play(cut, cancelled)
			rests := w.shutdownLooks() == (loop.Result{})
			if w.gone || !rests || w.annotations[drain.Desired] != drain.After(one) || w.annotations[drain.Applied] != drain.After(one) || w.says() != whole.says() || w.look() != whole.look() {
				t.Fatalf("cut after %d, cancelled: %v: it has no virtual IP: %v, rests: %v, asks for %q, says %s, orders %q", cut, cancelled, w.gone, rests, w.asked, w.says(), w.orders)
			}
			if !slices.Contains(w.orders, unitRuns) {
				t.Errorf("cut after %d, cancelled: %v: nobody asks in the next shutdown: %q", cut, cancelled, w.orders)
			}
		}
	}
}

func TestAShutdownAsksTheAgentAtItsSocket(t *testing.T) {
	w := at(t, one)
	socket := filepath.Join(t.TempDir(), "run", "agent.sock")
	if said := AskToDepart(t.Context(), socket); !strings.HasPrefix(said, stays+"the agent does not answer: ") {
		t.Error(said)
	}
	for range 2 { // the second finds what the first has left
		ctx, end := context.WithCancel(t.Context())
		works, ended := make(chan struct{}), make(chan error)
		go func() { ended <- w.agent.Requests(socket).Run(ctx, func() { close(works) }) }()
		select {
		case <-works:
		case err := <-ended:
			t.Fatal(err)
		}
		if said := AskToDepart(t.Context(), socket); said != stays+"the host does not shut down" {
			t.Error(said)
		}
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
			t.Errorf("%v, %v", info, err)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(socket, nil, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	w.down = true
	gone, end := context.WithCancel(t.Context())
	end()
	if said := w.agent.Depart(gone); said != "nobody waits for it any more" || len(w.orders) > 0 {
		t.Errorf("%s, %q", said, w.orders)
	}
}
