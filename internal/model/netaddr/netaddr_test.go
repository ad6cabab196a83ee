package netaddr

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAnAddressOfAHostLiesWhereHostsMay(t *testing.T) {
	nets := Networks{
		Machine: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd98::/64")},
		Cluster: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")}, Service: []netip.Prefix{netip.MustParsePrefix("172.30.0.0/16")},
		Complete: true,
	}
	for text, want := range map[string]string{
		"10.98.0.5": "", "fd98::5": "",
		"cp-1": "must be an IP address", "fe80::1%eth0": "must not have a zone", "::ffff:10.98.0.5": "write it as 10.98.0.5",
		"127.0.0.1": "a loopback address", "169.254.0.1": "a link-local address", "255.255.255.255": "the broadcast address",
		"10.129.0.1": "lies in the pod network 10.128.0.0/14", "172.30.0.1": "lies in the service network 172.30.0.0/16",
		"10.99.0.1": "lies in no machine network (10.98.0.0/24, fd98::/64)",
		"10.98.0.0": "is the network address of 10.98.0.0/24", "10.98.0.255": "is the broadcast address", "fd98::": "is the subnet-router address",
	} {
		if _, got := nets.Host(text); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	nets.Complete = false
	if _, got := nets.Host("10.99.0.1"); got != "" {
		t.Errorf("machine networks that were not read whole refuse an address: %s", got)
	}
}

func TestANetworkOfAClusterIsNotASpecialOne(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/16": "", "fd00:1::/64": "",
		"10.0.0.0": "in CIDR form", "10.0.0.1/16": "the network is 10.0.0.0/16", "::ffff:10.0.0.0/112": "write it as IPv4",
		"127.1.0.0/16": "the loopback addresses", "fe80::/64": "the link-local addresses", "0.0.0.0/0": "overlaps",
	} {
		if _, got := ParseNetwork(text); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestNamesAreThoseOfDNS(t *testing.T) {
	long := strings.Repeat("a", MaxLabel)
	for name, want := range map[string]bool{
		"cp-1": true, "a.b-c.1": true, long: true, strings.Join([]string{long, long, long, long[:61]}, "."): true,
		"": false, "a..b": false, "-a": false, "a-": false, "A": false, "a_b": false, long + "a": false,
		strings.Join([]string{long, long, long, long[:62]}, "."): false,
	} {
		if IsName(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}

func TestFamiliesStandInTheirOrderAndOnce(t *testing.T) {
	got := Families([]netip.Prefix{netip.MustParsePrefix("fd98::/64"), netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd99::/64")})
	if len(got) != 2 || got[0] != IPv6 || got[1] != IPv4 || FamilyOf(netip.MustParseAddr("::ffff:10.0.0.1")) != IPv4 {
		t.Errorf("got %v", got)
	}
}
