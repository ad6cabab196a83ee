package config

import "testing"

func TestSharesOfThePodNetworkBoundTheHostsForGood(t *testing.T) {
	v4 := func(cidr string, prefix int32) ClusterNetworkEntry {
		return ClusterNetworkEntry{CIDR: cidr, HostPrefix: prefix}
	}
	const warning = "networking.clusterNetwork: has room for "
	for _, x := range []struct {
		name    string
		kind    string
		nets    []ClusterNetworkEntry
		shares  int
		warning string
	}{
		{"the default", NetworkTypeFlannel, []ClusterNetworkEntry{v4("10.128.0.0/14", 23)}, 512, ""},
		{"one share", NetworkTypeFlannel, []ClusterNetworkEntry{v4("10.128.0.0/23", 23)}, 1, warning + "1 host with"},
		{"half of what is wise", NetworkTypeFlannel, []ClusterNetworkEntry{v4("10.128.0.0/22", 23)}, 2, warning + "2 hosts with"},
		{"four for one host", NetworkTypeFlannel, []ClusterNetworkEntry{v4("10.128.0.0/21", 23)}, 4, ""},
		{"the smaller family counts", NetworkTypeFlannel, []ClusterNetworkEntry{v4("10.128.0.0/14", 23), v4("fd01::/63", 64)}, 2, warning + "2 hosts with"},
		{"another pod network", NetworkTypeNone, []ClusterNetworkEntry{v4("10.128.0.0/23", 23)}, 0, ""},
		{"nothing that can be read", NetworkTypeFlannel, []ClusterNetworkEntry{v4("x", 23), v4("10.0.0.0/24", 1)}, 0, ""},
	} {
		c := mustParse(t, validConfigs(t)["one"])
		c.Networking.NetworkType, c.Networking.ClusterNetwork = x.kind, x.nets
		if got := c.PodShares(); got != x.shares {
			t.Errorf("%s: %d shares, want %d", x.name, got, x.shares)
		}
		got := Warnings(c)
		switch {
		case x.warning == "" && len(got) > 0:
			t.Errorf("%s: %q", x.name, got)
		case x.warning != "" && (len(got) != 1 || len(got[0]) < len(x.warning) || got[0][:len(x.warning)] != x.warning):
			t.Errorf("%s: %q, want %q", x.name, got, x.warning)
		}
	}
}
