// Package uplink decides which interfaces lead out of a host, and which settings
// the kernel needs for them. The kernel treats a host that forwards packets, as
// each host with pods does, as a router, and a host with two NICs in one network
// answers for either address on both.
package uplink

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Link is an interface as the kernel has it.
type Link struct {
	Name string
	// Physical is true for an interface with a device behind it.
	Physical bool
	// Kind is the kind of a virtual interface: bond, vlan, bridge and so on; empty
	// for none.
	Kind string
	// Lower names the interfaces that it is made of.
	Lower []string
	// Member is true for a port of a bond or a bridge. The bond or the bridge has
	// the addresses and routes.
	Member bool
	// AcceptRA says when the kernel takes router advertisements: 0 for never, 1
	// unless this host forwards, 2 always. It is unknown without IPv6.
	AcceptRA state.Fact[int]
}

// Settings holds the settings for all interfaces.
type Settings struct {
	// ARPIgnore is 0 if the kernel answers ARP for any address of the host, and 1
	// if only for those of the interface; 2 and more is stricter.
	ARPIgnore state.Fact[int]
	// ARPAnnounce is 2 if a question comes from the address that fits best, and
	// less if it may come from that of another interface.
	ARPAnnounce state.Fact[int]
}

// Loose reports whether an interface may answer for another one's address, or
// ask with it.
func (s Settings) Loose() bool {
	return s.ARPIgnore.Known && s.ARPIgnore.Value < ARPIgnore || s.ARPAnnounce.Known && s.ARPAnnounce.Value < ARPAnnounce
}

// The least values that are wanted.
const (
	ARPIgnore   = 1
	ARPAnnounce = 2
)

// The values of AcceptRA.
const (
	unlessForwarding = 1
	Always           = 2
)

// kinds lists the ways in which an uplink may be made of NICs. It holds nothing
// that networks of pods are made of except bridges, which count by the
// interfaces in them.
var kinds = []string{"bond", "team", "vlan", "bridge", "macvlan"}

// deepest bounds how many levels are followed, such as a bridge on a VLAN on a
// bond.
const deepest = 4

// Uplinks returns the interfaces that lead out of the host, by name: NICs,
// interfaces made of NICs, and those in own, which have one of the host's own
// addresses.
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

// Deaf returns the uplinks on which the kernel takes router advertisements only
// while this host does not forward, by name. The host does forward, so without
// another setting the kernel would take them no more, and the host would lose
// its IPv6 addresses and routes when they expire. If NetworkManager or
// systemd-networkd takes them, it has turned the kernel's part off, and that
// stays.
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

// Own returns the interfaces with one of the host's own addresses, or with an
// address in the networks of the site's machines.
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
