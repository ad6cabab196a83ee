package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/nic"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/decide/uplink"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

// corosync reads this host's configuration of Corosync.
func (l *observation) corosync() (corosync.Conf, error) {
	text, err := l.read(corosync.Path)
	if err != nil {
		return corosync.Conf{}, err
	}
	return corosync.Parse(text)
}

// rings returns the links of Corosync, in their order.
func (l *observation) rings(ctx context.Context, switches map[string][]string) ([]decide.Ring, error) {
	c, err := l.corosync()
	if err != nil {
		return nil, err
	}
	out := []decide.Ring{}
	for _, n := range c.Nodes {
		if n.Name != l.h.Name {
			continue
		}
		for _, address := range n.Addresses {
			out = append(out, l.ring(ctx, address, switches))
		}
	}
	return out, nil
}

// ringLacks returns what Corosync's packets lack to be encrypted and signed.
func (l *observation) ringLacks() (string, error) {
	c, err := l.corosync()
	if err != nil {
		return "", err
	}
	return twonode.CorosyncOf(c).Plain(), nil
}

// ring returns the link at one of this host's addresses.
func (l *observation) ring(ctx context.Context, address string, switches map[string][]string) decide.Ring {
	r := decide.Ring{Address: address}
	a, err := netip.ParseAddr(address)
	if err != nil {
		a = l.first(ctx, address) // it is a name
	}
	for _, own := range l.network.Addresses {
		if own.Prefix.Addr() == a.Unmap() {
			r.Interface, r.Subnet = own.Interface, own.Prefix.Masked().String()
		}
	}
	if r.Interface == "" {
		return r
	}
	r.MTU = l.number("/sys/class/net/" + r.Interface + "/mtu")
	ports := l.ports(r.Interface, 0)
	if len(ports) > 1 {
		r.Bond = len(ports)
	}
	r.Switches = through(ports, switches)
	return r
}

// first returns the first address of a name, an invalid one if there is none.
func (l *observation) first(ctx context.Context, name string) netip.Addr {
	list, err := l.resolve(ctx, name)
	if err != nil || len(list) == 0 {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(list[0])
	return a.Unmap()
}

func (l *observation) resolve(ctx context.Context, name string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, nameTime, fmt.Errorf("no answer in %s", nameTime))
	defer cancel()
	return l.Resolve(ctx, name)
}

func (l *observation) number(name string) int {
	data, err := l.read(name)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n
}

// deepest bounds the number of interfaces that are followed: a bridge on a VLAN
// on a bond.
const deepest = 4

// ports returns the interfaces at the bottom of an interface: the slaves of a
// bond, or itself.
func (l *observation) ports(name string, deep int) []string {
	if slaves, err := l.read("/sys/class/net/" + name + "/bonding/slaves"); err == nil {
		return strings.Fields(string(slaves))
	}
	lower, err := filepath.Glob(l.path("/sys/class/net/" + name + "/lower_*"))
	if err != nil || len(lower) != 1 || deep == deepest {
		return []string{name} // with several interfaces and no bond, the way is unknown
	}
	return l.ports(strings.TrimPrefix(filepath.Base(lower[0]), "lower_"), deep+1)
}

// through returns the switches behind ports, each once.
func through(ports []string, switches map[string][]string) []string {
	var out []string
	for _, p := range ports {
		out = append(out, switches[p]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// neighbours is the output of lldpctl in its format json0, whose shape does not
// depend on the number of neighbours.
type neighbours struct {
	LLDP []struct {
		Interface []struct {
			Name    string `json:"name"`
			Chassis []struct {
				ID   []struct{ Value string } `json:"id"`
				Name []struct{ Value string } `json:"name"`
			} `json:"chassis"`
		} `json:"interface"`
	} `json:"lldp"`
}

// switches returns the switches that LLDP finds at each interface. It returns
// nothing if no LLDP daemon runs. That is not reported as trouble: it only
// makes less visible.
func (l *observation) switches(ctx context.Context) map[string][]string {
	out, err := l.tool(ctx, "lldpctl", "-f", "json0")
	if err != nil {
		return nil
	}
	return switchesOf(out)
}

func switchesOf(text []byte) map[string][]string {
	var n neighbours
	if json.Unmarshal(text, &n) != nil {
		return nil
	}
	found := map[string][]string{}
	for _, all := range n.LLDP {
		for _, i := range all.Interface {
			for _, c := range i.Chassis {
				name := ""
				for _, v := range slices.Concat(c.Name, c.ID) {
					name = cmp.Or(name, v.Value)
				}
				found[i.Name] = append(found[i.Name], name)
			}
		}
	}
	return found
}

// bmcs returns the devices that this host holds, without their accounts.
func (l *observation) bmcs(ctx context.Context, switches map[string][]string) ([]decide.BMC, error) {
	files := records.Files{Root: l.path("")}
	targets, err := files.Targets()
	if err != nil {
		return nil, err
	}
	totals, err := files.FenceTotals()
	if err != nil {
		return nil, err
	}
	out := []decide.BMC{}
	for _, target := range targets {
		if target == l.h.Name {
			continue // only its peer would use it
		}
		dev, err := fence.ReadDevice(files, target)
		if err != nil {
			return nil, err
		}
		b := decide.BMC{
			Target: target, Delay: dev.Delay, Verified: !dev.Insecure || dev.Fingerprint != "", Pinned: dev.Fingerprint != "",
			Fingerprint: redfish.PlainFingerprint(dev.Fingerprint), FirstSight: dev.FirstSight,
		}
		total := totals[target].At(dev.Address)
		b.Proven, b.Slowest = total.Cut, total.Slowest()
		l.way(ctx, &b, dev.Address, switches)
		out = append(out, b)
	}
	return out, nil
}

// way finds the route from this host to a BMC.
func (l *observation) way(ctx context.Context, b *decide.BMC, address string, switches map[string][]string) {
	parsed, err := bmc.Parse(address)
	if err != nil {
		return
	}
	at, err := netip.ParseAddr(parsed.Host)
	if err != nil {
		at = l.first(ctx, parsed.Host)
	}
	if !at.IsValid() {
		return
	}
	b.Address = at.Unmap().String()
	b.Shows = l.shown(ctx, parsed, b.Target)
	if r, ok := route(l.network.Routes, at.Unmap()); ok {
		b.Interface = r.Interface
		if r.Gateway.IsValid() {
			b.Gateway = r.Gateway.String()
		}
		b.Switches = through(l.ports(r.Interface, 0), switches)
	}
}

// shownBy reads what a BMC shows without an account.
func shownBy(ctx context.Context, at bmc.Address) (redfish.Shown, error) {
	return redfish.ShownBy(ctx, redfish.Endpoint{Address: at, Timeout: toolTime})
}

// shown returns what a BMC shows to everybody.
func (l *observation) shown(ctx context.Context, at bmc.Address, target string) state.Fact[decide.Shown] {
	s, err := l.BMC(ctx, at)
	if err != nil {
		// Note only the kind of error: not everybody who may read nodes may know the
		// BMC's address.
		l.note("BMC of "+target, errors.New(cmp.Or(string(redfish.ReasonOf(err)), "no answer")+" (for details: sudo holdfast fencing verify)"))
		return state.Fact[decide.Shown]{}
	}
	out := decide.Shown{Fingerprint: s.Fingerprint, Ends: s.Ends}
	if !s.Clock.IsZero() { // in whole seconds
		out.Offset = state.Known(decide.Offset{Low: s.Clock.Sub(s.Answered), High: s.Clock.Add(time.Second).Sub(s.Asked)})
	}
	return state.Known(out)
}

// route returns the route to an address: the most specific one, and among those
// the one with the smallest metric.
func route(routes []state.HostRoute, to netip.Addr) (best state.HostRoute, ok bool) {
	for _, r := range routes {
		if !r.Destination.Contains(to) {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(r.Destination.Bits(), best.Destination.Bits()), cmp.Compare(best.Metric, r.Metric)) > 0 {
			best, ok = r, true
		}
	}
	return best, ok
}

// devices returns the fence devices in Pacemaker's configuration.
func (l *observation) devices(ctx context.Context) ([]decide.Device, error) {
	text, err := l.ask(ctx, pacemaker.Configuration())
	if err != nil {
		return nil, err
	}
	c, err := twonode.ParseCIB(text)
	if err != nil {
		return nil, err
	}
	out := []decide.Device{}
	for _, r := range c.Resources {
		if agent, ok := strings.CutPrefix(r.Agent, "stonith:"); ok {
			out = append(out, decide.Device{ID: r.ID, Agent: agent, Ours: agent == twonode.FenceAgent})
		}
	}
	return out, nil
}

// names resolves the cluster's own names like any program on this host.
func (l *observation) names(ctx context.Context) ([]decide.Name, error) {
	if !l.Site.Known {
		return nil, errors.New("this host does not belong to a cluster")
	}
	s := l.Site.Value.Settings
	api, ingress := texts(s.APIVIPs), texts(s.IngressVIPs)
	if !s.ManagedVIPs {
		api, ingress = nil, nil
	}
	var out []decide.Name
	for _, n := range []decide.Name{
		{Name: "api." + s.Domain, Want: api},
		{Name: "api-int." + s.Domain, Want: api},
		{Name: "holdfast-doctor.apps." + s.Domain, Want: ingress},
	} {
		list, err := l.resolve(ctx, n.Name)
		if n.Addresses = list; err != nil {
			n.Problem = err.Error()
		}
		slices.Sort(n.Addresses)
		out = append(out, n)
	}
	return out, nil
}

// nics returns the kernel's settings of the interfaces that lead out of the
// host.
func (l *observation) nics() (decide.NICs, error) {
	kernel := nic.Kernel{Root: l.Root}
	links, err := kernel.Links()
	if err != nil {
		return decide.NICs{}, err
	}
	settings, err := kernel.Settings()
	if err != nil {
		return decide.NICs{}, err
	}
	own := uplink.Own(state.NetworkView{Addresses: l.network.Addresses, Settings: l.Site.Value.Settings})
	return decide.NICs{Uplinks: uplink.Uplinks(links, own), LooseARP: settings.Loose(), Deaf: uplink.Deaf(links, own)}, nil
}

func texts(list []netip.Addr) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return out
}
