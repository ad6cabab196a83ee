package names

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
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
	if len(s.Omitted) != 5 || s.Omitted[0] != "198.51.100.15:53: CoreDNS accepts at most 15" {
		t.Errorf("%v", s.Omitted)
	}
}

// Hosts that ask each other, or the pods that ask them, would send a question
// round until its client gives up.
func TestAServerAsksNobodyWhoMayAskIt(t *testing.T) {
	for upstream, reason := range map[string]string{
		"172.30.0.10:53":    "the cluster's networks of pods and Services",
		"172.30.0.10:5353":  "the cluster's networks of pods and Services",
		"10.128.3.9:53":     "the cluster's networks of pods and Services",
		"[2001:db8::20]:53": "the host host-0 of this cluster",
		"192.0.2.22:53":     "the host host-2 of this cluster",
		"192.0.2.22:5300":   "",
		"172.31.0.10:53":    "",
	} {
		v := demo()
		v.Settings.PodNetworks = []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")}
		v.Settings.ServiceNetworks = []netip.Prefix{netip.MustParsePrefix("172.30.0.0/16")}
		v.Upstreams = []netip.AddrPort{netip.MustParseAddrPort(upstream)}
		s := server(t, v)
		if asked := len(s.Upstreams) == 1; asked != (reason == "") {
			t.Errorf("%s: asked is %v", upstream, asked)
		}
		if !strings.Contains(strings.Join(s.Omitted, ""), reason) {
			t.Errorf("%s: %v", upstream, s.Omitted)
		}
	}
}

// Root on a worker writes into its Node that it has the addresses of the site's name
// servers: they stay, as long as nobody else is left to ask.
func TestAWorkerTakesTheSitesNameServersFromNobody(t *testing.T) {
	const left = "says that it has this address, and no other server is left"
	for _, c := range []struct {
		name             string
		worker           []string
		upstreams        string
		omitted, claimed string
	}{
		{
			"it has all addresses",
			[]string{"192.0.2.1", "2001:db8::1"},
			"[192.0.2.1:53 [2001:db8::1]:53]", "",
			"192.0.2.1:53: the host w-1 of this cluster " + left + " [2001:db8::1]:53: the host w-1 of this cluster " + left,
		},
		{"it has one of two", []string{"2001:db8::1"}, "[192.0.2.1:53]", "[2001:db8::1]:53: it is the host w-1 of this cluster, which may query this one", ""},
		{"it has none", []string{"192.0.2.31"}, "[192.0.2.1:53 [2001:db8::1]:53]", "", ""},
	} {
		v := demo()
		v.Nodes.Value = append(v.Nodes.Value, node("w-1", c.worker...))
		s := server(t, v)
		if fmt.Sprint(s.Upstreams) != c.upstreams || strings.Join(s.Omitted, " ") != c.omitted || strings.Join(s.Claimed, " ") != c.claimed {
			t.Errorf("%s: asked are %v, omitted %q, claimed %q", c.name, s.Upstreams, s.Omitted, s.Claimed)
		}
	}
	v := demo()
	v.Upstreams = append(v.Upstreams[:1:1], netip.MustParseAddrPort("192.0.2.22:53"), v.Upstreams[0])
	v.Nodes.Value = append(v.Nodes.Value, node("w-1", "192.0.2.1"))
	if s := server(t, v); fmt.Sprint(s.Upstreams) != "[192.0.2.1:53]" || len(s.Omitted) != 2 {
		t.Errorf("asked are %v, omitted %q", s.Upstreams, s.Omitted)
	}
}

func TestOnlyTheClusterAndWhomAPersonNamesMayAsk(t *testing.T) {
	v := demo()
	network := func(list ...string) (out []netip.Prefix) {
		for _, text := range list {
			out = append(out, netip.MustParsePrefix(text))
		}
		return out
	}
	v.Settings.MachineNetworks = network("192.0.2.0/24", "2001:db8::/64")
	v.Settings.PodNetworks, v.Settings.ServiceNetworks = network("10.128.0.0/14"), network("172.30.0.0/16")
	const own = "[127.0.0.0/8 ::1/128 192.0.2.21/32 2001:db8::21/128 "
	for _, c := range []struct {
		change func(*state.NetworkSettings)
		want   string
	}{
		{func(*state.NetworkSettings) {}, own + "192.0.2.0/24 2001:db8::/64 10.128.0.0/14 172.30.0.0/16]"},
		{func(s *state.NetworkSettings) { s.NameClients = network("198.51.100.7/24", "192.0.2.0/24") }, own + "192.0.2.0/24 2001:db8::/64 10.128.0.0/14 172.30.0.0/16 198.51.100.0/24]"},
		{func(s *state.NetworkSettings) {
			s.MachineNetworks = append(s.MachineNetworks, network("198.51.100.0/24")...)
		}, own + "192.0.2.0/24 2001:db8::/64 198.51.100.0/24 10.128.0.0/14 172.30.0.0/16]"},
		{func(s *state.NetworkSettings) { *s = state.NetworkSettings{Domain: "x"} }, own[:len(own)-1] + "]"},
	} {
		w := v
		c.change(&w.Settings)
		if got := fmt.Sprint(server(t, w).Clients); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
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
		"0.0.0.0:53":             "not the address of a server",
		"[fe80::1%eth0]:53":      "valid on only one link",
		"192.0.2.1:53":           "listed twice",
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
