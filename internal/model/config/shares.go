package config

import "net/netip"

// PodShares returns how many hosts can get their part of the pod network, the smallest number
// of all families; 0 if it is not known, because another pod network than Flannel may share it
// out by rules of its own. The network of a living site cannot be changed, so this bounds its
// hosts for good.
func (c *InstallConfig) PodShares() int {
	if c.Networking.NetworkType != NetworkTypeFlannel {
		return 0
	}
	least := 0
	for _, entry := range c.Networking.ClusterNetwork {
		p, err := netip.ParsePrefix(entry.CIDR)
		bits := int(entry.HostPrefix) - p.Bits()
		if err != nil || bits < 0 || bits > maxShareBits {
			continue // no valid configuration has it
		}
		if shares := 1 << bits; least == 0 || shares < least {
			least = shares
		}
	}
	return least
}

// amplyShared is the number of shares for each host of the first day below which a warning says
// that the number is for good: hosts are added, and the place of a lost one is taken by
// another name before its own is free.
const amplyShared = 4
