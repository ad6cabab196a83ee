package ports

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Rules is our own table of a host: it drops, and accepts nothing that another
// table drops. Of a set, those addresses match that are in it.
type Rules struct {
	// On is false where there is to be no table.
	On   bool
	Sets []Set
	// Input is for what comes to the host, Forward for what it passes on.
	Input, Forward []Rule
}

// Set is a set of addresses of one family, in order.
type Set struct {
	Name      string
	IPv6      bool
	Addresses []netip.Addr
}

// Rule drops what all its parts match.
type Rule struct {
	IPv6 bool
	// Protocol and the ports from First to Last are those that it is sent to;
	// without a protocol all match.
	Protocol    Protocol
	First, Last uint16
	// From is a network that it comes from; invalid for any.
	From netip.Prefix
	// Not is a set, and Nets are networks, that it does not come from; an empty
	// name for no such part.
	Not  string
	Nets []netip.Prefix
	// To is a set that it is sent to, empty for all.
	To string
	// Why is for who reads the table.
	Why string
}

// The sets, each in two families.
const (
	setPlanes = "control-planes"
	setHosts  = "hosts"
	setBMCs   = "bmcs"
)

// Host is what a host knows of itself and its site beside the view, from its
// own disk.
type Host struct {
	// Flannel is true where the pod network is ours.
	Flannel bool
	// Rings are the addresses of the two hosts in corosync.conf.
	Rings []netip.Addr
	// BMCs are the addresses of management controllers that it knows.
	BMCs []netip.Addr
	// Also are networks that a person lets in like a control plane.
	Also []netip.Prefix
	// Off is true where a person wants no rules of ours.
	Off bool
}

// Decide returns the rules of a host. What is known of addresses may be old or
// not all there is: while it is not settled, the machine networks are let in
// where else only hosts are, and where nothing at all is known, everybody is.
func Decide(v state.NetworkView, h Host, settled bool) Rules {
	if h.Off {
		return Rules{}
	}
	b := builder{
		view: v, host: h, settled: settled,
		planes: addresses(v, possiblePlane), hosts: addresses(v, anyNode),
	}
	b.planes = append(b.planes, h.Rings...)
	listens := of(Kind{ControlPlane: v.Role.ControlPlane(), Fencing: v.Settings.Fencing, Flannel: h.Flannel})
	for _, ipv6 := range []bool{false, true} {
		b.sets(ipv6)
		for _, p := range listens {
			b.keep(p, ipv6)
		}
		for _, pods := range within(v.Settings.PodNetworks, ipv6) {
			b.pods(pods, listens)
		}
	}
	b.out.On = true
	return b.out
}

type builder struct {
	view          state.NetworkView
	host          Host
	settled       bool
	planes, hosts []netip.Addr
	out           Rules
}

// name is a set's in a family.
func name(set string, ipv6 bool) string {
	if ipv6 {
		return set + "6"
	}
	return set + "4"
}

func (b *builder) sets(ipv6 bool) {
	for _, s := range []struct {
		name string
		list []netip.Addr
	}{{setPlanes, b.planes}, {setHosts, b.targets()}, {setBMCs, b.host.BMCs}} {
		b.out.Sets = append(b.out.Sets, Set{Name: name(s.name, ipv6), IPv6: ipv6, Addresses: family(s.list, ipv6)})
	}
}

// targets are where a host of the cluster answers, the virtual IPs too: a worker
// may hold one, so they are no control plane's.
func (b *builder) targets() []netip.Addr {
	return slices.Concat(b.hosts, b.host.Rings, b.view.Settings.VIPs())
}

// keep drops what comes to a port from elsewhere than it may.
func (b *builder) keep(p Port, ipv6 bool) {
	set, nets := setHosts, b.host.Also
	known := len(b.hosts) > 0
	switch p.From {
	case Planes:
		set, known = setPlanes, len(b.planes) > 0
		if !b.settled {
			nets = append(slices.Clone(nets), b.view.Settings.MachineNetworks...)
		}
	case Hosts:
		if b.view.Stale || !b.view.Nodes.Known {
			nets = append(slices.Clone(nets), b.view.Settings.MachineNetworks...)
		}
	case Machines:
		nets = append(slices.Clone(nets), b.view.Settings.MachineNetworks...)
	case Anybody, NoPods, Neighbour, Itself:
		return
	}
	if !known && len(b.view.Settings.MachineNetworks) == 0 {
		return // nobody is known: a rule would cut the hosts from each other
	}
	for _, protocol := range p.Protocols {
		b.out.Input = append(b.out.Input, Rule{
			IPv6: ipv6, Protocol: protocol, First: p.First, Last: p.Last, Not: name(set, ipv6), Nets: within(nets, ipv6),
			Why: fmt.Sprintf("%s: %s", p.Who, p.From),
		})
	}
}

// pods drops what pods send to ports of hosts that are not theirs to ask, and to
// management controllers. What they send to another host leaves this one with
// this host's own address, so it is dropped before it leaves.
func (b *builder) pods(from netip.Prefix, listens []Port) {
	ipv6 := from.Addr().Is6()
	closed := func(list []Port, to string) (out []Rule) {
		for _, p := range list {
			for _, protocol := range p.Protocols {
				if p.closedToPods() {
					out = append(out, Rule{IPv6: ipv6, Protocol: protocol, First: p.First, Last: p.Last, From: from, To: to, Why: p.Who + ": not from pods"})
				}
			}
		}
		return out
	}
	everywhere := of(Kind{ControlPlane: true, Fencing: b.view.Settings.Fencing, Flannel: b.host.Flannel})
	b.out.Input = append(b.out.Input, closed(listens, "")...)
	b.out.Forward = append(b.out.Forward, closed(everywhere, name(setHosts, ipv6))...)
	b.out.Forward = append(b.out.Forward, Rule{IPv6: ipv6, From: from, To: name(setBMCs, ipv6), Why: "management controllers: not from pods"})
}

// addresses are all that nodes of a kind are known by: etcd and VXLAN go out
// with whichever address the route has.
func addresses(v state.NetworkView, is func(state.Node) bool) []netip.Addr {
	var out []netip.Addr
	for _, n := range v.Nodes.Value {
		if is(n) {
			out = append(out, n.Addresses...)
			out = append(out, n.Tunnel...)
			report := state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs])
			for _, p := range report.Value.Addresses {
				out = append(out, p.Addr())
			}
		}
	}
	return out
}

func anyNode(state.Node) bool { return true }

// possiblePlane reports whether a node is a control plane, or may be about to be
// one: it asks etcd to take it in some seconds before kubeadm labels it. What
// was installed as a worker is none.
func possiblePlane(n state.Node) bool {
	_, master := n.Labels[state.LabelMaster]
	if master || n.ControlPlane() {
		return true
	}
	_, worker := n.Labels[state.LabelWorker]
	return !worker && n.Labels[noderole.Claim] != string(state.RoleWorker)
}

// family are the addresses of a family, each once, in order.
func family(list []netip.Addr, ipv6 bool) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		if a = a.Unmap().WithZone(""); a.IsValid() && a.Is6() == ipv6 {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// within are the networks of a family, each once, in order.
func within(list []netip.Prefix, ipv6 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		if p.IsValid() && p.Addr().Is6() == ipv6 {
			out = append(out, p.Masked())
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}
