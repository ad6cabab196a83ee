package nodeaddress

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// linkRules are sentences about families, and about which link and which routes
// count.
var linkRules = []rule{
	{
		name: "the first family of the site comes first, though a VIP of the other one is on another link", networks: "10.0.0.0/8 fd98::/64", vips: "fd98::5",
		have: "eth0 2 10.97.0.11/24\neth1 3 fd98::11/64", want: "[10.97.0.11 fd98::11] eth0",
	},
	{
		name: "the first family of the site comes first, though the other one is on a better link", networks: dual,
		have: "eth0 2 fd98::1/64\neth1 3 10.98.0.11/24", want: "[10.98.0.11 fd98::1] eth1",
	},
	{
		name: "without machine networks a VIP of either family leads to its link", vips: "10.98.0.5 fd98::5",
		have: "eth0 2 fd97::11/64\neth1 3 fd98::11/64", want: "[fd98::11] eth1",
	},
	{
		name: "without machine networks an address of another family than the VIP's will do", vips: "10.98.0.5",
		have: "eth0 2 fd98::11/64", want: "[fd98::11] eth0",
	},
	{
		name: "without machine networks the family that was first stays first", previous: "fd98::11 10.98.0.11",
		have: "eth0 2 10.98.0.11/24\neth0 2 fd98::11/64", want: "[fd98::11 10.98.0.11] eth0",
	},
	{
		name: "without machine networks the other family comes from the link, wherever it stands in the order", previous: "fd98::11",
		have: "eth0 2 10.98.0.11/24\neth0 2 fd98::11/64", want: "[fd98::11 10.98.0.11] eth0",
	},
	{
		name: "without machine networks the other family comes from the same link alone",
		have: "eth0 2 10.98.0.11/24\neth1 3 fd98::1/64", want: "[10.98.0.11] eth0",
	},
	{
		name: "the address of the second family stays too", networks: dual, previous: "10.98.0.22 fd98::22",
		have: "eth0 2 10.98.0.22/24\neth0 2 fd98::11/64\neth0 2 fd98::22/64", want: "[10.98.0.22 fd98::22] eth0",
	},
	{
		name: "an address of the site's networks comes before one of the same link", networks: dual,
		have: "eth0 2 10.98.0.11/24\neth0 2 fd55::1/64\neth1 3 fd98::1/64", want: "[10.98.0.11 fd98::1] eth0",
	},
	{
		name: "an address outside of the site's networks does not stand for one inside", networks: dual,
		have: "eth0 2 10.98.0.11/24\neth0 2 fd55::1/64",
		want: "no usable IPv6 address inside the machine networks 10.98.0.0/24, fd98::/64; this host has 10.98.0.11/24 on eth0, fd55::1/64 on eth0",
	},
	{
		name: "what was chosen beside a VIP stays, also outside of the site's networks", networks: v4site, vips: "10.97.0.5", previous: "10.97.0.22",
		have: "eth0 2 10.97.0.11/24\neth0 2 10.97.0.22/24\neth1 3 10.98.0.11/24", want: "[10.97.0.22] eth0",
	},
	{
		name: "an address whose prefix length makes no sense is not chosen", networks: v4site,
		have: "eth0 2 10.98.0.3/99\neth0 2 10.98.0.11/24", want: "[10.98.0.11] eth0",
	},
	{
		name: "the link by which the kernel reaches the VIP comes before the narrower network", networks: "fd98::/64", vips: "fd98::f05",
		have: "eth0 2 fd98::11/64\neth1 3 fd98::f11/120", routes: "fd98::/64 eth0 2 256", want: "[fd98::11] eth0",
	},
	{
		name: "a narrower route comes before one with a better metric", networks: "fd98::/64", vips: "fd98::5",
		have: "eth0 2 fd98::11/64\neth1 3 fd98::12/64", routes: "fd98::/64 eth0 2 1\nfd98::/72 eth1 3 256", want: "[fd98::12] eth1",
	},
	{
		name: "of equal routes to the VIP that of the link with the lower number counts", networks: "fd98::/64", vips: "fd98::5",
		have: "eth0 2 fd98::11/64\neth1 3 fd98::12/64", routes: "fd98::/64 eth1 3 256\nfd98::/64 eth0 2 256", want: "[fd98::11] eth0",
	},
	{
		name: "a route by a gateway leads to no neighbour", networks: "fd98::/64", vips: "fd98::5",
		have: "eth0 2 fd98::11/64\neth1 3 fd98::12/64", routes: "fd98::/72 via fe80::1 eth0 2 100\nfd98::/64 eth1 3 256", want: "[fd98::12] eth1",
	},
	{
		name: "a route to another network says nothing about the VIP", networks: "fd98::/64", vips: "fd98::5",
		have: "eth0 2 fd98::11/64\neth1 3 fd98::12/64", routes: "fd97::/72 eth0 2 100\nfd98::/64 eth1 3 256", want: "[fd98::12] eth1",
	},
	{
		name: "a route to the VIP alone is of whoever held it", networks: v4site, vips: "10.98.0.5",
		have: "eth0 2 10.98.0.11/24\neth1 3 10.98.0.12/24", routes: "10.98.0.5/32 eth1 3 0\n10.98.0.0/24 eth0 2 100", want: "[10.98.0.11] eth0",
	},
	{
		name: "a default route without a gateway names no neighbour", networks: v4site, vips: "10.98.0.5",
		have: "eth0 2 10.98.0.11/25\neth1 3 10.98.0.12/24", routes: "default eth1 3 10", want: "[10.98.0.11] eth0",
	},
	{
		name: "a lone address is beside no VIP of another network on its link", networks: "fd98::/64 fd97::/64", vips: "fd97::5", change: managed,
		have: "eth1 3 fd98::77/128", routes: "fd98::/64 eth1 3 256", want: "[fd98::77] eth1 remote",
	},
	{
		name: "a lone address of another network is not beside the VIP of its link", networks: "fd99::/64 fd98::/64", vips: "fd98::5", change: managed,
		have: "eth1 3 fd99::77/128", routes: "fd98::/64 eth1 3 256", want: "[fd99::77] eth1 remote",
	},
	{
		name: "a lone address is in no network that a gateway leads to", networks: "fd98::/64", vips: "fd98::5", change: managed,
		have: "eth1 3 fd98::77/128", routes: "fd98::/64 via fe80::1 eth1 3 256", want: "[fd98::77] eth1 remote",
	},
	{
		name: "of a lone address the narrowest network of its link counts", networks: "fd98::/60", vips: "fd98::5",
		have:   "eth0 2 fd98::11/64\neth1 3 fd98::77/128",
		routes: "fd98::/72 eth1 3 256\nfd98::/60 eth1 3 256\nfd98::/120 eth2 4 256", want: "[fd98::77] eth1",
	},
	{
		name: "the best default route of a link counts", networks: "10.0.0.0/8",
		have:   "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24",
		routes: "default via 10.98.0.1 eth1 3 100\ndefault via 10.98.0.1 eth1 3 300\ndefault via 10.97.0.1 eth0 2 200", want: "[10.98.0.11] eth1",
	},
	{
		name: "the default route of the other family does not count", networks: "10.0.0.0/8",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24", routes: "default via fe80::1 eth1 3 100", want: "[10.97.0.11] eth0",
	},
	{
		name: "a route to a part of the world is no default route", networks: "10.0.0.0/8",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24", routes: "172.16.0.0/12 via 10.98.0.1 eth1 3 1", want: "[10.97.0.11] eth0",
	},
}

func TestAChoiceSaysWhy(t *testing.T) {
	for _, c := range []struct {
		rule rule
		want string
	}{
		{rule{have: "eth0 2 10.98.0.11/24", networks: v4site, vips: "10.98.0.5", previous: "10.98.0.11"}, "it was chosen before"},
		{rule{have: "eth0 2 10.98.0.11/24", networks: v4site, vips: "10.98.0.5"}, "it is in the network of the virtual IP 10.98.0.5"},
		{rule{have: "eth0 2 10.98.0.11/24", networks: v4site}, "it is the best of the machine networks"},
		{
			rule{have: "eth0 2 10.98.0.11/24", networks: v4site, change: func(in *Input) { in.Hint = netip.MustParseAddr("10.98.0.1") }},
			"it is in the network of 10.98.0.1, as requested",
		},
	} {
		choice, err := Decide(c.rule.input(t))
		if err != nil || choice.Reason != c.want {
			t.Errorf("got %q, want %q (%v)", choice.Reason, c.want, err)
		}
	}
}

func TestChoicesAreTheSameWhateverTheirReasons(t *testing.T) {
	choice := Choice{Addresses: addrs("10.98.0.11"), Interface: "eth0", Reason: "it was chosen before"}
	for name, c := range map[string]struct {
		change func(*Choice)
		same   bool
	}{
		"another reason":    {func(c *Choice) { c.Reason = "it is the best of the machine networks" }, true},
		"another address":   {func(c *Choice) { c.Addresses = addrs("10.98.0.12") }, false},
		"another interface": {func(c *Choice) { c.Interface = "br0" }, false},
		"remote now":        {func(c *Choice) { c.Remote = true }, false},
	} {
		other := choice
		c.change(&other)
		if choice.Same(other) != c.same {
			t.Errorf("%s: same is %t", name, !c.same)
		}
	}
}

func TestAllOfAViewThatTheChoiceDependsOnIsInItsInput(t *testing.T) {
	view := state.NetworkView{
		Settings:  state.NetworkSettings{MachineNetworks: prefixes(v4site), APIVIPs: addrs("10.98.0.5"), IngressVIPs: addrs("10.98.0.6"), ManagedVIPs: true},
		Addresses: []Address{hostOf(t, "eth0 2 10.98.0.11/24")},
		Routes:    []state.HostRoute{route(t, "10.98.0.0/24 eth0 2 100")},
		Host:      state.HostFacts{Addresses: addrs("10.98.0.11"), Interface: "eth0"},
	}
	want := Input{
		Addresses: view.Addresses, Routes: view.Routes, Networks: prefixes(v4site), VIPs: addrs("10.98.0.5 10.98.0.6"), ManagedVIPs: true,
		Previous: Choice{Addresses: addrs("10.98.0.11"), Interface: "eth0"},
	}
	if got := Of(view); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}
