package netwatch

import (
	"net"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/internal/model/state"
)

// deepest bounds how many links are followed: for example a VLAN on a VLAN on a
// bond.
const deepest = 4

// hardware returns, by interface with an address, the hardware addresses from
// which its packets may come: its own, and those of a bond's members, since a
// bond that balances sends from each of them as from itself. It leaves out
// interfaces of pods, which have no address of the host and come and go.
func hardware(links []netlink.Link, addresses []state.HostAddress) map[string][]string {
	byIndex := map[int]netlink.Link{}
	for _, l := range links {
		byIndex[l.Attrs().Index] = l
	}
	out := map[string][]string{}
	for _, a := range addresses {
		l, there := byIndex[a.Index]
		if _, done := out[a.Interface]; done || !there {
			continue
		}
		if list := sources(l, links, byIndex, 0); len(list) > 0 {
			out[a.Interface] = list
		}
	}
	return out
}

func sources(l netlink.Link, links []netlink.Link, byIndex map[int]netlink.Link, deep int) []string {
	if deep == deepest {
		return nil
	}
	out := ethernet(l.Attrs().HardwareAddr)
	switch l.Type() {
	case "bond", "team":
		for _, m := range links {
			if m.Attrs().MasterIndex == l.Attrs().Index {
				out = slices.Concat(out, ethernet(m.Attrs().HardwareAddr), ethernet(m.Attrs().PermHWAddr))
			}
		}
	case "vlan", "macvlan": // the parent of others may be in another namespace
		if parent, there := byIndex[l.Attrs().ParentIndex]; there {
			out = append(out, sources(parent, links, byIndex, deep+1)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ethernet returns an address of Ethernet in its usual notation; it returns
// nothing for other addresses and for that of the loopback interface.
func ethernet(a net.HardwareAddr) []string {
	if len(a) != 6 || !slices.ContainsFunc(a, func(b byte) bool { return b != 0 }) {
		return nil
	}
	return []string{a.String()}
}
