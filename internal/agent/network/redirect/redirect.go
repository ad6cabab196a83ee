// Package redirect makes the API port of the VIPs lead to this host's load
// balancer while that works.
package redirect

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
)

// CheckInterval is the pause between two checks of the table without an event:
// the safety net below the watch.
const CheckInterval = 10 * time.Second

// minInterval is the least time between two looks: somebody who removes the table
// again and again must not keep this host busy.
const minInterval = 20 * time.Millisecond

// rewatch is the pause before a failed watch is started again.
const rewatch = time.Second

// Table is the table of the redirect. redirect.Table implements it.
type Table interface {
	// Set makes the table what the redirect says, and reports whether it changed
	// it.
	Set(r apilb.Redirect) (changed bool, err error)
	// Matches reports whether the table is what the redirect says.
	Matches(r apilb.Redirect) (bool, error)
	// Watch calls changed whenever somebody has touched the table.
	Watch(ctx context.Context, changed func()) error
}

// Reconciler is the one writer of the table. It is a source too: it watches the table,
// mends it as soon as somebody else has touched it, and puts into the view
// whether it leads anywhere. It mends by itself, because a table that was flushed
// and is back in a few milliseconds must not move a VIP.
type Reconciler struct {
	table Table
	now   func() time.Time
	// poke wakes Run when the view or the memory changed.
	poke chan struct{}

	mu     sync.Mutex
	view   state.NetworkView
	memory apilb.Memory
	// known is false until a view was seen.
	known bool
	// leads is true if the table is as wanted and leads somewhere.
	leads bool
	// said describes the last table, mended what was done since the last
	// Reconcile, which reports it.
	said   string
	mended []string
}

// New returns the reconciler.
func New(table Table, now func() time.Time) *Reconciler {
	return &Reconciler{table: table, now: now, poke: make(chan struct{}, 1)}
}

// Name returns the name for people.
func (*Reconciler) Name() string { return "redirect" }

// Withdraw leaves the table: haproxy goes on without the agent. Should haproxy
// then end too, kubelet starts it again.
func (*Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile makes the table what the view says.
func (p *Reconciler) Reconcile(_ context.Context, v state.NetworkView) (string, error) {
	p.mu.Lock()
	p.view, p.known = v, true
	p.mu.Unlock()
	_, err := p.mend()
	p.wake()
	p.mu.Lock()
	defer p.mu.Unlock()
	said := strings.Join(p.mended, "; ")
	p.mended = nil
	return said, err
}

// mend decides, compares and writes. It returns the time when it must run again
// even if nothing changes, or zero for never.
func (p *Reconciler) mend() (time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return time.Time{}, nil
	}
	want, memory, again := apilb.Next(p.memory, p.view, p.now())
	p.memory = memory
	if !want.Known {
		left, err := p.leftOn()
		if err == nil {
			p.leads = left
		}
		return again, err
	}
	wrote, err := p.table.Set(want.Value)
	if err != nil {
		// The table is unknown: leads stays as it was, unless nothing should
		// lead.
		p.leads = p.leads && len(want.Value.VIPs) > 0
		return again, err
	}
	p.leads = len(want.Value.VIPs) > 0
	said := describe(want.Value)
	if said == p.said {
		said += ", which had been changed by another program or by hand"
	}
	if wrote && (len(p.mended) == 0 || p.mended[len(p.mended)-1] != said) {
		p.mended = append(p.mended, said)
	}
	p.said = describe(want.Value)
	return again, nil
}

// leftOn reports whether an earlier run of the agent left the table leading to
// haproxy. It is asked while this run does not know yet.
func (p *Reconciler) leftOn() (bool, error) {
	vips := p.view.Settings.APIVIPs
	if len(vips) == 0 {
		return false, nil
	}
	return p.table.Matches(apilb.To(vips))
}

func describe(r apilb.Redirect) string {
	var vips []string
	for _, a := range r.VIPs {
		vips = append(vips, netip.AddrPortFrom(a, apilb.ServerPort).String())
	}
	switch {
	case !r.Table:
		return "removed"
	case len(vips) == 0:
		return "no virtual IP leads to haproxy"
	default:
		return fmt.Sprintf("%s to :%d", strings.Join(vips, ", "), apilb.BalancerPort)
	}
}

func (p *Reconciler) wake() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// Run mends the table whenever it was touched, and decides again when the
// decision asked for it, until the context ends.
func (p *Reconciler) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() {
		for ctx.Err() == nil {
			_ = p.table.Watch(ctx, p.wake) // without it only the safety net is left
			_ = host.Sleep(ctx, rewatch)
		}
	})
	told := false
	for ctx.Err() == nil {
		again, _ := p.mend() // its error is that of the next Reconcile too
		if leads := p.isLeading(); leads != told {
			told = leads
			update(func(v *state.NetworkView) { v.Redirected = leads })
		}
		_ = host.Sleep(ctx, minInterval)
		p.await(ctx, again)
	}
	return nil
}

func (p *Reconciler) isLeading() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leads
}

// await waits for a poke, the time again, or the safety net.
func (p *Reconciler) await(ctx context.Context, again time.Time) {
	pause := CheckInterval
	if !again.IsZero() {
		pause = min(pause, max(again.Sub(p.now()), time.Millisecond))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-p.poke:
	}
}
