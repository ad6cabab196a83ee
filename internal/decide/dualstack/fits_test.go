package dualstack

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostSaysWhatItLacksForTheSecondFamily(t *testing.T) {
	route := func(to, link string, metric int) state.HostRoute {
		p := netip.MustParsePrefix(to)
		return state.HostRoute{Destination: p, Gateway: p.Addr().Next(), Interface: link, Metric: metric}
	}
	address := func(text string, index int) nodeaddress.Address {
		return nodeaddress.Address{Interface: fmt.Sprint("eth", index), Index: index, Prefix: netip.MustParsePrefix(text), Usable: true}
	}
	four, six := address("10.98.0.11/24", 0), address("fd98::11/64", 0)
	routes := []state.HostRoute{route("0.0.0.0/0", "eth0", 100), route("::/0", "eth1", 200), route("::/0", "eth0", 100), route("fd00::/8", "eth1", 1)}
	for name, c := range map[string]struct {
		addresses []nodeaddress.Address
		routes    []state.HostRoute
		previous  string
		want      string // what it lacks
	}{
		"nothing lacks":            {[]nodeaddress.Address{four, six}, routes, "10.98.0.11", ""},
		"no address":               {[]nodeaddress.Address{four}, routes, "10.98.0.11", "no address in fd98::/64"},
		"an address elsewhere":     {[]nodeaddress.Address{four, address("fd97::11/64", 0)}, routes, "10.98.0.11", "no address in fd98::/64"},
		"no default route":         {[]nodeaddress.Address{four, six}, routes[:1], "10.98.0.11", "no default route of IPv6"},
		"a route without gateway":  {[]nodeaddress.Address{four, six}, []state.HostRoute{routes[0], {Destination: netip.MustParsePrefix("::/0"), Interface: "eth0"}}, "10.98.0.11", "no default route of IPv6"},
		"routes of two interfaces": {[]nodeaddress.Address{four, six}, routes[:2], "10.98.0.11", "eth0 and eth1"},
		"another first address":    {[]nodeaddress.Address{four, six}, routes, "10.98.0.77", "would become 10.98.0.11 instead of 10.98.0.77"},
	} {
		t.Run(name, func(t *testing.T) {
			own, lacks := Fits(*thePlan, nodeaddress.Input{
				Addresses: c.addresses, Routes: c.routes, Networks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")},
				Previous: nodeaddress.Choice{Addresses: []netip.Addr{netip.MustParseAddr(c.previous)}},
			})
			if c.want == "" && (lacks != "" || fmt.Sprint(own) != "[10.98.0.11 fd98::11]") || !strings.Contains(lacks, c.want) {
				t.Errorf("%v, lacks %q, want %q", own, lacks, c.want)
			}
		})
	}
}

func TestTheSharesOfANodeAreOneOfEachFamily(t *testing.T) {
	for _, good := range [][]string{{"10.128.2.0/23", "fd44:0:0:ff::/64"}, {"fd44::/64", "10.128.6.0/23"}} {
		if got, err := Shares(good); err != nil || got[0].String() != good[0] || got[1].String() != good[1] {
			t.Errorf("%v: %v %v", good, got, err)
		}
	}
	for name, bad := range map[string][]string{
		"no Node": nil, "one": {"10.128.2.0/23"}, "of one family": {"10.128.2.0/23", "10.128.4.0/23"}, "three": {"10.128.2.0/23", "fd44::/64", "fd45::/64"},
		"unreadable": {"10.128.2.0/23", "fd44::"},
	} {
		if got, err := Shares(bad); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
