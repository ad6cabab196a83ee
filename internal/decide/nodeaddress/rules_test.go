package nodeaddress

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// route parses "default via 10.98.0.1 eth0 2 100" or "fd98::/64 eth0 2 256".
func route(t *testing.T, text string) state.HostRoute {
	t.Helper()
	words := strings.Fields(text)
	var r state.HostRoute
	if words[1] == "via" {
		r.Gateway = netip.MustParseAddr(words[2])
		words = append(words[:1], words[3:]...)
	}
	switch words[0] {
	case "default":
		r.Destination = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if r.Gateway.Is6() {
			r.Destination = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
	default:
		r.Destination = netip.MustParsePrefix(words[0])
	}
	r.Interface = words[1]
	if _, err := fmt.Sscan(words[2]+" "+words[3], &r.Index, &r.Metric); err != nil {
		t.Fatal(err)
	}
	return r
}

// hostOf parses "eth0 2 10.98.0.11/24", which more words may follow: unusable,
// or a label.
func hostOf(t *testing.T, text string) Address {
	t.Helper()
	var a Address
	words := strings.Fields(text)
	a.Interface, a.Usable = words[0], true
	if _, err := fmt.Sscan(words[1], &a.Index); err != nil {
		t.Fatal(err)
	}
	addr, bits, _ := strings.Cut(words[2], "/")
	n := 0
	if _, err := fmt.Sscan(bits, &n); err != nil {
		t.Fatal(err)
	}
	a.Prefix = netip.PrefixFrom(netip.MustParseAddr(addr), n)
	for _, word := range words[3:] {
		if word == "unusable" {
			a.Usable = false
		} else {
			a.Label = word
		}
	}
	return a
}

func addrs(text string) (out []netip.Addr) {
	for word := range strings.FieldsSeq(text) {
		out = append(out, netip.MustParseAddr(word))
	}
	return out
}

// rule is one sentence about the choice.
type rule struct {
	name string
	// have and routes are lines.
	have, routes, networks, vips, previous string
	want                                   string
	change                                 func(*Input)
}

const (
	v4site = "10.98.0.0/24"
	dual   = "10.98.0.0/24 fd98::/64"
)

func managed(in *Input) { in.ManagedVIPs = true }

var rules = slices.Concat(linkRules, []rule{
	{
		name: "B63: a VIP that this host holds is not its own", networks: v4site, vips: "10.98.0.5 10.98.0.6",
		have: "eth0 2 10.98.0.5/24\neth0 2 10.98.0.6/32\neth0 2 10.98.0.11/24", want: "[10.98.0.11] eth0",
	},
	{
		name: "B63: nor one that was a VIP until now and still has the label", networks: v4site,
		have: "eth0 2 10.98.0.4/24 vip\neth0 2 10.98.0.7/24 eth0:vip\neth0 2 10.98.0.11/24", want: "[10.98.0.11] eth0",
	},
	{
		name: "B67: an egress IP, OVN's own address and a deprecated one are not chosen", networks: "10.98.0.0/24 fd69::/16",
		have: "eth0 2 10.98.0.3/24 eip\neth0 2 10.98.0.4/24 br-ex:eip\neth0 2 10.98.0.11/24\neth0 2 fd69::2/125\neth0 2 fd69:98::1/64 unusable\neth0 2 fd69:98::2/64",
		want: "[10.98.0.11 fd69:98::2] eth0",
	},
	{
		name: "B65: an address that the kernel still checks is waited for", networks: "fd98::/64",
		have: "eth0 2 fd98::11/64 unusable", want: "no usable IPv6 address inside the machine networks fd98::/64; this host has fd98::11/64 on eth0 (not usable yet)",
	},
	{
		name: "link-local and loopback addresses are never chosen", networks: "169.254.0.0/16 fe80::/10",
		have: "eth0 2 169.254.7.7/16\neth0 2 fe80::1/64\nlo 1 127.0.0.1/8",
		want: "no usable IPv4 address inside the machine networks 169.254.0.0/16, fe80::/10; this host has 169.254.7.7/16 on eth0, fe80::1/64 on eth0, 127.0.0.1/8 on lo",
	},
	{
		name: "the network of the API VIP comes before the default route", networks: "10.98.0.0/24 10.97.0.0/24", vips: "10.98.0.5",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24", routes: "default via 10.97.0.1 eth0 2 100", want: "[10.98.0.11] eth1",
	},
	{
		name: "B66: the network of an ingress VIP counts too", networks: "10.98.0.0/24 10.97.0.0/24", vips: "10.96.0.5 10.98.0.6",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24", want: "[10.98.0.11] eth1", change: managed,
	},
	{
		name: "the API's VIP comes before that of ingress", networks: "10.98.0.0/24 10.97.0.0/24", vips: "10.98.0.5 10.97.0.6",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24", want: "[10.98.0.11] eth1",
	},
	{
		name: "B10: a VIP outside of every network leaves the best of its family", networks: v4site, vips: "192.0.2.5",
		have: "eth0 2 10.98.0.11/24", want: "[10.98.0.11] eth0",
	},
	{
		name: "a worker outside of the VIPs' network is remote", networks: "10.98.0.0/24 10.97.0.0/24", vips: "10.98.0.5", change: managed,
		have: "eth0 2 10.97.0.11/24", want: "[10.97.0.11] eth0 remote",
	},
	{
		name: "where the site's load balancer has the VIPs nobody is remote", networks: "10.98.0.0/24 10.97.0.0/24", vips: "10.98.0.5",
		have: "eth0 2 10.97.0.11/24", want: "[10.97.0.11] eth0",
	},
	{
		name: "B11: of overlapping networks that one counts by which the kernel reaches the VIP", networks: "fd98::/64", vips: "fd98::f05",
		have: "eth0 2 fd98::11/64\neth1 3 fd98::f11/120", routes: "fd98::/64 eth0 2 256\nfd98::f00/120 eth1 3 256", want: "[fd98::f11] eth1",
	},
	{
		name: "B11: of equal networks that one with the better route", networks: "fd98::/64", vips: "fd98::5",
		have: "eth0 2 fd98::11/64\neth1 3 fd98::12/64", routes: "fd98::/64 eth0 2 512\nfd98::/64 eth1 3 256", want: "[fd98::12] eth1",
	},
	{
		name: "B11: the narrower network counts where no route is known", networks: "fd98::/64", vips: "fd98::f05",
		have: "eth0 2 fd98::11/64\neth1 3 fd98::f11/120", want: "[fd98::f11] eth1",
	},
	{
		name: "B12: a /128 of DHCPv6 is in the network that the router advertises", networks: "fd98::/64 fd97::/64", vips: "fd98::5", change: managed,
		have: "eth0 2 fd97::11/64\neth1 3 fd98::77/128", routes: "fd98::/64 eth1 3 256", want: "[fd98::77] eth1",
	},
	{
		name: "B12: a /128 on another link than the advertised network is not", networks: "fd98::/64 fd97::/64", vips: "fd98::5", change: managed,
		have: "eth1 3 fd98::77/128", routes: "fd98::/64 eth0 2 256", want: "[fd98::77] eth1 remote",
	},
	{
		name: "the other family is that of the same link", networks: dual, vips: "10.98.0.5",
		have: "eth0 2 fd98::1/64\neth1 3 10.98.0.11/24\neth1 3 fd98::2/64", want: "[10.98.0.11 fd98::2] eth1",
	},
	{
		name: "B9: both families of the site are found, also on two links", networks: dual, vips: "10.98.0.5",
		have: "eth0 2 fd98::1/64\neth1 3 10.98.0.11/24", want: "[10.98.0.11 fd98::1] eth1",
	},
	{
		name: "a single-stack site has one address", networks: v4site, vips: "10.98.0.5",
		have: "eth0 2 10.98.0.11/24\neth0 2 fd98::1/64", want: "[10.98.0.11] eth0",
	},
	{
		name: "hard case 16: SLAAC, DHCPv6, ULA and a temporary address on one link", networks: "2001:db8:98::/64 fd98::/64", vips: "2001:db8:98::5",
		have:   "eth0 2 2001:db8:98:0:a1b2:c3d4:e5f6:789a/64 unusable\neth0 2 2001:db8:98::77/128\neth0 2 2001:db8:98:0:5054:ff:fe00:1/64\neth0 2 fd98::5054:ff:fe00:1/64",
		routes: "2001:db8:98::/64 eth0 2 256\nfd98::/64 eth0 2 256\ndefault via fe80::1 eth0 2 1024", want: "[2001:db8:98:0:5054:ff:fe00:1] eth0",
	},
	{
		name: "hard case 16: with a VIP of the ULA network the ULA is chosen", networks: "fd98::/64 2001:db8:98::/64", vips: "fd98::5",
		have:   "eth0 2 2001:db8:98::77/128\neth0 2 2001:db8:98:0:5054:ff:fe00:1/64\neth0 2 fd98::5054:ff:fe00:1/64",
		routes: "2001:db8:98::/64 eth0 2 256\nfd98::/64 eth0 2 256", want: "[fd98::5054:ff:fe00:1] eth0",
	},
	{
		name: "without VIPs the link with the better default route wins", networks: "10.0.0.0/8",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24", routes: "default via 10.97.0.1 eth0 2 200\ndefault via 10.98.0.1 eth1 3 100", want: "[10.98.0.11] eth1",
	},
	{
		name: "of equal default routes the link with the lower number", networks: "10.0.0.0/8",
		have: "eth1 3 10.97.0.11/24\neth0 2 10.98.0.11/24", routes: "default via 10.97.0.1 eth1 3 100\ndefault via 10.98.0.1 eth0 2 100", want: "[10.98.0.11] eth0",
	},
	{
		name: "on one link the address beside the gateway", networks: "10.0.0.0/8",
		have: "eth0 2 10.97.0.11/24\neth0 2 10.98.0.11/24", routes: "default via 10.98.0.1 eth0 2 100", want: "[10.98.0.11] eth0",
	},
	{
		name: "a public address before a private one", networks: "0.0.0.0/0",
		have: "eth0 2 10.98.0.11/24\neth0 2 192.0.2.11/24", want: "[192.0.2.11] eth0",
	},
	{
		name: "an address with a network before a lone one", networks: v4site,
		have: "eth0 2 10.98.0.3/32\neth0 2 10.98.0.11/24", want: "[10.98.0.11] eth0",
	},
	{
		name: "B8: a mapped address is of IPv6, and comes after a native one", networks: "::/0",
		have: "eth0 2 ::ffff:10.98.0.11/64\neth0 2 fd98::11/64", want: "[fd98::11] eth0",
	},
	{
		name: "without machine networks the default route decides, with the other family of its link",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24\neth1 3 fd98::11/64", routes: "default via 10.98.0.1 eth1 3 100", want: "[10.98.0.11 fd98::11] eth1",
	},
	{name: "nothing at all", have: "lo 1 127.0.0.1/8", want: "no usable address; this host has 127.0.0.1/8 on lo"},
	{
		name: "a person's hint comes before everything else", networks: "10.98.0.0/24 10.97.0.0/24", vips: "10.98.0.5",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24", want: "[10.97.0.11] eth0",
		change: func(in *Input) { in.Hint = netip.MustParseAddr("10.97.0.1") },
	},
	{
		name: "B64: what was chosen in an earlier boot stays", networks: "10.98.0.0/24", previous: "10.98.0.22",
		have: "eth0 2 10.98.0.11/24\neth0 2 10.98.0.22/24", routes: "default via 10.98.0.1 eth0 2 100", want: "[10.98.0.22] eth0",
	},
	{
		name: "hard case 15: and when it moves to a bridge or to a VLAN with a long name", networks: v4site, vips: "10.98.0.5", previous: "10.98.0.22",
		have: "eth1 3 10.98.0.11/24\nbond0long.3541 7 10.98.0.22/24", want: "[10.98.0.22] bond0long.3541",
	},
	{
		name: "what the host no longer has is chosen anew", networks: v4site, previous: "10.98.0.22",
		have: "eth0 2 10.98.0.11/24", want: "[10.98.0.11] eth0",
	},
	{
		name: "one family may stay while the other is chosen anew", networks: dual, previous: "10.98.0.22 fd98::22",
		have: "eth0 2 10.98.0.11/24\neth0 2 10.98.0.22/24\neth0 2 fd98::11/64", want: "[10.98.0.22 fd98::11] eth0",
	},
	{
		name: "what became a VIP is given up", networks: v4site, vips: "10.98.0.22", previous: "10.98.0.22",
		have: "eth0 2 10.98.0.11/24\neth0 2 10.98.0.22/24", want: "[10.98.0.11] eth0",
	},
	{
		name: "what is outside of the site's networks now is given up", networks: v4site, previous: "10.97.0.22",
		have: "eth0 2 10.97.0.22/24\neth1 3 10.98.0.11/24", want: "[10.98.0.11] eth1",
	},
	{
		name: "a host is not remote because its link to the VIPs came late", networks: "10.98.0.0/24 10.97.0.0/24", vips: "10.98.0.5", previous: "10.97.0.11",
		have: "eth0 2 10.97.0.11/24\neth1 3 10.98.0.11/24", want: "[10.98.0.11] eth1",
		change: func(in *Input) { in.ManagedVIPs, in.Previous.Remote = true, true },
	},
	{
		name: "a remote worker keeps its address", networks: "10.98.0.0/24 10.97.0.0/24", vips: "10.98.0.5", previous: "10.97.0.22",
		have: "eth0 2 10.97.0.11/24\neth0 2 10.97.0.22/24", want: "[10.97.0.22] eth0 remote",
		change: func(in *Input) { in.ManagedVIPs, in.Previous.Remote = true, true },
	},
})

func (r rule) input(t *testing.T) Input {
	in := Input{VIPs: addrs(r.vips), Networks: prefixes(strings.Fields(r.networks)...)}
	in.Previous.Addresses = addrs(r.previous)
	for line := range strings.Lines(r.have) {
		in.Addresses = append(in.Addresses, hostOf(t, line))
	}
	for line := range strings.Lines(r.routes) {
		in.Routes = append(in.Routes, route(t, line))
	}
	if r.change != nil {
		r.change(&in)
	}
	return in
}

func said(in Input) string {
	choice, err := Decide(in)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprint(choice.Addresses, " ", choice.Interface)
	if choice.Remote {
		text += " remote"
	}
	return text
}

func TestRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if got := said(r.input(t)); got != r.want {
				t.Errorf("got  %s\nwant %s", got, r.want)
			}
		})
	}
}

// TestB64_TheOrderOfTheKernelNeverMatters tries each rule with addresses and
// routes in any order.
func TestB64_TheOrderOfTheKernelNeverMatters(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	for _, r := range rules {
		in := r.input(t)
		for range 50 {
			random.Shuffle(len(in.Addresses), func(i, j int) { in.Addresses[i], in.Addresses[j] = in.Addresses[j], in.Addresses[i] })
			random.Shuffle(len(in.Routes), func(i, j int) { in.Routes[i], in.Routes[j] = in.Routes[j], in.Routes[i] })
			if got := said(in); got != r.want && !strings.HasPrefix(r.want, "no usable") {
				t.Fatalf("%s: got %s", r.name, got)
			}
		}
	}
}

// TestAChoiceIsStable chooses again after each rule, with its choice as the
// previous one: the address of a host never moves by itself.
func TestAChoiceIsStable(t *testing.T) {
	for _, r := range rules {
		in := r.input(t)
		choice, err := Decide(in)
		if err != nil {
			continue
		}
		in.Previous, in.Hint = choice, netip.Addr{}
		again, err := Decide(in)
		if err != nil || fmt.Sprint(again.Addresses, again.Interface, again.Remote) != fmt.Sprint(choice.Addresses, choice.Interface, choice.Remote) {
			t.Errorf("%s: %v became %v (%v)", r.name, choice, again, err)
		}
	}
}

func TestAViewGivesTheSameChoice(t *testing.T) {
	v := state.NetworkView{
		Settings: state.NetworkSettings{
			MachineNetworks: prefixes("10.98.0.0/24", "10.97.0.0/24"), APIVIPs: addrs("10.98.0.5"), IngressVIPs: addrs("10.98.0.6"), ManagedVIPs: true,
		},
		Addresses: []Address{hostOf(t, "br0 9 10.98.0.11/24"), hostOf(t, "br0 9 10.98.0.3/24")},
		Host:      state.HostFacts{Addresses: addrs("10.98.0.11"), Interface: "eth0"},
	}
	if got := said(Of(v)); got != "[10.98.0.11] br0" {
		t.Errorf("got %s", got)
	}
}

// FuzzDecide checks the choice for any host: it holds only usable addresses of
// the host, no VIP, none that is link-local, and at most one of each family.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 24, 1, 0, 9, 8, 7, 6, 64, 0, 1}, true)
	f.Fuzz(func(t *testing.T, data []byte, networks bool) {
		in := Input{VIPs: addrs("10.0.0.5 fd00::5"), ManagedVIPs: true}
		if networks {
			in.Networks = prefixes("10.0.0.0/8", "fd00::/8")
		}
		for ; len(data) >= 7; data = data[7:] {
			a := Address{Interface: "eth" + fmt.Sprint(data[5]%3), Index: int(data[5]%3) + 2, Usable: data[6]&1 == 0}
			ip := netip.AddrFrom4([4]byte{10, data[1] % 2, data[2] % 2, data[3]})
			if data[6]&2 != 0 {
				ip = netip.AddrFrom16([16]byte{0xfd, 0, 0, 0, 0, 0, 0, data[1] % 2, 15: data[3]})
			}
			a.Prefix = netip.PrefixFrom(ip, int(data[4])%(ip.BitLen()+1))
			if data[6]&4 != 0 {
				in.Routes = append(in.Routes, state.HostRoute{Destination: a.Prefix.Masked(), Index: a.Index, Metric: int(data[2])})
				continue
			}
			in.Addresses = append(in.Addresses, a)
		}
		choice, err := Decide(in)
		if err != nil {
			return
		}
		for i, addr := range choice.Addresses {
			found := false
			for _, a := range in.Addresses {
				found = found || a.Prefix.Addr() == addr && a.Usable
			}
			if !found || addr == in.VIPs[0] || addr == in.VIPs[1] || i > 0 && addr.Is6() == choice.Addresses[0].Is6() {
				t.Fatalf("%v chosen of %v", choice, in.Addresses)
			}
		}
		if networks && len(choice.Addresses) != 2 {
			t.Fatalf("%v", choice)
		}
	})
}
