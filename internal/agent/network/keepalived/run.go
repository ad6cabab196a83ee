package keepalived

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keepalived"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// Run watches keepalived and the hosts around until the context ends. It removes
// the VIPs that a daemon leaves behind, ends a daemon that hangs, believes a
// change of health once it has lasted, and puts into the view which control
// planes answer and who else claims a VIP.
func (p *Reconciler) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	if err := os.MkdirAll(filepath.Dir(p.files.path(render.VRRPPIDFile)), 0o755); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.believe(ctx) })
	group.Go(func() error { return p.guard(ctx) })
	group.Go(func() error { return p.reach(ctx, update) })
	if !p.NoFilter {
		group.Go(func() error { return p.refilter(ctx) })
		group.Go(func() error { return p.follow(ctx) })
	}
	if !p.NoProbe {
		group.Go(func() error { return p.strangers(ctx, update) })
	}
	return group.Wait()
}

// believe writes the track files again when a change of health has lasted.
func (p *Reconciler) believe(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := never
		if at := p.dueAt(); !at.IsZero() {
			pause = max(at.Sub(p.Now()), time.Millisecond)
		}
		if wait(ctx, p.wake, pause) {
			p.again()
		}
	}
	return context.Cause(ctx)
}

// never is the pause of a wait for an event only.
const never = 24 * time.Hour

// dueAt returns when something is to be done even if nothing changes, or zero for
// never.
func (p *Reconciler) dueAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.IsZero() || (!p.later.IsZero() && p.later.Before(p.due)) {
		return p.later
	}
	return p.due
}

// again does what was postponed.
func (p *Reconciler) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retell()
	if p.later.IsZero() || p.Now().Before(p.later) {
		return
	}
	told, err := p.configure()
	if told != "" {
		p.Logf("keepalived: %s", told)
	}
	if err != nil {
		p.Logf("keepalived: %v", err) // the next reconciliation tries again
	}
}

// retell writes the track files outside of a reconciliation. The caller holds
// the lock.
func (p *Reconciler) retell() {
	told, err := p.track()
	if told != "" {
		p.Logf("keepalived: %s", told)
	}
	if err != nil {
		p.Logf("keepalived: %v", err)
	}
}

// refilter puts the filter back as soon as somebody changes it. The next
// reconciliation repairs what goes wrong here.
func (p *Reconciler) refilter(ctx context.Context) error {
	for ctx.Err() == nil {
		err := keepalived.WatchFilter(ctx, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.refiltered()
		})
		if err != nil {
			p.Logf("keepalived: %v", err)
		}
		_ = host.Sleep(ctx, guardEvery) // the loop checks the context
	}
	return context.Cause(ctx)
}

// guardEvery is the pause between two looks for a missing daemon, in case the
// folder of its pid file gives no event. deadParent bounds the time in which a
// parent must start the process that speaks VRRP.
const (
	guardEvery = 2 * time.Second
	deadParent = 15 * time.Second
)

// guard follows the process that speaks VRRP from one to the next.
func (p *Reconciler) guard(ctx context.Context) error {
	var events <-chan fsnotify.Event // nil if inotify is not available: then only guardEvery counts
	follow, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = follow.Close() }()
		events = follow.Events
		err = follow.Add(filepath.Dir(p.files.path(render.VRRPPIDFile)))
	}
	if err != nil {
		p.Logf("keepalived: follow its process: %v: raise fs.inotify.max_user_instances", err)
	}
	var childless vrrp.Childless
	for ctx.Err() == nil {
		d, found, runs, err := keepalived.ByPIDFile(p.files.path(render.VRRPPIDFile))
		switch {
		case err != nil:
			p.Logf("keepalived: %v", err)
		case runs:
			p.attend(ctx, d)
			childless = vrrp.Childless{}
			continue
		case found:
			p.sweep("crashed")
			childless = p.replace(childless)
		}
		wait(ctx, events, guardEvery)
	}
	return context.Cause(ctx)
}

// attend stays with a running daemon until it ends, and removes what it leaves.
func (p *Reconciler) attend(ctx context.Context, d keepalived.Daemon) {
	if err := d.Favour(); err != nil {
		p.Logf("keepalived: %v", err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go p.pulse(watching, d)
	go p.hearing(watching, d)
	if err := d.AwaitEnd(ctx); err != nil {
		if ctx.Err() == nil {
			p.Logf("keepalived: %v", err)
			_ = host.Sleep(ctx, guardEvery) // then guard looks for it anew
		}
		return
	}
	p.farewell(ctx)
	if next, _, runs, err := keepalived.ByPIDFile(p.files.path(render.VRRPPIDFile)); err == nil && runs && next != d {
		return // the next one removes them as it starts
	}
	p.sweep("ended")
}

// startTimeout bounds the start of a daemon.
const startTimeout = 3 * time.Second

// hearing ends a daemon that cannot follow its files, once there is room for the
// next one to: it would hold a VIP however ill this host is.
func (p *Reconciler) hearing(ctx context.Context, d keepalived.Daemon) {
	if host.Sleep(ctx, startTimeout) != nil || len(p.instances()) == 0 { // without instances it has no file to follow
		return
	}
	follows, err := d.Follows()
	if err != nil || follows || ctx.Err() != nil {
		return
	}
	n, err := keepalived.RaiseInotify()
	if err != nil {
		p.Logf("keepalived: the daemon cannot watch its track files, so it ignores this host's health: raise fs.inotify.max_user_instances and end it: %v", err)
		return
	}
	p.Logf("keepalived: the daemon cannot watch its track files: fs.inotify.max_user_instances is now %d, restarting the daemon", n)
	if err := d.Kill(); err != nil {
		p.Logf("keepalived: %v", err)
	}
}

// farewell tells the peers that a daemon that just ended holds nothing any more:
// one that was killed could not. It does so only for a VIP that this host still
// has, and so held. For another VIP it would make the others doubt the present
// holder.
func (p *Reconciler) farewell(ctx context.Context) {
	held, err := keepalived.HeldVIPs(p.vips())
	if err != nil {
		p.Logf("keepalived: %v", err)
	}
	for _, i := range p.instances() {
		if !slices.Contains(held, i.VIP) {
			continue
		}
		if err := keepalived.SendResignation(ctx, i, render.AdvertInterval*100); err != nil {
			p.Logf("keepalived: %v", err)
		}
	}
}

func (p *Reconciler) instances() []vrrp.Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.verdict.Instances
}

// sweep removes the VIPs that no daemon holds.
func (p *Reconciler) sweep(why string) {
	removed, err := keepalived.RemoveVIPs(p.vips())
	if len(removed) > 0 {
		p.Logf("keepalived: the daemon %s and left %v behind: removed", why, removed)
	}
	if err != nil {
		p.Logf("keepalived: %v", err)
	}
}

// replace ends a parent that does not start its child again; kubelet then starts
// the container.
func (p *Reconciler) replace(before vrrp.Childless) vrrp.Childless {
	d, _, runs, err := keepalived.ByPIDFile(p.files.path(render.PIDFile))
	if err != nil || !runs {
		d.PID = 0
	}
	childless, end := before.Look(d.PID, p.Now(), deadParent)
	if !end {
		return childless
	}
	p.Logf("keepalived: no VRRP process for %s: ending its parent", deadParent)
	if err := d.Kill(); err != nil {
		p.Logf("keepalived: %v", err)
	}
	return childless
}

// pulse checks whether a daemon moves, and ends one that does not.
func (p *Reconciler) pulse(ctx context.Context, d keepalived.Daemon) {
	var seen vrrp.Pulse
	for ctx.Err() == nil {
		holder := p.holds()
		if host.Sleep(ctx, vrrp.Every(holder)) != nil {
			return
		}
		look, err := d.ReadState()
		if err != nil {
			return // it ended
		}
		if look.Wants {
			var excused bool
			if seen, excused = seen.Want(p.Now()); excused {
				continue
			}
		}
		var beat vrrp.Beat
		seen, beat = seen.Look(look.Sleeps, holder, p.Now())
		if beat != vrrp.Alive {
			p.treat(d, beat)
		}
		if beat == vrrp.Hung {
			seen = vrrp.Pulse{} // its end takes a moment
		}
	}
}

// treat pokes a daemon or ends it.
func (p *Reconciler) treat(d keepalived.Daemon, beat vrrp.Beat) {
	var err error
	if beat == vrrp.Hung {
		p.Logf("keepalived: the daemon hangs: ending it")
		err = d.Kill()
	} else {
		err = d.Poke()
	}
	if err != nil {
		p.Logf("keepalived: %v", err)
	}
}

func (p *Reconciler) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return vrrp.Holds(p.view, vrrp.API) || vrrp.Holds(p.view, vrrp.Ingress)
}
