package dualstack

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/model/netaddr"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Fits returns the addresses that a host has with both families, or what it lacks. in is what the
// host's address is decided from today. The first address must stay what it is. The pod
// network's daemon finds the way to the other hosts by default routes, and wants those of both
// families at one interface.
func Fits(p Plan, in nodeaddress.Input) (own []netip.Addr, lacks string) {
	machines, err := netip.ParsePrefix(p.Machines)
	if err != nil {
		return nil, "the plan names no network of hosts"
	}
	if !slices.Contains(in.Networks, machines) {
		in.Networks = append(slices.Clone(in.Networks), machines)
	}
	choice, err := nodeaddress.Decide(in)
	if err != nil {
		return nil, err.Error()
	}
	first := in.Previous.Addresses
	switch {
	case len(choice.Addresses) != 2:
		return nil, fmt.Sprintf("it has no address in %s", p.Machines)
	case len(first) > 0 && choice.Addresses[0] != first[0]:
		return nil, fmt.Sprintf("its first address would become %s instead of %s", choice.Addresses[0], first[0])
	}
	var links []string
	for _, a := range choice.Addresses {
		link, is := defaultLink(in.Routes, netaddr.FamilyOf(a))
		if !is {
			return nil, fmt.Sprintf("it has no default route of %s, by which the pod network finds its interface", netaddr.FamilyOf(a))
		}
		links = append(links, link)
	}
	if links[0] != links[1] {
		return nil, fmt.Sprintf("its default routes are at different interfaces: %s", strings.Join(links, " and "))
	}
	return choice.Addresses, ""
}

// Shares returns the shares of the pod networks that the Node of a host has, one of each family: the
// pod network's daemon reads them at the boot, whatever the plan chose. A Node that was registered
// anew meanwhile has those that Kubernetes gave it.
func Shares(node []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range node {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	if len(out) != len(node) || len(out) != 2 || out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, fmt.Errorf("the Node of this host has the shares %v of the pod networks, and not one of each family: nothing is written", node)
	}
	return out, nil
}

// defaultLink returns the interface of the best default route of a family.
func defaultLink(routes []state.HostRoute, family netaddr.Family) (link string, is bool) {
	best := 0
	for _, r := range routes {
		if r.Destination.Bits() == 0 && netaddr.FamilyOf(r.Destination.Addr()) == family && r.Gateway.IsValid() && (!is || r.Metric < best) {
			link, best, is = r.Interface, r.Metric, true
		}
	}
	return link, is
}
