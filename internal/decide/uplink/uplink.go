// Package uplink decides which interfaces of a host lead out of it, and what the
// kernel has to be told about them: a host that forwards packets, as one with
// pods does, is taken for a router by its kernel, and one with two NICs in one
// network answers for either address on both.
package uplink

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Link is an interface as the kernel has it.
type Link struct {
	Name string
	// Physical is true for one with a device behind it.
	Physical bool
	// Kind is what else it is: bond, vlan, bridge and so on; empty for nothing.
	Kind string
	// Lower are the interfaces that it is made of, by name.
	Lower []string
	// Member is true for a port of a bond or a bridge, whose addresses and routes
	// are that one's.
	Member bool
	// AcceptRA is whether the kernel takes router advertisements: 0 for never, 1
	// unless this host forwards, 2 in any case. It is unknown where there is no
	// IPv6.
	AcceptRA state.Fact[int]
}

// Settings are those that hold for all interfaces.
type Settings struct {
	// ARPIgnore is 0 where ARP is answered for any address of the host, and 1 where
	// it is for those of the interface alone; 2 and more is stricter.
	ARPIgnore state.Fact[int]
	// ARPAnnounce is 2 where a question comes from the address that fits it best,
	// and less where it may come from that of another interface.
	ARPAnnounce state.Fact[int]
}

// Loose reports whether an interface may answer for an address of another, or
// ask in its name.
func (s Settings) Loose() bool {
	return s.ARPIgnore.Known && s.ARPIgnore.Value < ARPIgnore || s.ARPAnnounce.Known && s.ARPAnnounce.Value < ARPAnnounce
}

// The values that are wanted at least.
const (
	ARPIgnore   = 1
	ARPAnnounce = 2
)

// The values of AcceptRA.
const (
	unlessForwarding = 1
	Always           = 2
)

// kinds are what an uplink may be made of NICs by. What networks of pods are made
// of is not among them, but for bridges, which count by what is in them.
var kinds = []string{"bond", "team", "vlan", "bridge", "macvlan"}

// deepest bounds how far interfaces are followed: a bridge on a VLAN on a bond.
const deepest = 4

// Uplinks are the interfaces that lead out of the host, by name: NICs, what is
// made of NICs, and those that have an address of the host's own.
func Uplinks(links []Link, own []string) []string {
	var out []string
	for _, l := range links {
		if l.Name != "lo" && !l.Member && (slices.Contains(own, l.Name) || leadsOut(l, links, 0)) {
			out = append(out, l.Name)
		}
	}
	slices.Sort(out)
	return out
}

func leadsOut(l Link, links []Link, deep int) bool {
	if l.Physical {
		return true
	}
	return deep < deepest && slices.Contains(kinds, l.Kind) && slices.ContainsFunc(links, func(lower Link) bool {
		return slices.Contains(l.Lower, lower.Name) && leadsOut(lower, links, deep+1)
	})
}

// Deaf are the uplinks on which the kernel takes router advertisements as long as
// this host does not forward, by name. It forwards: without being told it would
// take them no more, and lose its addresses and routes of IPv6 when those that
// it has end. Where something else takes them, as NetworkManager and
// systemd-networkd do, it has told the kernel not to, and that stays.
func Deaf(links []Link, own []string) []string {
	uplinks := Uplinks(links, own)
	var out []string
	for _, l := range links {
		if state.Is(l.AcceptRA, unlessForwarding) && slices.Contains(uplinks, l.Name) {
			out = append(out, l.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Own are the interfaces with an address of the host's own, in the networks of
// the site's machines where it names some.
func Own(v state.NetworkView) []string {
	var out []string
	for _, a := range v.Addresses {
		addr := a.Prefix.Addr()
		inside := slices.Contains(v.Host.Addresses, addr)
		for _, n := range v.Settings.MachineNetworks {
			inside = inside || n.Contains(addr)
		}
		if inside && !slices.Contains(out, a.Interface) {
			out = append(out, a.Interface)
		}
	}
	return out
}
