package nodeaddress

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func address(nic string, index int, prefix string) Address {
	return Address{Interface: nic, Index: index, Prefix: netip.MustParsePrefix(prefix), Usable: true}
}

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func unusable(a Address) Address {
	a.Usable = false
	return a
}

func TestDecide(t *testing.T) {
	v4, v6 := prefixes("10.98.0.0/24"), prefixes("fd98::/64")
	dual := append(append([]netip.Prefix{}, v4...), v6...)
	vip := []netip.Addr{netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("fd98::5")}
	for _, c := range []struct {
		name     string
		have     []Address
		networks []netip.Prefix
		want     string
	}{
		{"the one address inside the network", []Address{address("eth0", 2, "10.98.0.11/24"), address("eth1", 3, "10.99.0.11/24")}, v4, "[10.98.0.11] eth0"},
		{"a VIP is never one's own", []Address{address("eth0", 2, "10.98.0.5/32"), address("eth0", 2, "10.98.0.11/24")}, v4, "[10.98.0.11] eth0"},
		{"one of each family in the site's order", []Address{address("eth0", 2, "fd98::11/64"), address("eth0", 2, "10.98.0.11/24")}, dual, "[10.98.0.11 fd98::11] eth0"},
		{"IPv6 first where the site says so", []Address{address("eth0", 2, "fd98::11/64"), address("eth0", 2, "10.98.0.11/24")}, append(append([]netip.Prefix{}, v6...), v4...), "[fd98::11 10.98.0.11] eth0"},
		{"the interface with the lower number wins", []Address{address("eth1", 3, "10.98.0.2/24"), address("eth0", 2, "10.98.0.11/24")}, v4, "[10.98.0.11] eth0"},
		{"the lower address wins on one interface", []Address{address("eth0", 2, "10.98.0.12/24"), address("eth0", 2, "10.98.0.11/24")}, v4, "[10.98.0.11] eth0"},
		{"a tentative or deprecated address waits", []Address{unusable(address("eth0", 2, "fd98::11/64")), address("eth0", 2, "fd98::12/64")}, v6, "[fd98::12] eth0"},
		{"a /128 from DHCPv6 counts", []Address{address("eth0", 2, "fd98::77/128")}, v6, "[fd98::77] eth0"},
		{
			"a missing family is named",
			[]Address{address("eth0", 2, "10.98.0.11/24")},
			dual,
			"no usable IPv6 address inside the machine networks 10.98.0.0/24, fd98::/64; this host has 10.98.0.11/24 on eth0",
		},
		{"nothing at all", nil, v4, "no usable IPv4 address inside the machine networks 10.98.0.0/24; this host has no address at all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			choice, err := Decide(Input{Addresses: c.have, Networks: c.networks, VIPs: vip})
			got := fmt.Sprint(choice.Addresses, " ", choice.Interface)
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestTheKernelsOrderDoesNotMatter(t *testing.T) {
	have := []Address{
		address("eth0", 2, "10.98.0.11/24"), address("eth0", 2, "10.98.0.12/24"), address("br0", 5, "10.98.0.3/24"),
		address("eth0", 2, "fd98::1:11/64"), address("eth0", 2, "fd98::2:11/64"),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		random.Shuffle(len(have), func(i, j int) { have[i], have[j] = have[j], have[i] })
		choice, err := Decide(Input{Addresses: have, Networks: prefixes("10.98.0.0/24", "fd98::/64")})
		if got := fmt.Sprint(choice.Addresses); err != nil || got != "[10.98.0.11 fd98::1:11]" {
			t.Fatalf("%s %v", got, err)
		}
	}
}

func TestTheErrorSaysWhichAddressIsNotUsable(t *testing.T) {
	_, err := Decide(Input{Addresses: []Address{unusable(address("eth0", 2, "10.98.0.11/24"))}, Networks: prefixes("10.98.0.0/24")})
	if err == nil || !strings.Contains(err.Error(), "not usable yet") {
		t.Errorf("got %v", err)
	}
}

func TestHardCase33_AHostIsNotWithoutAnAddressWhenItsSiteGetsAnotherFamily(t *testing.T) {
	in := Input{
		Addresses: []Address{address("eth0", 2, "10.98.0.11/24")}, Networks: prefixes("10.98.0.0/24", "fd98::/64"),
		Previous: Choice{Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}, Interface: "eth0"},
	}
	if got, err := Decide(in); err != nil || fmt.Sprint(got.Addresses) != "[10.98.0.11]" {
		t.Errorf("before it has one of the new family: %v, %v", got, err)
	}
	in.Addresses = append(in.Addresses, address("eth0", 2, "fd98::11/64"))
	if got, err := Decide(in); err != nil || fmt.Sprint(got.Addresses) != "[10.98.0.11 fd98::11]" {
		t.Errorf("once it has: %v, %v", got, err)
	}
	in.Addresses, in.Previous.Addresses = in.Addresses[:1], append(in.Previous.Addresses, netip.MustParseAddr("fd98::11"))
	if got, err := Decide(in); err == nil {
		t.Errorf("a host that had both waits for both, got %v", got)
	}
}
