package vrrp

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// place returns the network in which this host would hold a VIP, and why it must
// not, empty where it may. Each VIP has one network: only hosts in it can be
// reached there or receive each other's adverts. Adverts go no further, so a host
// elsewhere would take the VIP for itself.
//
// Where no host is in the VIP's network, hosts hold it by the nodes' addresses
// (B10), on the NIC of its machine network where there is one. They never hold it
// on another NIC, which would keep it from a host that can hold it.
func (b *builder) place(vip netip.Addr, nodes []state.Node) (net subnet, away string) {
	machine, planned := machineNetwork(b.view.Settings, vip)
	inside, hasInside := b.ownIn(machine, vip)
	net = subnetOf(b.view, vip)
	switch {
	case net.prefix.IsValid():
		return net, ""
	case len(b.view.Addresses) == 0:
		return net, "" // the kernel was not asked yet: the source address decides (interfaceOf)
	case b.view.Role == state.RoleWorker:
		return net, "is in no network of this worker"
	case planned && !hasInside:
		return net, fmt.Sprintf("is in %s, where this host has no address", machine)
	case hasInside && inside.Prefix.IsSingleIP():
		return subnet{machine, inside.Interface}, "" // DHCPv6 alone does not tell a host its network
	}
	if n, prefix, found := b.hasNetwork(vip, nodes); found {
		return net, fmt.Sprintf("is in %s, as reported by %s, where this host has no address", prefix, n)
	}
	if hasInside {
		net = subnet{machine, inside.Interface}
	}
	return net, ""
}

// Where returns the interface on which this host would hold a VIP, and why it must
// not, empty where it may. A host without a network for the VIP holds it beside its
// own address.
func Where(v state.NetworkView, vip netip.Addr) (nic, away string) {
	net, away := newBuilder(v).place(vip, v.Nodes.Value)
	return device(net, v.Host.Interface), away
}

// Knows reports whether a node is among an instance's peers.
func (i Instance) Knows(n state.Node) bool {
	return slices.ContainsFunc(known(n), func(a netip.Addr) bool { return slices.Contains(i.Peers, a) })
}

// machineNetwork returns the network of the site's machines that holds a VIP.
func machineNetwork(s state.NetworkSettings, vip netip.Addr) (netip.Prefix, bool) {
	i := slices.IndexFunc(s.MachineNetworks, func(p netip.Prefix) bool { return p.Contains(vip) })
	if i < 0 {
		return netip.Prefix{}, false
	}
	return s.MachineNetworks[i], true
}

// ownIn returns an address of this host in a network. It prefers one without a
// network of its own (/32, /128).
func (b *builder) ownIn(network netip.Prefix, vip netip.Addr) (found state.HostAddress, ok bool) {
	vips := b.view.Settings.VIPs()
	for _, a := range b.view.Addresses {
		own := a.Prefix.Addr()
		if !network.IsValid() || !network.Contains(own) || own.Is4() != vip.Is4() || slices.Contains(vips, own) {
			continue
		}
		if !ok || a.Prefix.IsSingleIP() && !found.Prefix.IsSingleIP() {
			found, ok = a, true
		}
	}
	return found, ok
}

// hasNetwork finds another host that reports that it is in the network of a VIP.
func (b *builder) hasNetwork(vip netip.Addr, nodes []state.Node) (name string, network netip.Prefix, found bool) {
	for _, n := range nodes {
		if n.Name == b.view.Host.NodeName {
			continue
		}
		for _, p := range reportOf(n).Addresses {
			if !p.IsSingleIP() && p.Bits() > 0 && p.Contains(vip) {
				return n.Name, p.Masked(), true
			}
		}
	}
	return "", netip.Prefix{}, false
}

// unheard returns why the peers would ignore this host's adverts for a VIP, empty
// where they would not. Peers identify each other by their addresses in the VIP's
// network. They do not know this host's address there until its report is out, and
// by another address they do not take it for a peer. A host that brings the cluster
// up has nobody to wait for.
func (b *builder) unheard(net subnet, source netip.Addr, nodes []state.Node) string {
	if Bootstrapping(b.view) || !net.prefix.IsValid() || net.prefix.Contains(source) {
		return ""
	}
	for _, n := range nodes {
		if a, ok := addressFor(n, source, net, b.view.Settings.VIPs()); ok && n.Name != b.view.Host.NodeName && net.prefix.Contains(a) {
			return fmt.Sprintf("is in %s, where %s does not know an address of this host yet", net.prefix, n.Name)
		}
	}
	return ""
}
