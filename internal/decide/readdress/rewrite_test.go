package readdress_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAddressesAreReplacedWhereTheyStandAlone(t *testing.T) {
	a := netip.MustParseAddr
	m := readdress.Mapping{
		a("10.98.0.11"): a("10.77.0.12"), a("10.98.0.12"): a("10.98.0.11"), // the second one gets what the first one had
		a("10.98.0.5"): a("10.77.0.5"), a("fd98::11"): a("fd77::11"),
	}
	for in, want := range map[string]string{
		"--advertise-address=10.98.0.11":                            "--advertise-address=10.77.0.12",
		"https://10.98.0.11:6443/x":                                 "https://10.77.0.12:6443/x",
		"cp-1=https://10.98.0.11:2380,cp-2=https://10.98.0.12:2380": "cp-1=https://10.77.0.12:2380,cp-2=https://10.98.0.11:2380",
		"10.98.0.110 110.98.0.11 10.98.0.11.5":                      "10.98.0.110 110.98.0.11 10.98.0.11.5",
		"a10.98.0.11 10.98.0.11-b 10.98.0.11_":                      "a10.98.0.11 10.98.0.11-b 10.98.0.11_",
		`"10.98.0.5","10.98.0.11/24"`:                               `"10.77.0.5","10.77.0.12/24"`,
		"https://[fd98::11]:2379,fd98::11":                          "https://[fd77::11]:2379,fd77::11",
		"fd98::111 fd98:0:0::11":                                    "fd98::111 fd77::11",
		"from 10.98.0.11. Then":                                     "from 10.77.0.12. Then",
		"":                                                          "",
		"no address, 1.2.3, v1.36.3, 12:30:11":                      "no address, 1.2.3, v1.36.3, 12:30:11",
		"version: 10.98.0.11\nhost: 10.98.0.12\n":                   "version: 10.77.0.12\nhost: 10.98.0.11\n",
		"addr:10.98.0.5 b:fd98::11 cp-1:fd98::11":                   "addr:10.77.0.5 b:fd98::11 cp-1:fd77::11",
		`value="cp-1:10.98.0.11;cp-2:10.98.0.12"`:                   `value="cp-1:10.77.0.12;cp-2:10.98.0.11"`,
		"[fd98::11]:6443 fd98::11/64 {fd98::11}":                    "[fd77::11]:6443 fd77::11/64 {fd77::11}",
	} {
		if got := string(m.Rewrite([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestEachAddressMapsToTheOneOfItsFamily(t *testing.T) {
	a := netip.MustParseAddr
	from := readdress.Place{APIVIPs: []string{"10.98.0.5", "fd98::5"}, IngressVIPs: []string{"10.98.0.6"}, Hosts: map[string][]netip.Addr{"cp-1": {a("10.98.0.11"), a("fd98::11")}, "cp-2": {a("10.98.0.12")}}}
	to := readdress.Place{APIVIPs: []string{"fd77::5", "10.77.0.5"}, IngressVIPs: []string{"10.77.0.6"}, Hosts: map[string][]netip.Addr{"cp-2": {a("10.77.0.12")}}}
	j := readdress.Announced(from.Hosts["cp-1"]).Begun(readdress.To, []netip.Addr{a("10.77.0.99"), a("fd77::99")})
	got := readdress.Map(readdress.Plan{From: from, To: to}, readdress.To, "cp-1", j)
	for was, is := range map[string]string{
		"10.98.0.5": "10.77.0.5", "fd98::5": "fd77::5", "10.98.0.6": "10.77.0.6", "10.98.0.11": "10.77.0.99", "fd98::11": "fd77::99", "10.98.0.12": "10.77.0.12",
	} {
		if got[a(was)] != a(is) {
			t.Errorf("%s becomes %s, want %s", was, got[a(was)], is)
		}
	}
	if len(got) != 6 {
		t.Errorf("%v", got)
	}
	back := readdress.Map(readdress.Plan{From: from, To: to}, readdress.From, "cp-1", j)
	for was, is := range got {
		if back[is] != was {
			t.Errorf("on the way back %s becomes %s, and was %s", is, back[is], was)
		}
	}
}

// TestAHostAtTheNewPlaceKeepsAPeerWhoseNodeStillHasTheOldAddress: both would hold the virtual IPs.
func TestAHostAtTheNewPlaceKeepsAPeerWhoseNodeStillHasTheOldAddress(t *testing.T) {
	announced := readdress.Announced([]netip.Addr{addr("10.98.0.11")})
	began := announced.Begun(readdress.To, []netip.Addr{addr("10.77.0.11")})
	moved := began.Written("b1").Arrived()
	back := moved.SettledAt(readdress.To).Begun(readdress.From, []netip.Addr{addr("10.98.0.11")}).Written("b2").Arrived()
	for sentence, c := range map[string]struct {
		journal readdress.Journal
		listed  string // the address of cp-2
		want    string
	}{
		"announced, and the peer has moved":      {announced, "10.77.0.12", "10.77.0.12"},
		"on the way":                             {began, "10.98.0.12", "10.77.0.12"},
		"moved":                                  {moved, "10.98.0.12", "10.77.0.12"},
		"moved, and the API knows it":            {moved, "10.77.0.12", "10.77.0.12"},
		"moved, and the peer was replaced there": {moved, "10.77.0.13", "10.77.0.13"},
		"carried back, and the API has not been": {back, "10.77.0.12", "10.98.0.12"},
		"carried back, and the cluster too":      {back.SettledAt(readdress.From), "10.77.0.12", "10.98.0.12"},
		"over":                                   {moved.Ended(), "10.98.0.12", "10.98.0.12"},
	} {
		listed := []state.Node{
			{Name: "cp-1", Addresses: []netip.Addr{addr("10.98.0.11")}},
			{Name: "cp-2", Addresses: []netip.Addr{addr(c.listed), addr("fd98::12")}},
			{Name: "w-1", Addresses: []netip.Addr{addr("10.98.0.21")}}, // came later
		}
		got := readdress.Nodes(plan(), c.journal, "cp-1", listed)
		if len(got) != 3 || got[1].Addresses[0] != addr(c.want) || got[1].Addresses[1] != addr("fd98::12") || listed[1].Addresses[0] != addr(c.listed) {
			t.Errorf("%s: %v of %v", sentence, got, listed)
		}
		if got[0].Addresses[0] != addr("10.98.0.11") || got[2].Addresses[0] != addr("10.98.0.21") {
			t.Errorf("%s: this host and one that the plan does not know have other addresses: %v", sentence, got)
		}
		for _, n := range got {
			if len(n.Also) > 0 {
				t.Errorf("%s: the places share no network, and %s is looked for at %v too", sentence, n.Name, n.Also)
			}
		}
	}
}

// shares is a plan within one network.
func shares() readdress.Plan {
	p := plan()
	p.To = readdress.Place{
		MachineNetworks: []string{"10.98.0.0/24"}, APIVIPs: []string{"10.98.0.5"}, IngressVIPs: []string{"10.98.0.6"},
		Hosts: map[string][]netip.Addr{"cp-1": {addr("10.98.0.111")}, "cp-2": {addr("10.98.0.112")}},
	}
	return p
}

// TestAPeerHasBothAddressesWhereThePlacesShareANetwork: nobody can tell there whether a host has moved yet,
// and two hosts that do not hear each other both hold the virtual IPs.
func TestAPeerHasBothAddressesWhereThePlacesShareANetwork(t *testing.T) {
	announced := readdress.Announced([]netip.Addr{addr("10.98.0.11")})
	moved := announced.Begun(readdress.To, []netip.Addr{addr("10.98.0.111")}).Written("b1").Arrived()
	back := moved.Begun(readdress.From, []netip.Addr{addr("10.98.0.11")}).Written("b2").Arrived()
	wider := plan()
	wider.To.MachineNetworks = append(wider.To.MachineNetworks, "10.98.0.0/24")
	narrower := shares() // with other virtual IPs: the same ones are refused (contested)
	narrower.To.APIVIPs, narrower.To.IngressVIPs = []string{"10.98.0.7"}, []string{"10.98.0.8"}
	narrower.From.MachineNetworks, narrower.From.Hosts["cp-2"] = []string{"10.98.0.0/16"}, []netip.Addr{addr("10.98.7.12")}
	shipped := shares() // a host gets what was a virtual IP, which any host may hold until then
	shipped.To.Hosts["cp-2"], shipped.To.IngressVIPs = []netip.Addr{addr("10.98.0.6")}, []string{"10.98.0.7"}
	for sentence, c := range map[string]struct {
		plan       readdress.Plan
		journal    readdress.Journal
		listed     string // the address of cp-2
		want, also string
	}{
		"announced":                              {shares(), announced, "10.98.0.12", "10.98.0.12", "10.98.0.112"},
		"announced, and the peer has moved":      {shares(), announced, "10.98.0.112", "10.98.0.112", "10.98.0.12"},
		"moved":                                  {shares(), moved, "10.98.0.12", "10.98.0.12", "10.98.0.112"},
		"moved, and the API knows it":            {shares(), moved, "10.98.0.112", "10.98.0.112", "10.98.0.12"},
		"moved, and the peer was replaced there": {shares(), moved, "10.98.0.113", "10.98.0.113", ""},
		"the new address was a virtual IP":       {shipped, announced, "10.98.0.12", "10.98.0.12", ""},
		"carried back":                           {shares(), back, "10.98.0.112", "10.98.0.112", "10.98.0.12"},
		"over, until the plan goes":              {shares(), moved.Ended(), "10.98.0.112", "10.98.0.112", "10.98.0.12"},
		"the former network is one of the new":   {wider, moved, "10.98.0.12", "10.98.0.12", "10.77.0.12"},
		"that one, seen from the former place":   {wider, announced, "10.98.0.12", "10.98.0.12", "10.77.0.12"},
		"the new network is a part of the former, and has other virtual IPs": {narrower, moved, "10.98.7.12", "10.98.0.112", "10.98.7.12"},
		"that one, seen from the former place ":                              {narrower, announced, "10.98.7.12", "10.98.7.12", "10.98.0.112"},
	} {
		listed := []state.Node{
			{Name: "cp-1", Addresses: []netip.Addr{addr("10.98.0.11")}},
			{Name: "cp-2", Addresses: []netip.Addr{addr(c.listed), addr("fd98::12")}},
		}
		var also []netip.Addr
		if bad := c.plan.Check(); len(bad) > 0 {
			t.Errorf("%s: nobody may announce that: %v", sentence, bad)
		}
		if c.also != "" {
			also = []netip.Addr{addr(c.also)}
		}
		got := readdress.Nodes(c.plan, c.journal, "cp-1", listed)
		if !slices.Equal(got[1].Addresses, []netip.Addr{addr(c.want), addr("fd98::12")}) || !slices.Equal(got[1].Also, also) {
			t.Errorf("%s: %v, and also %v", sentence, got[1].Addresses, got[1].Also)
		}
		if len(got[0].Also) > 0 {
			t.Errorf("%s: this host is looked for at %v by itself", sentence, got[0].Also)
		}
	}
}

// TestAVirtualIPThatStaysNeedsTheSameNetworkAtBothPlaces: hosts with prefixes of another length take each
// other for no peer, whatever addresses they know.
func TestAVirtualIPThatStaysNeedsTheSameNetworkAtBothPlaces(t *testing.T) {
	for sentence, c := range map[string]struct {
		from, to string
		change   func(*readdress.Plan)
		want     []string // the paths
	}{
		"the same network":                    {from: "10.98.0.0/24", to: "10.98.0.0/24"},
		"the same one, written otherwise":     {from: "10.98.0.0/24", to: "10.98.0.7/24"},
		"a part of the former":                {from: "10.98.0.0/16", to: "10.98.0.0/24", want: []string{"to.apiVIPs[0]", "to.ingressVIPs[0]"}},
		"a wider one":                         {from: "10.98.0.0/24", to: "10.98.0.0/16", want: []string{"to.apiVIPs[0]", "to.ingressVIPs[0]"}},
		"the one for the API becomes another": {from: "10.98.0.0/24", to: "10.98.0.0/16", change: func(p *readdress.Plan) { p.To.APIVIPs[0] = "10.98.0.7" }, want: []string{"to.ingressVIPs[0]"}},
		"what was that of the ingress becomes that of the API": {from: "10.98.0.0/24", to: "10.98.0.0/16", change: func(p *readdress.Plan) {
			p.To.APIVIPs[0], p.To.IngressVIPs[0] = "10.98.0.6", "10.98.0.7"
		}, want: []string{"to.apiVIPs[0]"}},
		"a lone host": {from: "10.98.0.0/24", to: "10.98.0.0/16", change: func(p *readdress.Plan) { delete(p.From.Hosts, "cp-2"); delete(p.To.Hosts, "cp-2") }},
	} {
		p := shares()
		p.From.MachineNetworks, p.To.MachineNetworks = []string{c.from}, []string{c.to}
		if c.change != nil {
			c.change(&p)
		}
		var got []string
		for _, d := range p.Check() {
			got = append(got, d.Path)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", sentence, p.Check(), c.want)
		}
	}
}
