package machineconfig

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

// departure is what a host has given up right before its services stop. All of it is in
// the memory of this process: another one begins with a host that stays.
type departure struct {
	wake loop.Kick

	// mu is held while the host departs, and until systemd has its order.
	mu sync.Mutex
	// stay takes it back; nil while the host has not departed.
	stay func()
	// halted says what became of etcd, which was asked to stop in the place of Pacemaker;
	// empty if it was not, and once it was asked to start again.
	halted string
	// due is when an ordered shutdown has begun at the latest.
	due time.Time
	// ran is true if a shutdown has begun, and while nobody has looked: what runs in a
	// shutdown may have run, and runs in the next one only if its unit is started again.
	ran bool
}

// The times of a shutdown.
const (
	// departLimit bounds what the agent does for a host that shuts down. The virtual IPs
	// leave within 8 s, etcd's lead within 2 s, and the API server is waited for 1 s.
	departLimit = 15 * time.Second
	// haltLimit bounds the wait for etcd that is stopped in the place of Pacemaker, which
	// comes on top. It leaves within some 5 s. Where processors are short it takes up to
	// etcdmember.LeaveLimit, a look, the end of etcd and etcdmember.ToldLimit. Corosync,
	// without which it cannot leave, ends after that.
	haltLimit = 50 * time.Second
	// shutdownBegins is the time in which a shutdown begins that was ordered. Programs may
	// delay it at logind, by 5 s, or 30 s with unattended-upgrades.
	shutdownBegins = time.Minute
	shutdownLook   = time.Second
	shutdownLimit  = 20 * time.Second
)

// depart gives the virtual IPs away, then etcd's lead, then ends the API server, so that
// clients go to other hosts before etcd leaves: they would otherwise wait for what the
// shutdown has ended already, and for an election. It asks whether the cluster carries on, and once more right before the
// API server ends. Where Pacemaker would leave etcd alone, it has etcd stopped, last of all.
// It returns why the host stays, empty if it departed. The caller holds the lock.
func (a *Agent) depart(ctx context.Context, may func(context.Context) (state.Fact[bool], string)) (stays string) {
	const unknown = "nobody says whether the cluster carries on without it"
	if carries, why := may(ctx); !state.Is(carries, true) {
		return cmp.Or(why, unknown)
	}
	stay := a.cluster.Leave(ctx)
	if carries, why := may(ctx); !state.Is(carries, true) {
		stay()
		return cmp.Or(why, unknown)
	}
	a.cluster.GiveLead(ctx)
	a.cluster.EndAPI(ctx)
	a.out.stay = stay
	if a.mayHalt(ctx) {
		a.halt(ctx)
	}
	a.out.wake.Kick()
	return ""
}

// remain takes a departure back: the host may have the virtual IPs again. kubelet has
// started the API server anew. The caller holds the lock.
func (a *Agent) remain() {
	a.out.stay()
	a.out.stay, a.out.due = nil, time.Time{}
}

// Depart is what a shutdown asks for that a person has begun, once it has waited for the
// pods. It does what the host does before a boot of its own, and says what became of it.
func (a *Agent) Depart(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, departLimit)
	defer cancel()
	a.out.mu.Lock()
	defer a.out.mu.Unlock()
	if ctx.Err() != nil {
		return "nobody waits for it any more"
	}
	if a.out.stay != nil {
		return "its virtual IPs and its API server have left before"
	}
	view := a.cluster.View()
	facts := drain.Departing{ControlPlane: view.Role.ControlPlane(), Nodes: view.Nodes}
	if down, err := a.goesDown(ctx); err == nil {
		facts.Down, a.out.ran = state.Known(down), a.out.ran || down
		a.out.wake.Kick()
	}
	stays, may := facts.Stays(), a.cluster.MayBoot
	if stays == "" {
		if a.mayHalt(ctx) { // in maintenance nobody boots by himself
			may = func(ctx context.Context) (state.Fact[bool], string) {
				return a.cluster.MayHalt(context.WithoutCancel(ctx))
			}
		}
		stays = a.depart(ctx, may)
	}
	if stays != "" {
		return "its virtual IPs and its API server stay until systemd stops them: " + stays
	}
	return "its virtual IPs and its API server have left" + a.out.halted
}

// mayHalt reports whether etcd has to be stopped in the place of Pacemaker, and may be. MayHalt bounds
// itself: where the time of a departure is over, nothing else has etcd leave.
func (a *Agent) mayHalt(ctx context.Context) bool {
	if a.cluster.MayHalt == nil {
		return false
	}
	may, _ := a.cluster.MayHalt(context.WithoutCancel(ctx))
	return state.Is(may, true)
}

// halt has etcd stopped, which leaves in order. It has a time of its own.
func (a *Agent) halt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), haltLimit)
	defer cancel()
	a.out.halted = "; Pacemaker leaves etcd alone, so the agent had it stopped"
	if err := a.cluster.Halt(ctx); err != nil {
		a.out.halted = "; Pacemaker leaves etcd alone, and the agent could not have it stopped: " + err.Error()
	}
}

func (a *Agent) goesDown(ctx context.Context) (bool, error) { return goesDown(ctx, a.Systemctl) }

// GoesDown asks systemd whether this host shuts down.
func GoesDown(ctx context.Context) (bool, error) { return goesDown(ctx, systemctl) }

func goesDown(ctx context.Context, systemctl func(context.Context, ...string) ([]byte, error)) (bool, error) {
	out, err := systemctl(ctx, "show", "--property=SystemState", "--value")
	return err == nil && drain.GoesDown(strings.TrimSpace(string(out))), err
}

// ofShutdown reports whether a wish is that of a shutdown in this boot.
func (a *Agent) ofShutdown(wish string) bool {
	boot, _, err := a.Boot()
	return err == nil && wish == drain.Leave(boot)
}

// shutsDown reports whether a wish is that of a shutdown which goes on, as far as is
// known. One that was cancelled, or in whose place the host booted, is over.
func (a *Agent) shutsDown(ctx context.Context, wish string) bool {
	if !a.ofShutdown(wish) {
		return false
	}
	down, err := a.goesDown(ctx)
	return err != nil || down
}

// ShutdownTask returns the loop that has a host stay whose shutdown does not come, or
// was cancelled. It rests while nobody shuts the host down.
func (a *Agent) ShutdownTask() loop.Task {
	return loop.Task{Name: "shutdown", Wake: a.out.wake, Retry: shutdownLook, Limit: shutdownLimit, Step: a.watchShutdown}
}

// keepAway ends the API server that kubelet starts in the place of the one that has left, until kubelet
// itself is stopped. It would be ready within seconds and take requests, and etcd beneath it leaves: they
// get no answer (lab, 2026-12-01). The caller holds the lock, and a shutdown may wait for it.
func (a *Agent) keepAway() {
	if a.out.stay != nil {
		a.cluster.EndAnew()
	}
}

func (a *Agent) watchShutdown(ctx context.Context) (loop.Result, error) {
	if !a.out.mu.TryLock() {
		return loop.Result{Again: shutdownLook}, nil // it departs now
	}
	defer a.out.mu.Unlock()
	wished := a.ofShutdown(a.annotations()[drain.Desired])
	if a.out.stay == nil && a.out.halted == "" && !wished && !a.out.ran {
		return loop.Result{}, nil
	}
	again := loop.Result{Again: shutdownLook}
	switch down, err := a.goesDown(ctx); {
	case err != nil:
		return loop.Result{}, err
	case down:
		a.out.due, a.out.ran = time.Time{}, true
		a.keepAway()
		return again, nil
	case a.out.stay != nil && a.Now().Before(a.out.due):
		a.keepAway()
		return again, nil
	}
	if a.out.stay != nil {
		a.remain()
		again.Changed = "the host does not shut down: it may have its virtual IPs again"
	}
	if wished {
		a.wake.Kick() // it takes its wish back, and tells the API
	}
	var notStarted, notUnhalted error
	if a.out.ran { // first: the other step may take all the time and fail, and the next shutdown needs the unit
		_, notStarted = a.Systemctl(ctx, "start", "--no-block", "--", unit.LeaveUnit)
		a.out.ran = notStarted != nil && host.ExitCode(notStarted) != notLoaded
	}
	if a.out.halted != "" {
		if notUnhalted = a.cluster.Unhalt(ctx); notUnhalted == nil {
			a.out.halted = ""
		}
	}
	return again, errors.Join(notStarted, notUnhalted)
}
