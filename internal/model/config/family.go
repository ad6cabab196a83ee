package config

import (
	"net/netip"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// Families returns the address families of the cluster in their order: those
// of the machine networks, the primary one first.
func (c *InstallConfig) Families() []netaddr.Family { return netaddr.Families(c.MachineNetworks()) }

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
