package names

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/state"
)

func server(t *testing.T, v state.NetworkView) Server {
	t.Helper()
	s, ok := DecideServer(v)
	if !ok {
		t.Fatal("the view is not enough for a server")
	}
	return s
}

func TestAServerListensOnTheHostsOwnAddressesAndAsksTheSitesServersInOrder(t *testing.T) {
	s := server(t, demo())
	if got := fmt.Sprint(s.Listen, s.Upstreams); got != "[192.0.2.21 2001:db8::21] [192.0.2.1:53 [2001:db8::1]:53]" || len(s.Omitted) > 0 {
		t.Errorf("%s, %v", got, s.Omitted)
	}
}

func TestAServerListensOnNoAddressThatIsNotThereOrNotUsableYet(t *testing.T) {
	v := demo()
	v.Addresses[1].Usable = false
	if s := server(t, v); fmt.Sprint(s.Listen) != "[192.0.2.21]" {
		t.Errorf("%v", s.Listen)
	}
	v.Addresses = v.Addresses[1:]
	if s, ok := DecideServer(v); ok {
		t.Errorf("%+v", s)
	}
}

func TestBeforeTheKernelWasLookedAtTheHostsAddressesAreTakenAsTheyAre(t *testing.T) {
	v := demo()
	v.Addresses = nil
	if s := server(t, v); len(s.Listen) != 2 {
		t.Errorf("%v", s.Listen)
	}
}

func TestHardCase29_B48_ASiteMayHaveNoNameServers(t *testing.T) {
	v := demo()
	v.Upstreams = nil
	if s := server(t, v); len(s.Upstreams) != 0 || len(s.Listen) != 2 {
		t.Errorf("%+v", s)
	}
}

func TestHardCase29_H2_MoreThanFifteenNameServersAreCutShort(t *testing.T) {
	v := demo()
	v.Upstreams = nil
	for i := range 20 {
		v.Upstreams = append(v.Upstreams, netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 53))
	}
	s := server(t, v)
	if !slices.Equal(s.Upstreams, v.Upstreams[:15]) {
		t.Errorf("%v", s.Upstreams)
	}
	if len(s.Omitted) != 5 || s.Omitted[0] != "198.51.100.15:53: CoreDNS takes no more than 15" {
		t.Errorf("%v", s.Omitted)
	}
}

func TestHardCase29_AServerNeverAsksItself(t *testing.T) {
	for upstream, reason := range map[string]string{
		"192.0.2.21:53":          "own address or a VIP",
		"[2001:db8::21]:53":      "own address or a VIP",
		"192.0.2.5:53":           "own address or a VIP",
		"10.0.0.9:53":            "own address or a VIP",
		"[::ffff:192.0.2.21]:53": "own address or a VIP",
		"127.0.0.1:53":           "a server of this host",
		"127.0.0.53:53":          "a server of this host",
		"[::1]:53":               "a server of this host",
		"0.0.0.0:53":             "no address of a server",
		"[fe80::1%eth0]:53":      "only valid on one link",
		"192.0.2.1:53":           "named twice",
		"192.0.2.21:5353":        "",
		"127.0.0.1:5300":         "",
		"192.0.2.1:5300":         "",
	} {
		v := demo()
		v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth1", Prefix: netip.MustParsePrefix("10.0.0.9/8"), Usable: true})
		v.Upstreams = append(v.Upstreams, netip.MustParseAddrPort(upstream))
		s := server(t, v)
		if asked := len(s.Upstreams) == 3; asked != (reason == "") {
			t.Errorf("%s: asked is %v", upstream, asked)
		}
		if reason != "" && !strings.Contains(strings.Join(s.Omitted, ""), reason) {
			t.Errorf("%s: %v", upstream, s.Omitted)
		}
	}
}
