// Package vipcheck publishes what a host knows of VIPs, in annotations of its own
// node: which it is set up for and which it holds, and who on its networks
// answers for an address that somebody asks about.
package vipcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/decide/peers"
	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of a report.
const (
	// reconcileTimeout bounds the wait of a report for the other reconcilers. After that
	// it says what keeps them.
	reconcileTimeout = 10 * time.Second
	// passing is the longest failure of a reconciler that a report leaves out.
	passing = 3 * time.Second
	// settleEvery is the pause between two looks at them.
	settleEvery = 50 * time.Millisecond
)

// Options holds what the reconciler needs.
type Options struct {
	// Annotate sets annotations of this host's node, and removes those whose
	// value is nil.
	Annotate func(ctx context.Context, node string, values map[string]*string) error
	// Holders finds out who answers for addresses on the network of an
	// interface.
	Holders func(ctx context.Context, iface string, addresses []netip.Addr) (map[netip.Addr]net.HardwareAddr, error)
	// Certificate returns the addresses in the certificate of the host's API
	// server; it is nil on a worker.
	Certificate func() []netip.Addr
	// BMCs returns the names or addresses of the BMCs by which this host fences; it is
	// nil on a worker.
	BMCs func() []string
	// Reconcilers returns how the reconcilers of this host are doing; it may be nil.
	Reconcilers func() []network.ReconcilerState
	// Settling replaces the constant settling; zero means that one.
	Settling time.Duration
}

// Reconciler tells the cluster about this host. It is a network.Reconciler.
type Reconciler struct{ Options }

// concerned names the reconcilers without which a host does not have its VIPs.
// Trouble of others does not concern a change of VIPs.
var concerned = []string{"keepalived", "haproxy", "redirect", "names", "serving-certificate"}

// New returns the reconciler.
func New(o Options) *Reconciler {
	if o.Settling == 0 {
		o.Settling = reconcileTimeout
	}
	return &Reconciler{o}
}

// Name implements network.Reconciler.
func (p *Reconciler) Name() string { return "vip-report" }

// Withdraw implements network.Reconciler. The report stays: the host does the same
// without its agent.
func (p *Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile implements network.Reconciler. It writes nothing if the node has all of it
// already.
func (p *Reconciler) Reconcile(ctx context.Context, view state.NetworkView) (changed string, err error) {
	self, there := view.Self()
	if !there || self.Absent || view.Stale {
		return "", nil // there is no API, or it does not know this host
	}
	answers, err := p.answer(ctx, view, self)
	report, failed := p.report(ctx, view, self)
	return strings.Trim(answers+"; "+report, "; "), errors.Join(err, failed)
}

// report gives the node the host's report, if that has changed.
func (p *Reconciler) report(ctx context.Context, view state.NetworkView, self state.Node) (changed string, err error) {
	text := self.Annotations[state.AnnotationVIPs]
	before := state.ParseAnnotation[state.VIPReport](text)
	trouble := p.settle(ctx, view.Settings.VIPs(), before)
	var certificate []netip.Addr
	if p.Certificate != nil {
		certificate = p.Certificate()
	}
	now := vips.ReportOf(view, before.Value, certificate, trouble)
	now.Peers = peers.Of(view)
	if p.BMCs != nil {
		now.BMCs = p.BMCs()
	}
	told := state.FormatAnnotation(now)
	if told != text || slices.Contains(self.Kept, state.AnnotationVIPs) {
		if err := p.Annotate(ctx, self.Name, map[string]*string{state.AnnotationVIPs: &told}); err != nil {
			return "", err
		}
	}
	if told == text || before.Known && slices.Equal(before.Value.VIPs, now.VIPs) {
		return "", nil // who holds what changes with each move of a VIP: that is not worth a line
	}
	return fmt.Sprintf("published that this host has %v", now.VIPs), nil
}

// settle waits until each other reconciler has made the VIPs true and works, and
// returns which have not. It waits longer for VIPs that are new to this host.
func (p *Reconciler) settle(ctx context.Context, wanted []netip.Addr, before state.Fact[state.VIPReport]) string {
	if p.Reconcilers == nil {
		return ""
	}
	limit := p.Settling
	if before.Known && slices.Equal(before.Value.VIPs, wanted) {
		limit = min(limit, passing)
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for {
		trouble := behind(wanted, p.Reconcilers())
		if trouble == "" && p.Certificate != nil && len(wanted) > 0 && len(p.Certificate()) == 0 {
			trouble = "the API server's certificate was not checked yet" // the agent has just begun
		}
		if trouble == "" || host.Sleep(ctx, settleEvery) != nil {
			return trouble
		}
	}
}

// behind names the reconcilers that fail, or have not run yet with the wanted
// VIPs.
func behind(wanted []netip.Addr, now []network.ReconcilerState) string {
	var out []string
	for _, r := range now {
		switch {
		case !slices.Contains(concerned, r.Name):
		case r.Error != "":
			out = append(out, r.Name+": "+r.Error)
		case !slices.Equal(r.VIPs, wanted):
			out = append(out, r.Name+" is not done yet")
		}
	}
	return strings.Join(out, "; ")
}

// answer gives the node the answers to open questions, and removes those that
// nobody wants any more.
func (p *Reconciler) answer(ctx context.Context, view state.NetworkView, self state.Node) (changed string, err error) {
	questions, obsolete := vips.Open(self.Annotations)
	values := map[string]*string{}
	for _, name := range obsolete {
		values[name] = nil
	}
	var words []string
	var errs []error
	for _, q := range questions {
		answer, err := p.look(ctx, view, q.Probe)
		if err != nil {
			errs = append(errs, err)
		}
		text := state.FormatAnnotation(answer)
		values[state.AnnotationVIPAnswer+q.Asker] = &text
		words = append(words, fmt.Sprintf("checked who answers for %v: free %v, held %v", q.Probe.Addresses, answer.Free, answer.Held))
	}
	if len(values) > 0 {
		if err := p.Annotate(ctx, self.Name, values); err != nil {
			return "", errors.Join(append(errs, err)...)
		}
	}
	return strings.Join(words, "; "), errors.Join(errs...)
}

// look finds out who answers for the addresses of a question.
func (p *Reconciler) look(ctx context.Context, view state.NetworkView, q state.VIPProbe) (state.VIPAnswer, error) {
	out := state.VIPAnswer{ID: q.ID, Held: map[netip.Addr]string{}, Unknown: map[netip.Addr]string{}}
	byInterface := map[string][]netip.Addr{}
	for _, a := range q.Addresses {
		if i := slices.IndexFunc(view.Addresses, func(own state.HostAddress) bool { return own.Prefix.Addr() == a }); i >= 0 {
			out.Held[a] = vips.Itself(view.Host.NodeName, view.Addresses[i].Interface)
			continue
		}
		iface := vips.Through(a, view.Addresses, view.Routes)
		if iface == "" {
			out.Unknown[a] = "this host has no address in a network with it"
			continue
		}
		byInterface[iface] = append(byInterface[iface], a)
	}
	var errs []error
	for iface, addresses := range byInterface {
		found, err := p.Holders(ctx, iface, addresses)
		if err != nil {
			errs = append(errs, fmt.Errorf("check who answers on %s: %w", iface, err))
		}
		sort(&out, addresses, found, err)
	}
	slices.SortFunc(out.Free, netip.Addr.Compare)
	return out, errors.Join(errs...)
}

// sort puts the findings on one interface into the answer. What could not be
// asked is unknown, never free.
func sort(out *state.VIPAnswer, asked []netip.Addr, found map[netip.Addr]net.HardwareAddr, err error) {
	for _, a := range asked {
		switch hardware, held := found[a]; {
		case held:
			out.Held[a] = hardware.String()
		case err != nil:
			out.Unknown[a] = err.Error()
		default:
			out.Free = append(out.Free, a)
		}
	}
}
