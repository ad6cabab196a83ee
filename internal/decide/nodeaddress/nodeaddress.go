// Package nodeaddress decides which of a host's addresses are its own in the
// cluster.
package nodeaddress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/netaddr"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Address is one address that the host has.
type Address = state.HostAddress

// Input holds the facts that Decide chooses from.
type Input struct {
	Addresses []Address
	Routes    []state.HostRoute
	// Networks are the networks of the site's machines. A host must have an address
	// of each of their families; if there are none, any will do.
	Networks []netip.Prefix
	// VIPs are the site's virtual IPs, those of the API first.
	VIPs []netip.Addr
	// ManagedVIPs is true if hosts hold the VIPs. A host that is not on their link
	// is then a remote worker.
	ManagedVIPs bool
	// Hint is an address in the network that a person wants to be chosen.
	Hint netip.Addr
	// Previous is the last choice, also of an earlier boot.
	Previous Choice
}

// Choice holds a host's own addresses.
type Choice struct {
	// Addresses holds one of each wanted family, in the site's order.
	Addresses []netip.Addr `json:"addresses"`
	// Interface carries the first of them.
	Interface string `json:"interface"`
	// Remote is true for a worker outside the networks of the VIPs, which can hold
	// none.
	Remote bool `json:"remote,omitempty"`
	// Reason says why the first address was chosen.
	Reason string `json:"reason,omitempty"`
}

// Of makes the input from a view of the network. The host's addresses in the
// view are the previous choice.
func Of(v state.NetworkView) Input {
	return Input{
		Addresses: v.Addresses, Routes: v.Routes, Networks: v.Settings.MachineNetworks, VIPs: v.Settings.VIPs(),
		ManagedVIPs: v.Settings.ManagedVIPs, Previous: Choice{Addresses: v.Host.Addresses, Interface: v.Host.Interface},
	}
}

// Same reports whether two choices are the same; their reasons may differ.
func (c Choice) Same(o Choice) bool {
	return slices.Equal(c.Addresses, o.Addresses) && c.Interface == o.Interface && c.Remote == o.Remote
}

// without reports whether a host had addresses chosen before, but none of a
// family. A network of that family was added to the site later. Until the host
// has an address in it, the missing one does not cost it its name server and
// VIPs.
func (c Choice) without(is6 bool) bool {
	return len(c.Addresses) > 0 && !slices.ContainsFunc(c.Addresses, func(a netip.Addr) bool { return a.Is6() == is6 })
}

// Decide picks the host's own addresses. An earlier choice stays while the host
// has the address, on whichever interface. Otherwise the first address is the
// one whose network holds the hint, then the one whose network holds a VIP, then
// the best inside the machine networks; the address of the other family is on
// the same link if there is one. The order in which the kernel lists things
// never matters. The error names the family that has no address yet, and the
// addresses that the host has.
func Decide(in Input) (Choice, error) {
	p := newPicker(in)
	anchor, reason, found := p.anchor()
	if !found {
		return Choice{}, p.missing(p.primary())
	}
	choice := Choice{Interface: anchor.Interface, Reason: reason, Remote: p.remote()}
	for _, want6 := range p.families(anchor) {
		a, found := p.of(want6, anchor)
		switch {
		case found:
			choice.Addresses = append(choice.Addresses, a.Prefix.Addr())
		case len(in.Networks) > 0 && !in.Previous.without(want6):
			return Choice{}, p.missing(want6)
		}
	}
	return choice, nil
}

// picker is an input with its candidates.
type picker struct {
	Input
	// candidates holds the addresses that may be chosen, best first.
	candidates []Address
}

func newPicker(in Input) *picker {
	p := &picker{Input: in}
	for _, a := range in.Addresses {
		if p.eligible(a) {
			p.candidates = append(p.candidates, a)
		}
	}
	slices.SortFunc(p.candidates, p.better)
	return p
}

// ovnMasquerade is a network that OVN-Kubernetes gives to every host alike.
var ovnMasquerade = netip.MustParsePrefix("fd69::/112")

// eligible reports whether an address may be a host's own at all. It may not if
// others cannot use it, no more or not yet, or if it moves from host to host.
func (p *picker) eligible(a Address) bool {
	addr := a.Prefix.Addr()
	switch {
	case !a.Usable, !a.Prefix.IsValid(), !addr.IsGlobalUnicast(), ovnMasquerade.Contains(addr), moves(a.Label):
		return false
	}
	return !slices.Contains(p.VIPs, addr)
}

// moves reports whether a label is that of an egress IP or of a VIP.
func moves(label string) bool {
	_, name, found := strings.Cut(label, ":")
	if !found {
		name = label
	}
	return name == "eip" || name == "vip"
}

// inside reports whether an address is in the machine networks.
func (p *picker) inside(a Address) bool {
	return len(p.Networks) == 0 || slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Contains(a.Prefix.Addr()) })
}

// anchor returns the first address and the reason for it.
func (p *picker) anchor() (Address, string, bool) {
	if a, found := p.kept(p.primary()); found {
		return a, "it was chosen before", true
	}
	if a, found := p.beside(p.Hint); found {
		return a, "it is in the network of " + p.Hint.String() + ", as requested", true
	}
	for _, vip := range p.VIPs {
		if a, found := p.beside(vip); found && (len(p.Networks) == 0 || a.Prefix.Addr().Is6() == p.primary()) {
			return a, "it is in the network of the virtual IP " + vip.String(), true
		}
	}
	for _, a := range p.candidates {
		if p.inside(a) && (len(p.Networks) == 0 || a.Prefix.Addr().Is6() == p.primary()) {
			return a, "it is the best of the machine networks", true
		}
	}
	return Address{}, "", false
}

// primary reports whether the first address is of IPv6. Without machine networks
// the family is that of the previous choice, and without one any family will do.
func (p *picker) primary() bool {
	switch {
	case len(p.Networks) > 0:
		return p.Networks[0].Addr().Is6()
	case len(p.Previous.Addresses) > 0:
		return p.Previous.Addresses[0].Is6()
	}
	return false
}

// families lists the wanted families, the first one first; true stands for IPv6.
func (p *picker) families(anchor Address) []bool {
	if len(p.Networks) > 0 {
		return families(p.Networks)
	}
	is6 := anchor.Prefix.Addr().Is6()
	return []bool{is6, !is6}
}

// of picks the address of a family: the anchor, the previous choice, or the best
// on the anchor's link, else the best inside the machine networks on any link.
func (p *picker) of(want6 bool, anchor Address) (Address, bool) {
	if anchor.Prefix.Addr().Is6() == want6 {
		return anchor, true
	}
	if a, found := p.kept(want6); found {
		return a, true
	}
	family := func(a Address) bool { return a.Prefix.Addr().Is6() == want6 }
	if i := slices.IndexFunc(p.candidates, func(a Address) bool { return family(a) && a.Index == anchor.Index && p.inside(a) }); i >= 0 {
		return p.candidates[i], true
	}
	i := slices.IndexFunc(p.candidates, func(a Address) bool { return family(a) && p.inside(a) })
	if i < 0 || len(p.Networks) == 0 {
		return Address{}, false
	}
	return p.candidates[i], true
}

// kept returns the previous address of a family, if the host still has it. A
// host that counted as a remote worker because its link to the VIPs was not up
// yet chooses anew.
func (p *picker) kept(want6 bool) (Address, bool) {
	if p.Previous.Remote && !p.remote() {
		return Address{}, false
	}
	for _, a := range p.candidates {
		addr := a.Prefix.Addr()
		if addr.Is6() == want6 && slices.Contains(p.Previous.Addresses, addr) && (p.inside(a) || p.besideVIP(a)) {
			return a, true
		}
	}
	return Address{}, false
}

// remote reports whether hosts hold the VIPs, and no address of this host is in
// the network of one.
func (p *picker) remote() bool {
	return p.ManagedVIPs && len(p.VIPs) > 0 && !slices.ContainsFunc(p.candidates, p.besideVIP)
}

func (p *picker) besideVIP(a Address) bool {
	return slices.ContainsFunc(p.VIPs, func(vip netip.Addr) bool { return p.covers(a, vip) })
}

// families lists the families of the networks in their order; true stands for
// IPv6.
func families(networks []netip.Prefix) []bool {
	var out []bool
	for _, n := range networks {
		if is6 := n.Addr().Is6(); !slices.Contains(out, is6) {
			out = append(out, is6)
		}
	}
	return out
}

func (p *picker) missing(is6 bool) error {
	if len(p.Networks) == 0 {
		return fmt.Errorf("no usable address; this host has %s", describe(p.Addresses))
	}
	return fmt.Errorf("no usable %s address inside the machine networks %s; this host has %s",
		familyOf(is6), netaddr.Join(p.Networks), describe(p.Addresses))
}

func familyOf(is6 bool) netaddr.Family {
	if is6 {
		return netaddr.IPv6
	}
	return netaddr.IPv4
}

func describe(have []Address) string {
	if len(have) == 0 {
		return "no address at all"
	}
	var words []string
	for _, a := range have {
		word := a.Prefix.String() + " on " + a.Interface
		if !a.Usable {
			word += " (not usable yet)"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
