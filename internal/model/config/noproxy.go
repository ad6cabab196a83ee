package config

import (
	"slices"
	"strings"
)

// NoProxy returns the destinations that are reached without the site's proxy,
// sorted and joined by commas: those that never leave the site, with the
// cluster's own names, and the person's additions. A * means everything, and
// stands alone.
func (c *InstallConfig) NoProxy() string {
	domain := c.ClusterDomain()
	list := []string{"localhost", "127.0.0.1", "::1", ".svc", "." + ServiceDomain, "api." + domain, "api-int." + domain, ".apps." + domain}
	if c.Proxy != nil {
		for entry := range strings.SplitSeq(c.Proxy.NoProxy, ",") {
			entry = strings.TrimSpace(entry)
			if entry == "*" {
				return "*"
			}
			if entry != "" {
				list = append(list, entry)
			}
		}
	}
	for _, n := range c.Networking.MachineNetwork {
		list = append(list, n.CIDR)
	}
	for _, n := range c.Networking.ClusterNetwork {
		list = append(list, n.CIDR)
	}
	list = append(list, c.Networking.ServiceNetwork...)
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}
