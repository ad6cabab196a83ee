package nodeaddress

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/order"
	"github.com/holdfast/holdfast/internal/model/state"
)

// beside returns the best address whose network holds target. If networks
// overlap, it takes the one through which the kernel reaches the target.
func (p *picker) beside(target netip.Addr) (Address, bool) {
	if !target.IsValid() {
		return Address{}, false
	}
	found := slices.DeleteFunc(slices.Clone(p.candidates), func(a Address) bool { return !p.covers(a, target) })
	if len(found) == 0 {
		return Address{}, false
	}
	if link, known := p.linkTo(target); known {
		if i := slices.IndexFunc(found, func(a Address) bool { return a.Index == link }); i >= 0 {
			return found[i], true
		}
	}
	narrow := slices.MaxFunc(found, func(a, b Address) int { return cmp.Compare(p.width(a, target), p.width(b, target)) })
	return found[slices.IndexFunc(found, func(a Address) bool { return p.width(a, target) == p.width(narrow, target) })], true
}

// covers reports whether an address's network holds target.
func (p *picker) covers(a Address, target netip.Addr) bool { return p.width(a, target) > 0 }

// width returns the prefix length of the network that holds both an address and
// target, 0 if none does. An address without a network of its own, as DHCPv6
// gives it, counts as part of the network that the router advertises on that
// link.
func (p *picker) width(a Address, target netip.Addr) int {
	if !a.Prefix.IsSingleIP() {
		if a.Prefix.Contains(target) {
			return a.Prefix.Bits()
		}
		return 0
	}
	bits := 0
	for _, r := range p.Routes {
		if onLink(r) && r.Index == a.Index && r.Destination.Contains(a.Prefix.Addr()) && r.Destination.Contains(target) {
			bits = max(bits, r.Destination.Bits())
		}
	}
	return bits
}

// linkTo returns the link through which the kernel reaches a neighbour.
func (p *picker) linkTo(target netip.Addr) (int, bool) {
	var best *state.HostRoute
	for i, r := range p.Routes {
		if !onLink(r) || !r.Destination.Contains(target) {
			continue
		}
		if best == nil || nearer(r, *best) < 0 {
			best = &p.Routes[i]
		}
	}
	if best == nil {
		return 0, false
	}
	return best.Index, true
}

// nearer orders routes as the kernel prefers them, and equal ones by their link,
// since the order in which the kernel lists them does not matter.
func nearer(a, b state.HostRoute) int {
	return cmp.Or(
		cmp.Compare(b.Destination.Bits(), a.Destination.Bits()),
		cmp.Compare(a.Metric, b.Metric),
		cmp.Compare(a.Index, b.Index),
	)
}

// onLink reports whether a route leads to the neighbours in a network.
func onLink(r state.HostRoute) bool {
	return !r.Gateway.IsValid() && r.Destination.IsValid() && r.Destination.Bits() > 0 && !r.Destination.IsSingleIP()
}

// better orders addresses, the best first: by the default route of their link,
// then by the link's number; on one link, IPv4 first, then an address that has
// the gateway as its neighbour, one with a network of its own, a public one, and
// the lowest.
func (p *picker) better(a, b Address) int {
	return cmp.Or(
		cmp.Compare(p.metric(a), p.metric(b)),
		cmp.Compare(a.Index, b.Index),
		order.First(a.Prefix.Addr().Is4(), b.Prefix.Addr().Is4()),
		order.First(!a.Prefix.Addr().Is4In6(), !b.Prefix.Addr().Is4In6()),
		order.First(p.gatewayBeside(a), p.gatewayBeside(b)),
		order.First(!a.Prefix.IsSingleIP(), !b.Prefix.IsSingleIP()),
		order.First(!a.Prefix.Addr().IsPrivate(), !b.Prefix.Addr().IsPrivate()),
		a.Prefix.Addr().Compare(b.Prefix.Addr()),
	)
}

// noDefault is the metric of a link without a default route.
const noDefault = 1 << 40

// metric returns the metric of the best default route of an address's family on
// its link.
func (p *picker) metric(a Address) int {
	best := noDefault
	for _, r := range p.defaults(a) {
		best = min(best, r.Metric)
	}
	return best
}

func (p *picker) gatewayBeside(a Address) bool {
	return slices.ContainsFunc(p.defaults(a), func(r state.HostRoute) bool { return a.Prefix.Contains(r.Gateway) })
}

// defaults returns the default routes of an address's family on its link.
func (p *picker) defaults(a Address) []state.HostRoute {
	var out []state.HostRoute
	for _, r := range p.Routes {
		if r.Index == a.Index && r.Destination.IsValid() && r.Destination.Bits() == 0 && r.Destination.Addr().Is6() == a.Prefix.Addr().Is6() {
			out = append(out, r)
		}
	}
	return out
}
