// Package netaddr holds the rules for addresses, networks and names of hosts.
// The install-config, a change of virtual IPs and the address of a BMC share
// them.
package netaddr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Networks is an address plan, as far as it could be read.
type Networks struct {
	Machine, Cluster, Service []netip.Prefix
	// Complete is true if each list was read whole, so that a missing network may
	// be reported, too.
	Complete bool
}

// Family names an address family.
type Family string

// The address families.
const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Families lists the families of networks in their order.
func Families(list []netip.Prefix) []Family {
	var out []Family
	for _, p := range list {
		if f := FamilyOf(p.Addr()); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// Parse reads an address that a host can have; detail describes the mistake,
// empty for none.
func Parse(text string) (addr netip.Addr, detail string) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return addr, "must be an IP address"
	case addr.Zone() != "":
		return addr, "must not have a zone"
	case addr.Is4In6():
		return addr, "is an IPv4 address in IPv6 form: write it as " + addr.Unmap().String()
	}
	return addr, ""
}

// Unreachable says why no other host could reach an address, as the end of a
// sentence about it; empty if one could.
func Unreachable(a netip.Addr) string {
	if kind := reserved(a); kind != "" {
		return "is " + kind + ", which no host can hold"
	}
	return ""
}

func reserved(a netip.Addr) string {
	switch {
	case a.IsUnspecified():
		return "the unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast():
		return "a multicast address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the broadcast address"
	}
	return ""
}

// Host parses an address that a host of the cluster will hold and checks its
// place among the networks; detail is empty if nothing is wrong.
func (n Networks) Host(text string) (addr netip.Addr, detail string) {
	addr, detail = Parse(text)
	if detail != "" {
		return addr, detail
	}
	for _, ask := range []func(netip.Addr) string{Unreachable, n.InPods, n.InServices, n.OutsideMachines, n.AtEdge} {
		if detail = ask(addr); detail != "" {
			return addr, detail
		}
	}
	return addr, ""
}

// InPods describes the mistake if an address is inside of the pod network.
func (n Networks) InPods(a netip.Addr) string { return inside(a, n.Cluster, "pod network") }

// InServices describes the mistake if an address is inside of the service
// network.
func (n Networks) InServices(a netip.Addr) string { return inside(a, n.Service, "service network") }

func inside(a netip.Addr, list []netip.Prefix, what string) string {
	for _, p := range list {
		if p.Contains(a) {
			return fmt.Sprintf("lies in the %s %s", what, p)
		}
	}
	return ""
}

// OutsideMachines describes the mistake if an address is in no machine network.
func (n Networks) OutsideMachines(a netip.Addr) string {
	if !n.Complete || InAny(a, n.Machine) {
		return ""
	}
	return fmt.Sprintf("lies in no machine network (%s)", Join(n.Machine))
}

// InAny reports whether one of some networks holds an address.
func InAny(a netip.Addr, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// AtEdge describes the mistake if an address is the first one of a machine
// network or, with IPv4, the last. Networks of one or two addresses have no such
// edges (RFC 3021, RFC 6164).
func (n Networks) AtEdge(a netip.Addr) string {
	i := slices.IndexFunc(n.Machine, func(p netip.Prefix) bool { return p.Contains(a) })
	if i < 0 {
		return ""
	}
	p := n.Machine[i]
	switch free := p.Addr().BitLen() - p.Bits(); {
	case free <= 1:
		return ""
	case a == p.Addr() && a.Is6():
		return fmt.Sprintf("is the subnet-router address of %s", p)
	case a == p.Addr():
		return fmt.Sprintf("is the network address of %s", p)
	case a.Is4() && !p.Contains(a.Next()):
		return fmt.Sprintf("is the broadcast address of %s", p)
	}
	return ""
}

// ParseNetwork reads a CIDR that can be a network of a cluster; detail describes
// the mistake, empty for none.
func ParseNetwork(text string) (p netip.Prefix, detail string) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, "must be a network in CIDR form, for example 10.0.0.0/16 or fd00:1::/64"
	case p.Addr().Is4In6():
		return p, "is an IPv4 network in IPv6 form: write it as IPv4"
	case p != p.Masked():
		return p, fmt.Sprintf("has bits outside its mask; the network is %s", p.Masked())
	}
	for _, s := range specialNetworks {
		if s.prefix.Overlaps(p) {
			return p, fmt.Sprintf("overlaps %s, %s", s.prefix, s.what)
		}
	}
	return p, ""
}

// specialNetworks lists networks that can belong to no cluster.
var specialNetworks = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "which stands for this host"},
	{netip.MustParsePrefix("127.0.0.0/8"), "the loopback addresses"},
	{netip.MustParsePrefix("169.254.0.0/16"), "the link-local addresses"},
	{netip.MustParsePrefix("224.0.0.0/4"), "the multicast addresses"},
	{netip.MustParsePrefix("240.0.0.0/4"), "which is reserved"},
	{netip.MustParsePrefix("::/127"), "the loopback addresses"},
	{netip.MustParsePrefix("fe80::/10"), "the link-local addresses"},
	{netip.MustParsePrefix("ff00::/8"), "the multicast addresses"},
}

// Join lists values as text.
func Join[T interface{ String() string }](list []T) string {
	var words []string
	for _, v := range list {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}
