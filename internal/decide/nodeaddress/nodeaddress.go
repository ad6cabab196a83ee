// Package nodeaddress decides which of a host's addresses are its own in the
// cluster.
package nodeaddress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Address is one address that the host has.
type Address struct {
	Interface string
	// Index is the kernel's number of the interface.
	Index  int
	Prefix netip.Prefix
	// Usable is false for an address that the kernel still checks (tentative),
	// has found taken, or is phasing out (deprecated).
	Usable bool
}

// Choice is a host's own addresses.
type Choice struct {
	// Addresses holds one of each wanted family, in the site's order.
	Addresses []netip.Addr
	// Interface carries the first of them.
	Interface string
}

// Choose picks one address of each family of the machine networks: usable,
// inside a machine network, no VIP. Of several the one on the interface with
// the lowest number wins, then the lowest address, so that the order in which
// the kernel lists them does not matter. The error says which family has no
// address yet and what was seen.
func Choose(have []Address, networks []netip.Prefix, vips []netip.Addr) (Choice, error) {
	candidates := slices.Clone(have)
	slices.SortFunc(candidates, func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), a.Prefix.Addr().Compare(b.Prefix.Addr()))
	})
	var choice Choice
	for _, want6 := range families(networks) {
		found := slices.IndexFunc(candidates, func(a Address) bool {
			return a.Prefix.Addr().Is6() == want6 && eligible(a, networks, vips)
		})
		if found < 0 {
			return Choice{}, fmt.Errorf("no usable %s address inside the machine networks %s; this host has %s",
				familyName(want6), join(networks), describe(have))
		}
		choice.Addresses = append(choice.Addresses, candidates[found].Prefix.Addr())
		choice.Interface = cmp.Or(choice.Interface, candidates[found].Interface)
	}
	return choice, nil
}

func eligible(a Address, networks []netip.Prefix, vips []netip.Addr) bool {
	addr := a.Prefix.Addr()
	inside := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
	return a.Usable && inside && !slices.Contains(vips, addr) && !addr.IsLinkLocalUnicast() && !addr.IsLoopback()
}

// families lists whether IPv6 is wanted, in the order of the networks.
func families(networks []netip.Prefix) []bool {
	var out []bool
	for _, n := range networks {
		if is6 := n.Addr().Is6(); !slices.Contains(out, is6) {
			out = append(out, is6)
		}
	}
	return out
}

func familyName(is6 bool) string {
	if is6 {
		return "IPv6"
	}
	return "IPv4"
}

func join(networks []netip.Prefix) string {
	var words []string
	for _, n := range networks {
		words = append(words, n.String())
	}
	return strings.Join(words, ", ")
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
