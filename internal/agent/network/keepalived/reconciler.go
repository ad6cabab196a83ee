// Package keepalived keeps the VIPs of a host: the configuration of keepalived,
// the files that tell it how healthy this host is, and its process. keepalived
// moves the addresses; this package only removes those that a dead or mute
// keepalived leaves behind.
package keepalived

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keepalived"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// Options holds what the reconciler needs.
type Options struct {
	// Root is the root of the host's files, "/" on a host.
	Root string
	// Pod is the static pod's manifest, or nil if something else runs keepalived.
	Pod []byte
	// Now is the clock.
	Now func() time.Time
	// Logf logs what happens between two reconciliations; it must not block.
	Logf func(format string, args ...any)
	// NoFilter leaves nftables and the kernel's settings alone.
	NoFilter bool
	// NoProbe sends no requests to find who else holds a VIP.
	NoProbe bool
}

// Reconciler keeps keepalived in step. It is a network.Reconciler and a network.Source:
// its Run must go on for as long as it is reconciled.
type Reconciler struct {
	Options
	files files

	mu      sync.Mutex
	view    state.NetworkView
	verdict vrrp.Verdict
	health  vrrp.Health
	said    map[string]vrrp.Weight
	// due is the time of the next look at the health without any change, later is
	// the same for the configuration.
	due, later time.Time
	// told is the time at which keepalived was last told of its configuration.
	told time.Time
	// asked are the VIPs that this host may take as far as others are concerned,
	// because it was asked who has them. listened are those that this run of the
	// agent asked about; claims and forged are the results.
	asked, listened map[netip.Addr]bool
	claims          []state.VIPClaim
	forged          []state.ForgedAdvert
	more            int // the claims and forged adverts that are not named
	// seen are the hardware addresses at which the kernel reaches its neighbours,
	// neighbours those of peers. loose are the peers that are not where they say.
	seen       map[keepalived.Neighbour]string
	neighbours map[netip.Addr]string
	loose      []netip.Addr
	// namesakes are the machines with a router id of ours that were logged. Only
	// the part that looks for foreign hosts uses it.
	namesakes []state.VIPClaim
	// deaf says since when an interface cannot be listened on. Only the same part
	// uses it, and listen.
	deaf   map[string]time.Time
	listen func(ctx context.Context, nic string, ask []netip.Addr, window time.Duration) (own string, heard []vrrp.Frame, err error)
	// These channels tell the parts of Run that something changed; each holds one
	// value.
	wake, wakeReach, wakeLook chan struct{}
}

// New returns the reconciler of a host.
func New(o Options) *Reconciler {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return &Reconciler{
		Options: o, files: files{root: o.Root}, said: map[string]vrrp.Weight{},
		asked: map[netip.Addr]bool{}, listened: map[netip.Addr]bool{}, seen: map[keepalived.Neighbour]string{},
		deaf: map[string]time.Time{}, listen: keepalived.Listen,
		wake: make(chan struct{}, 1), wakeReach: make(chan struct{}, 1), wakeLook: make(chan struct{}, 1),
	}
}

// Name returns the name for people.
func (*Reconciler) Name() string { return "keepalived" }

// Reconcile first tells keepalived how healthy this host is, whatever else fails,
// and then gives it the configuration that the view asks for.
func (p *Reconciler) Reconcile(_ context.Context, view state.NetworkView) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view = view
	switch v := vrrp.Instances(view); {
	case v.Known && (p.verdict.Known || len(v.Undecided) == 0):
		p.verdict = v.After(p.verdict)
	case !p.verdict.Known: // also of a first look that lacks one family: its files stay
		p.verdict = vrrp.Verdict{Why: v.Why}
	}
	told, err := p.track()
	if err != nil {
		return told, err
	}
	changed, err := p.configure()
	nudge(p.wake)
	nudge(p.wakeReach)
	if slices.ContainsFunc(p.verdict.Instances, func(i vrrp.Instance) bool { return !p.listened[i.VIP] }) {
		nudge(p.wakeLook)
	}
	return join(told, changed), err
}

// Withdraw leaves keepalived as it is: the VIPs outlive the agent.
func (*Reconciler) Withdraw(context.Context) error { return nil }

// track writes the track files. The caller holds the lock.
func (p *Reconciler) track() (string, error) {
	p.health, p.due = vrrp.Follow(p.health, p.view, vrrp.Holds(p.view, vrrp.API), p.Now())
	before, err := p.files.value(string(vrrp.API))
	if err != nil {
		return "", err
	}
	ingress, err := p.files.value(string(vrrp.Ingress))
	if err != nil {
		return "", err
	}
	said := map[string]vrrp.Weight{
		string(vrrp.API):     vrrp.APIWeight(p.view, p.health, before),
		string(vrrp.Ingress): vrrp.IngressWeight(p.view, ingress),
	}
	for _, i := range p.verdict.Instances {
		said[i.Name] = p.bar(i)
	}
	return p.say(said)
}

// bar returns the weight of an instance's own file: anything but 0 is a fault.
func (p *Reconciler) bar(i vrrp.Instance) vrrp.Weight {
	switch {
	case p.unasked(i):
		return vrrp.Weight{Value: 1, Why: "asking who has " + i.VIP.String()}
	case vrrp.Barred(p.view, i) != "":
		return vrrp.Weight{Value: 1, Why: vrrp.Barred(p.view, i)}
	}
	return vrrp.Weight{Why: "nothing bars it"}
}

// say writes what differs from the files, and describes what is new since the
// last call.
func (p *Reconciler) say(said map[string]vrrp.Weight) (string, error) {
	var changes []string
	var errs []error
	for name, w := range said {
		wrote, err := p.files.track(name, w.Value)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if before, ok := p.said[name]; wrote || !ok || before.Value != w.Value {
			changes = append(changes, fmt.Sprintf("%s %s (%s)", name, number(w.Value), w.Why))
		}
		p.said[name] = w
	}
	return sorted(changes), errors.Join(errs...)
}

// reloadEvery is the least time between two reloads: a burst of new nodes causes
// one reload, or a few.
const reloadEvery = time.Second

// configure writes the configuration, tells keepalived, and keeps adverts of
// foreign hosts out. The caller holds the lock.
func (p *Reconciler) configure() (string, error) {
	if !p.verdict.Known {
		return "", nil
	}
	if p.later = p.told.Add(reloadEvery); p.Now().Before(p.later) {
		return "", nil // Run comes back to it
	}
	p.later = time.Time{}
	h := render.HostOf(p.verdict, p.view.Settings)
	h.TrackDir = p.files.path(render.TrackDir)
	conf, err := render.Render(h)
	if err != nil {
		return "", err
	}
	told, err := p.files.configure(conf, p.Pod, len(h.Instances) > 0)
	if err != nil {
		return "", err
	}
	if err := p.forget(); err != nil {
		return "", err
	}
	changed, err := p.filter()
	if told {
		p.told = p.Now()
		changed = join(fmt.Sprintf("%d instances (%s)", len(h.Instances), p.verdict.Why), changed)
	}
	return changed, err
}

// forget removes the track files of former instances, so that an instance of the
// same name is asked about anew.
func (p *Reconciler) forget() error {
	wanted := []string{string(vrrp.API), string(vrrp.Ingress)}
	for _, i := range p.verdict.Instances {
		wanted = append(wanted, i.Name)
	}
	if err := p.files.prune(wanted); err != nil {
		return err
	}
	maps.DeleteFunc(p.said, func(name string, _ vrrp.Weight) bool { return !slices.Contains(wanted, name) })
	old := func(vip netip.Addr, _ bool) bool {
		return !slices.ContainsFunc(p.verdict.Instances, func(i vrrp.Instance) bool { return i.VIP == vip })
	}
	maps.DeleteFunc(p.asked, old)
	maps.DeleteFunc(p.listened, old)
	return nil
}

// filter lets in the peers' adverts and nobody else's, and keeps peers that are
// off from delaying the adverts to the others.
func (p *Reconciler) filter() (string, error) {
	if p.NoFilter || !p.verdict.Known {
		return "", nil
	}
	senders, told := p.senders()
	f := keepalived.Filter{Senders: senders, Peers: map[uint8][]netip.Addr{}}
	peers := map[netip.Addr]bool{}
	for _, i := range p.verdict.Instances {
		f.Own, f.Peers[i.RouterID] = append(f.Own, i.Source), append(f.Peers[i.RouterID], i.Peers...)
		for _, a := range i.Peers {
			peers[a] = true
		}
	}
	changed, err := f.Apply()
	if err != nil {
		return "", err
	}
	if changed {
		told = append(told, fmt.Sprintf("adverts of %d peers are let in, for %d addresses only from their own NICs", len(peers), len(senders)))
	}
	for _, i := range p.verdict.Instances {
		bound, err := keepalived.LimitUnresolved(i.Interface)
		if err != nil {
			return join(told...), err
		}
		if bound {
			told = append(told, "hosts that are off do not delay adverts on "+i.Interface)
		}
	}
	return join(told...), nil
}

// vips returns the VIPs of the view, and those of the last known instances.
func (p *Reconciler) vips() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.view.Settings.VIPs()
	for _, i := range p.verdict.Instances {
		out = append(out, i.VIP)
	}
	return out
}

// files are the host's files that keepalived reads.
type files struct{ root string }

func (f files) path(p string) string { return filepath.Join(f.root, p) }

// reload makes keepalived read its configuration. If keepalived does not run it
// does nothing, because keepalived reads what is there when it starts.
func (f files) reload() error {
	d, _, runs, err := keepalived.ByPIDFile(f.path(render.PIDFile))
	if err != nil || !runs {
		return err
	}
	return d.Reload()
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func join(parts ...string) string {
	var out []string
	for _, s := range parts {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "; ")
}
