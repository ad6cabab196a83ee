package keepalived

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keepalived"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// How control planes in doubt are asked: the pause, the limit of one request, and
// the number of failures in a row after which they count as out of reach.
const (
	reachEvery  = 500 * time.Millisecond
	reachAtMost = 500 * time.Millisecond
	reachInVain = 3
)

// reach asks the control planes that haproxy does not find live whether they
// answer at all, for as long as there are any.
func (p *Reconciler) reach(ctx context.Context, update func(func(*state.NetworkView))) error {
	misses := map[string]int{}
	for ctx.Err() == nil {
		asked := p.doubted()
		if len(asked) == 0 {
			clear(misses)
			update(func(v *state.NetworkView) { v.Reachable = state.Fact[map[string]bool]{} })
			wait(ctx, p.wakeReach, never)
			continue
		}
		began := p.Now()
		answers := askAll(ctx, asked)
		maps.DeleteFunc(misses, func(name string, _ int) bool { _, still := asked[name]; return !still })
		found := map[string]bool{}
		for name, yes := range answers {
			if misses[name]++; yes {
				misses[name] = 0
			}
			found[name] = misses[name] < reachInVain
		}
		if ctx.Err() == nil {
			update(func(v *state.NetworkView) { v.Reachable = state.Known(found) })
		}
		_ = host.Sleep(ctx, max(reachEvery-p.Now().Sub(began), 0)) // the loop checks the context
	}
	return context.Cause(ctx)
}

func (p *Reconciler) doubted() map[string]netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return vrrp.Doubted(p.view)
}

// askAll asks all hosts at once.
func askAll(ctx context.Context, hosts map[string]netip.Addr) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, reachAtMost)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	out := map[string]bool{}
	for name, a := range hosts {
		all.Go(func() {
			yes := keepalived.Answers(ctx, a)
			mu.Lock()
			defer mu.Unlock()
			out[name] = yes
		})
	}
	all.Wait()
	return out
}

// wait waits for an event or for d, and reports whether d is over.
func wait[T any](ctx context.Context, wake <-chan T, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
		return true
	}
	return false
}

// How foreign hosts are looked for: briefly before a VIP is taken for the first
// time, then now and then, and more often while there is one.
const (
	firstLook    = 600 * time.Millisecond
	laterLook    = 3 * time.Second
	lookEvery    = time.Minute
	lookAgain    = 10 * time.Second
	lookPatience = 5 * time.Second
	// lookInVain is the time after which an interface that could not be listened on in
	// all of it keeps no VIP from this host, and lookPause the least time between two
	// such looks.
	lookInVain = 3 * lookAgain
	lookPause  = time.Second
)

// strangers listens now and then for foreign hosts that claim the cluster's VIPs.
func (p *Reconciler) strangers(ctx context.Context, update func(func(*state.NetworkView))) error {
	for ctx.Err() == nil {
		instances, fresh := p.asking()
		if len(instances) == 0 {
			wait(ctx, p.wakeLook, never)
			continue
		}
		window := laterLook
		if len(fresh) > 0 {
			window = firstLook
			p.greet(ctx, fresh)
		}
		p.survey(ctx, instances, window, update)
	}
	return context.Cause(ctx)
}

// survey looks once, and waits until the next look is due.
func (p *Reconciler) survey(ctx context.Context, instances []vrrp.Instance, window time.Duration, update func(func(*state.NetworkView))) {
	found := p.look(ctx, instances, window)
	if ctx.Err() != nil {
		return // it was cut off: nothing that it did not hear counts
	}
	update(func(v *state.NetworkView) { v.Claims, v.Forged = found.Claims, found.Forged })
	p.looked(instances, found)
	p.met(found.Namesakes)
	pause := lookEvery
	if len(found.Claims)+len(found.Forged)+len(found.Unheard) > 0 {
		pause = lookAgain
	}
	if len(found.Unheard) > 0 {
		_ = host.Sleep(ctx, lookPause) // each change of the view wakes the next look
	}
	wait(ctx, p.wakeLook, pause)
}

// greet tells the peers that this host is there, before it takes part.
func (p *Reconciler) greet(ctx context.Context, instances []vrrp.Instance) {
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	for _, i := range instances {
		if err := keepalived.SendAdvert(ctx, i, render.AdvertInterval*100); err != nil && ctx.Err() == nil {
			p.Logf("keepalived: %v", err)
		}
	}
}

// look listens on every interface that the instances use.
func (p *Reconciler) look(ctx context.Context, instances []vrrp.Instance, window time.Duration) vrrp.Found {
	ctx, cancel := context.WithTimeout(ctx, window+lookPatience)
	defer cancel()
	ask := map[string][]netip.Addr{}
	for _, i := range instances {
		ask[i.Device] = append(ask[i.Device], i.VIP)
		ask[i.Interface] = append(ask[i.Interface], nil...) // adverts come there
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var heard vrrp.Heard
	errs := map[string]error{}
	for nic, vips := range ask {
		all.Go(func() {
			own, frames, err := p.listen(ctx, nic, vips, window)
			mu.Lock()
			defer mu.Unlock()
			if errs[nic] = cmp.Or(err, ctx.Err()); errs[nic] == nil {
				heard.Own, heard.Frames = append(heard.Own, own), append(heard.Frames, frames...)
			}
		})
	}
	all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	heard.Neighbours = p.neighbours
	return vrrp.Look(heard, p.view, instances, p.judge(errs), vrrp.Found{Claims: p.claims, Forged: p.forged})
}

// judge returns the interfaces that could not be listened on, and logs them as they
// become so. It gives up those that never can be.
func (p *Reconciler) judge(errs map[string]error) []string {
	var out []string
	maps.DeleteFunc(p.deaf, func(nic string, _ time.Time) bool { return errs[nic] == nil })
	for nic, err := range errs {
		since, before := p.deaf[nic]
		switch {
		case err == nil:
		case !before:
			p.deaf[nic] = p.Now()
			p.Logf("keepalived: %v: looking again who has VIPs there", err)
			out = append(out, nic)
		case p.Now().Sub(since) < lookInVain:
			out = append(out, nic)
		default:
			p.Logf("keepalived: %v: it has failed for %s, so nobody else counts as having VIPs there", err, p.Now().Sub(since).Round(time.Second))
		}
	}
	return out
}

// asking returns the instances to look after; fresh are those for whose VIP no
// look was made yet.
func (p *Reconciler) asking() (instances, fresh []vrrp.Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	instances = p.verdict.Instances
	if len(instances) == 0 {
		clear(p.deaf) // nothing is looked at, so nothing goes on failing
	}
	for _, i := range instances {
		if p.unasked(i) {
			fresh = append(fresh, i)
		}
	}
	return instances, fresh
}

// unasked reports whether this host lacks a VIP and has not yet looked who has
// it. If keepalived already takes part for the VIP, an earlier run looked. The
// caller holds the lock.
func (p *Reconciler) unasked(i vrrp.Instance) bool {
	if p.NoProbe || p.asked[i.VIP] {
		return false
	}
	bar, err := p.files.value(i.Name)
	p.asked[i.VIP] = err == nil && state.Is(bar, 0) ||
		slices.ContainsFunc(p.view.Addresses, func(a state.HostAddress) bool { return a.Prefix.Addr() == i.VIP })
	return !p.asked[i.VIP]
}

// looked records a look: VIPs that it looked at and that nobody else has may be
// taken now. It logs who has one.
func (p *Reconciler) looked(instances []vrrp.Instance, found vrrp.Found) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range instances {
		if !slices.ContainsFunc(found.Unheard, func(o vrrp.Instance) bool { return o.Name == i.Name }) {
			p.asked[i.VIP], p.listened[i.VIP] = true, true
		}
	}
	for _, c := range found.Claims {
		if !slices.Contains(p.claims, c) {
			p.Logf("keepalived: %s", vrrp.Explain(c))
		}
	}
	for _, f := range found.Forged {
		if !slices.Contains(p.forged, f) {
			p.Logf("keepalived: %s", vrrp.ExplainForged(f))
		}
	}
	if found.More > 0 && p.more == 0 {
		p.Logf("keepalived: %d more such machines are not named: somebody forges hardware addresses", found.More)
	}
	p.claims, p.forged, p.more, p.view.Claims = found.Claims, found.Forged, found.More, found.Claims
	p.retell()
}

// mostNamesakes bounds how many machines with our router ids are logged: whoever
// forges adverts can pretend to be any number of them.
const mostNamesakes = 16

// met logs once each machine that uses a router id of ours for itself.
func (p *Reconciler) met(namesakes []state.VIPClaim) {
	for _, c := range namesakes {
		if len(p.namesakes) < mostNamesakes && !slices.Contains(p.namesakes, c) {
			p.namesakes = append(p.namesakes, c)
			p.Logf("keepalived: %s", vrrp.ExplainNamesake(c))
		}
	}
}
