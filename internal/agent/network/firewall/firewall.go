// Package firewall closes the ports of this host to those who have no business
// there, by one nftables table of ours, and finds out what a firewall of the site
// refuses. It changes no table but its own.
package firewall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses of the reconciler.
const (
	// minInterval is the least time between two looks at the table.
	minInterval = time.Second
	// readEvery is the pause between two reads of the administrator's file.
	readEvery = 5 * time.Second
	// trusted is the time for which a compared table counts as unchanged.
	trusted = 10 * time.Second
	// rewatch is the pause before a failed watch is started again.
	rewatch = time.Second
	// lookEvery is the pause between two looks at the firewalls of the site, each
	// of which starts programs, and at the names of management controllers.
	lookEvery = 10 * time.Minute
	lookAgain = time.Minute // after one that failed
	// lookTime bounds a look.
	lookTime = time.Minute
)

// Table is our table. firewall.Table implements it.
type Table interface {
	// Set makes the table what the rules say, and reports whether it changed it.
	Set(r ports.Rules) (changed bool, err error)
	// Watch calls told whenever something happened to the table, including our
	// own changes.
	Watch(ctx context.Context, told func()) error
}

// Options holds what the reconciler needs.
type Options struct {
	// Root is the root of the host's files, "/" on a host.
	Root string
	// Flannel is true if the pod network is ours.
	Flannel bool
	// BMCs are the hosts of management controllers as the site was installed, names or
	// addresses.
	BMCs  []string
	Table Table
	// Site looks at the firewalls of the site, Resolve looks up the addresses of
	// a name.
	Site    func(context.Context, ports.Kind, ports.Place) ([]state.SiteFirewall, error)
	Resolve func(context.Context, string) ([]netip.Addr, error)
	Now     func() time.Time
	Logf    func(format string, args ...any)
}

// Reconciler is the one writer of the table, and the source of what firewalls of the
// site refuse.
type Reconciler struct {
	Options
	// poke wakes the part that mends, pokeLook the one that looks.
	poke, pokeLook chan struct{}

	mu     sync.Mutex
	view   state.NetworkView
	memory ports.Memory
	// known is false until a view was seen.
	known bool
	// rings are the addresses of the last readable corosync.conf, third that of the
	// last readable plan for a third control plane.
	rings []netip.Addr
	third []netip.Addr
	names names
	// last are the rules that were last compared with the table, checked is the
	// time of that.
	last    ports.Rules
	checked time.Time
	// said describes the last table, mended what was done since the last
	// Reconcile, which reports it.
	said   string
	mended []string
	// found are the firewalls of the site that were logged last.
	found []state.SiteFirewall
}

// New returns the reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{Options: o, poke: make(chan struct{}, 1), pokeLook: make(chan struct{}, 1)}
}

// Name returns the name for people.
func (*Reconciler) Name() string { return "firewall" }

// Withdraw leaves the table, so that the ports stay closed without the agent.
func (*Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile makes the table what the view says.
func (p *Reconciler) Reconcile(_ context.Context, v state.NetworkView) (string, error) {
	p.mu.Lock()
	p.view, p.known = v, true
	p.mu.Unlock()
	_, err := p.mend(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	said := strings.Join(p.mended, "; ")
	p.mended = nil
	return said, err
}

// mend decides, compares and writes. It returns the time when it must run again
// even if nothing changes, or zero for never. Its error also reports what nobody
// understands in the administrator's file; the rules are made nevertheless. The
// view changes often and the rules seldom: the same ones are not compared again
// at once, unless the table was touched.
func (p *Reconciler) mend(touched bool) (time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return time.Time{}, nil
	}
	var again time.Time
	p.memory, again = ports.Next(p.memory, p.view, p.Now())
	h, told := p.host()
	rules := ports.Decide(p.view, h, p.memory.Settled())
	now := p.Now()
	if !touched && now.Sub(p.checked) < trusted && reflect.DeepEqual(rules, p.last) {
		return again, told
	}
	wrote, err := p.Table.Set(rules)
	if err != nil {
		p.checked = time.Time{}
		return again, errors.Join(err, told)
	}
	p.last, p.checked = rules, now
	words := describe(rules, p.memory.Settled())
	if wrote {
		said := words
		if words == p.said {
			said += ", which had been changed by another program or by hand"
		}
		if len(p.mended) == 0 || p.mended[len(p.mended)-1] != said {
			p.mended = append(p.mended, said)
		}
	}
	p.said = words
	return again, told
}

func describe(r ports.Rules, settled bool) string {
	if !r.On {
		return "no rules, as set in " + state.FirewallAlsoPath
	}
	n := map[string]int{}
	for _, s := range r.Sets {
		n[strings.TrimRight(s.Name, "46")] += len(s.Addresses)
	}
	words := fmt.Sprintf("%d rules, for %d addresses of hosts and %d of management controllers", len(r.Input)+len(r.Forward), n["hosts"], n["bmcs"])
	if !settled {
		words += "; the machine networks may reach the ports of control planes"
	}
	return words
}

// host returns what this host's disk says. The caller holds the lock.
func (p *Reconciler) host() (ports.Host, error) {
	out := ports.Host{Flannel: p.Flannel, BMCs: p.bmcs()}
	var errs []error
	if err := p.readRings(); err != nil {
		errs = append(errs, err)
	}
	if err := p.readThird(); err != nil {
		errs = append(errs, err)
	}
	out.Rings = slices.Concat(p.rings, p.third)
	text, err := os.ReadFile(p.path(state.FirewallAlsoPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	var problems []string
	out.Also, out.Off, problems = ports.ReadAlso(string(text))
	for _, x := range problems {
		errs = append(errs, errors.New(state.FirewallAlsoPath+": "+x))
	}
	return out, errors.Join(errs...)
}

func (p *Reconciler) path(name string) string { return filepath.Join(p.Root, name) }

// readRings reads the addresses of the two hosts. If it fails, it keeps those
// that were read last.
func (p *Reconciler) readRings() error {
	text, err := os.ReadFile(p.path(corosync.Path))
	if errors.Is(err, fs.ErrNotExist) {
		p.rings = nil
		return nil
	}
	if err != nil {
		return err
	}
	c, err := corosync.Parse(text)
	if err != nil {
		return err
	}
	p.rings = nil
	for _, n := range c.Nodes {
		for _, text := range n.Addresses {
			if a, err := netip.ParseAddr(text); err == nil && !a.IsLoopback() {
				p.rings = append(p.rings, a)
			}
		}
	}
	return nil
}

// readThird reads the address of the third control plane that a plan lets in. Its etcd reaches those
// of the two before it has a Node: its kubelet makes that by its own API server, which needs etcd.
func (p *Reconciler) readThird() error {
	plan, err := replacement.Store{Root: p.Root}.WidenPlan()
	if err != nil {
		return err
	}
	p.third = nil
	if plan == nil || plan.Stage.Over() {
		return nil
	}
	if a, err := netip.ParseAddr(plan.New.Address); err == nil {
		p.third = append(p.third, a)
	}
	return nil
}

func (p *Reconciler) wake() { nudge(p.poke) }

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run mends the table when something of it was removed and when the decision
// asked for it, and looks at the firewalls of the site, until the context ends.
func (p *Reconciler) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() {
		for ctx.Err() == nil {
			_ = p.Table.Watch(ctx, p.wake) // without it the next Reconcile mends
			_ = host.Sleep(ctx, rewatch)   // the loop checks the context
		}
	})
	parts.Go(func() {
		for ctx.Err() == nil {
			p.rest(ctx, p.look(ctx, update))
		}
	})
	for touched := true; ctx.Err() == nil; {
		again, _ := p.mend(touched) // its error is that of the next Reconcile too
		_ = host.Sleep(ctx, minInterval)
		touched = p.await(ctx, again)
	}
	return nil
}

// await waits for the time again, or until the files must be read again, and
// reports whether it was poked meanwhile.
func (p *Reconciler) await(ctx context.Context, again time.Time) bool {
	pause := readEvery
	if !again.IsZero() {
		pause = min(pause, max(again.Sub(p.Now()), time.Millisecond))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-p.poke:
		return true
	}
	return false
}

// rest waits for the next look, or until a management controller has a name that was
// never looked up.
func (p *Reconciler) rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-p.pokeLook:
	}
}

// look looks at what changes seldom, and returns the pause before the next look.
func (p *Reconciler) look(ctx context.Context, update func(func(*state.NetworkView))) time.Duration {
	p.mu.Lock()
	v, known, hosts := p.view, p.known, p.bmcHosts()
	select {
	case <-p.pokeLook: // this look is what it asked for
	default:
	}
	p.mu.Unlock()
	if !known || v.Host.Interface == "" {
		return minInterval // the first view comes in a moment
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	pause := lookEvery
	if !p.resolve(ctx, hosts) {
		pause = lookAgain
	}
	found, err := p.Site(ctx, Kind(v, p.Flannel), Place(v))
	if ctx.Err() != nil {
		return lookAgain
	}
	if err != nil {
		p.Logf("firewall: read the firewalls of the site: %v", err)
		pause = lookAgain
	}
	p.tell(found)
	update(func(v *state.NetworkView) { v.SiteFirewalls = state.Known(found) })
	return pause
}

// tell logs once what firewalls of the site refuse.
func (p *Reconciler) tell(found []state.SiteFirewall) {
	for _, f := range found {
		if f.Refuses() && !slices.ContainsFunc(p.found, func(o state.SiteFirewall) bool { return reflect.DeepEqual(o, f) }) {
			p.Logf("firewall: %s refuses %s: docs/runbook/firewall.md", f.Name, strings.Join(slices.Concat(f.Cluster, f.Applications, f.Pods), ", "))
		}
	}
	p.found = found
}

// Kind returns what kind of host this is, as far as its ports depend on that.
func Kind(v state.NetworkView, flannel bool) ports.Kind {
	return ports.Kind{ControlPlane: v.Role.ControlPlane(), Fencing: v.Settings.Fencing, Flannel: flannel}
}

// Place returns where a host is.
func Place(v state.NetworkView) ports.Place {
	return ports.Place{Interface: v.Host.Interface, Machines: v.Settings.MachineNetworks, Pods: v.Settings.PodNetworks}
}
