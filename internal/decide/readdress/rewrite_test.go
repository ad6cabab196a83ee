package readdress_test

import (
	"net/netip"
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
	}
	shares := plan()
	shares.To.MachineNetworks = append(shares.To.MachineNetworks, "10.98.0.0/24")
	listed := []state.Node{{Name: "cp-2", Addresses: []netip.Addr{addr("10.98.0.12")}}}
	if got := readdress.Nodes(shares, moved, "cp-1", listed); got[0].Addresses[0] != addr("10.98.0.12") {
		t.Errorf("a peer that has not moved yet, in a network of both places: %v", got)
	}
}
