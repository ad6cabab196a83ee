package vrrp

import (
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// subnet is a network that this host is directly on.
type subnet struct {
	prefix netip.Prefix
	nic    string
}

// subnetOf returns the smallest network of this host that contains an address; its
// prefix is invalid where there is none. A single address (/32, /128) says nothing
// about its network. A route on the link does, such as the one that an IPv6 host
// gets from the router's advertisements (B12). Prefixes are compared as they are,
// never widened, so that neighbouring networks that look alike stay apart (B11).
func subnetOf(v state.NetworkView, addr netip.Addr) subnet {
	var best subnet
	consider := func(p netip.Prefix, nic string) {
		if p.IsValid() && !p.IsSingleIP() && p.Bits() > 0 && p.Contains(addr) && (!best.prefix.IsValid() || p.Bits() > best.prefix.Bits()) {
			best = subnet{p.Masked(), nic}
		}
	}
	vips := v.Settings.VIPs()
	for _, a := range v.Addresses {
		if !slices.Contains(vips, a.Prefix.Addr()) {
			consider(a.Prefix, a.Interface)
		}
	}
	for _, r := range v.Routes {
		if !r.Gateway.IsValid() {
			consider(r.Destination, r.Interface)
		}
	}
	return best
}

// addressFor returns the address by which a node takes part in holding a VIP: its
// first known address on the VIP's own subnet, internal addresses before all
// others, else the first of the VIP's family (B10). Every host computes it in the
// same way for itself and for all others, so one host lists as a peer the address
// that the other sends from (B6, H9).
func addressFor(n state.Node, vip netip.Addr, net subnet, vips []netip.Addr) (netip.Addr, bool) {
	var first netip.Addr
	for _, a := range known(n) {
		if a.Is4() != vip.Is4() || slices.Contains(vips, a) || a.IsLinkLocalUnicast() {
			continue
		}
		if net.prefix.IsValid() && net.prefix.Contains(a) {
			return a, true
		}
		if !first.IsValid() {
			first = a
		}
	}
	return first, first.IsValid()
}

// bothOf returns the address by which a node takes part in holding a VIP, and those of the VIP's
// family that it has at the other place of a move.
func bothOf(n state.Node, vip netip.Addr, net subnet, vips []netip.Addr) []netip.Addr {
	var out []netip.Addr
	if a, ok := addressFor(n, vip, net, vips); ok {
		out = append(out, a)
	}
	for _, a := range n.Also {
		if a, ok := addressFor(state.Node{Addresses: []netip.Addr{a}}, vip, net, vips); ok {
			out = append(out, a)
		}
	}
	return out
}

// known returns the addresses of a node: its internal ones, then those that its
// agent reports (B9), and those of the other place of a site that moves within one
// network. So a host of a cluster of one family may hold a VIP of the other, and a
// host whose kubelet reports an address of one network may hold a VIP of another
// network that it is in.
func known(n state.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Addresses {
		out = append(out, a.Unmap())
	}
	for _, p := range reportOf(n).Addresses {
		out = append(out, p.Addr().Unmap())
	}
	for _, a := range n.Also {
		out = append(out, a.Unmap())
	}
	return out
}

// reportOf returns the report of a node's agent, an empty one where there is none.
func reportOf(n state.Node) state.VIPReport {
	return state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs]).Value
}

// interfaceOf returns the interface that has an own address. Before the kernel was
// asked, it returns the interface that the host was found to have.
func interfaceOf(v state.NetworkView, own netip.Addr) (string, bool) {
	for _, a := range v.Addresses {
		if a.Prefix.Addr() == own {
			return a.Interface, true
		}
	}
	return v.Host.Interface, len(v.Addresses) == 0 && v.Host.Interface != "" && slices.Contains(v.Host.Addresses, own)
}

// remote reports whether no network of this host contains a VIP: a worker
// elsewhere, behind a router, can hold none (B66). place decides the same for each
// VIP.
func remote(v state.NetworkView) bool {
	return len(v.Addresses) > 0 && !slices.ContainsFunc(v.Settings.VIPs(), func(vip netip.Addr) bool {
		return subnetOf(v, vip).prefix.IsValid()
	})
}
