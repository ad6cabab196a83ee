package config

import (
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/vips"
)

// Family is an address family.
type Family = vips.Family

// The address families.
const (
	IPv4 = vips.IPv4
	IPv6 = vips.IPv6
)

// Families returns the address families of the cluster in their order: those
// of the machine networks, the primary one first.
func (c *InstallConfig) Families() []Family {
	var out []Family
	for _, p := range c.MachineNetworks() {
		out = appendFamily(out, familyOf(p.Addr()))
	}
	return out
}

// MachineNetworks returns the parsed networks of the hosts.
func (c *InstallConfig) MachineNetworks() []netip.Prefix {
	var out []netip.Prefix
	for _, entry := range c.Networking.MachineNetwork {
		if p, err := netip.ParsePrefix(entry.CIDR); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func familyOf(a netip.Addr) Family { return vips.FamilyOf(a) }

func familiesOf(list []network) []Family {
	var out []Family
	for _, n := range list {
		out = appendFamily(out, familyOf(n.prefix.Addr()))
	}
	return out
}

func appendFamily(list []Family, f Family) []Family {
	if slices.Contains(list, f) {
		return list
	}
	return append(list, f)
}
