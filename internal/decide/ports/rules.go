package ports

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Rules describes our own table on a host. It only drops, so it lets in nothing
// that another table drops.
type Rules struct {
	// On is false if the host is to have no such table.
	On   bool
	Sets []Set
	// Input is for packets to the host, Forward for packets that it passes on.
	Input, Forward []Rule
}

// Set is an ordered set of addresses of one family.
type Set struct {
	Name      string
	IPv6      bool
	Addresses []netip.Addr
}

// Rule drops the packets that match all its parts.
type Rule struct {
	IPv6 bool
	// Protocol and First to Last are the destination's protocol and ports; without
	// a protocol all packets match.
	Protocol    Protocol
	First, Last uint16
	// From is the network of the source; invalid for any.
	From netip.Prefix
	// Sources in the set Not or in one of Nets do not match. An empty name stands
	// for no set.
	Not  string
	Nets []netip.Prefix
	// To is the set of the destination, empty for all.
	To string
	// Why explains the rule to readers of the table.
	Why string
}

// The names of the sets; each exists for two families.
const (
	setPlanes = "control-planes"
	setHosts  = "hosts"
	setBMCs   = "bmcs"
)

// Host holds what a host knows of itself and its site beside the view, from its
// own disk.
type Host struct {
	// Flannel is true if the pod network is ours.
	Flannel bool
	// Rings are the addresses of the two hosts in corosync.conf, and of a third one that a plan lets in.
	Rings []netip.Addr
	// BMCs are the addresses of the management controllers that the host knows.
	BMCs []netip.Addr
	// Also are networks that a person lets in like a control plane.
	Also []netip.Prefix
	// Off is true if a person wants no rules of ours.
	Off bool
}

// Decide returns the rules of a host. Known addresses may be old or incomplete.
// Until they are settled, the machine networks are let in where otherwise only
// hosts are. If neither hosts nor machine networks are known, everybody is.
func Decide(v state.NetworkView, h Host, settled bool) Rules {
	if h.Off {
		return Rules{}
	}
	b := builder{
		view: v, host: h, settled: settled,
		planes: planes(v), hosts: hosts(v),
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

// name returns the name of a set for one family.
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

// targets returns the addresses at which a host of the cluster answers. It
// includes the virtual IPs: a worker may hold one, so they do not belong to
// control planes alone.
func (b *builder) targets() []netip.Addr {
	return slices.Concat(b.hosts, b.host.Rings, b.view.Settings.VIPs())
}

// keep drops packets to a port from sources that may not use it.
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
		return // no host is known: a rule would cut the hosts off from each other
	}
	for _, protocol := range p.Protocols {
		b.out.Input = append(b.out.Input, Rule{
			IPv6: ipv6, Protocol: protocol, First: p.First, Last: p.Last, Not: name(set, ipv6), Nets: within(nets, ipv6),
			Why: fmt.Sprintf("%s: %s", p.Who, p.From),
		})
	}
}

// pods drops packets of pods to hosts' ports that are closed to pods, and to
// management controllers. A pod's packets to another host leave this host with
// this host's own address, so they are dropped before they leave.
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

// planes returns the addresses of nodes that are control planes, or may become one.
func planes(v state.NetworkView) []netip.Addr {
	var out []netip.Addr
	for _, n := range v.Nodes.Value {
		if possiblePlane(n) {
			out = append(out, addresses(n)...)
		}
	}
	return out
}

// mostOfWorker bounds the addresses of a worker: its Node is the word of whoever is root
// there.
const mostOfWorker = 64

// hosts returns the addresses of all nodes. Of a worker, which could keep pods from any
// address by what it says, no address of a pod or a Service counts, and no more than
// mostOfWorker do.
func hosts(v state.NetworkView) []netip.Addr {
	var out []netip.Addr
	for _, n := range v.Nodes.Value {
		list := addresses(n)
		if !n.ControlPlane() {
			list = slices.DeleteFunc(list, func(a netip.Addr) bool {
				has := func(p netip.Prefix) bool { return p.Contains(a) }
				return slices.ContainsFunc(v.Settings.PodNetworks, has) || slices.ContainsFunc(v.Settings.ServiceNetworks, has)
			})
			list = list[:min(len(list), mostOfWorker)]
		}
		out = append(out, list...)
	}
	return out
}

// addresses returns all known addresses of a node, each once: etcd and VXLAN send from
// whichever address the route has. Those of the Node itself come first.
func addresses(n state.Node) []netip.Addr {
	all := slices.Concat(n.Addresses, n.Also, n.Tunnel)
	report := state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs])
	for _, p := range report.Value.Addresses {
		all = append(all, p.Addr())
	}
	var out []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, a := range all {
		if a = a.Unmap().WithZone(""); !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}

// Controllers returns the management controllers by which control planes say that they
// fence, names or addresses. What another host says counts for nothing: it could keep
// pods away from any address.
func Controllers(v state.NetworkView) []string {
	var out []string
	for _, n := range v.Nodes.Value {
		if n.ControlPlane() {
			report := state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs])
			out = append(out, report.Value.BMCs...)
		}
	}
	return out
}

// possiblePlane reports whether a node is a control plane, or may be about to
// become one: a host asks etcd to take it in some seconds before kubeadm labels
// it. A host that was installed as a worker is none.
func possiblePlane(n state.Node) bool {
	_, master := n.Labels[state.LabelMaster]
	if master || n.ControlPlane() {
		return true
	}
	_, worker := n.Labels[state.LabelWorker]
	return !worker && n.Labels[noderole.Claim] != string(state.RoleWorker)
}

// family returns the addresses of a family, each once, in order.
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

// within returns the networks of a family, each once, in order.
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
