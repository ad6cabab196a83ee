package vrrp_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// apiBoth are the instances of the API VIPs of both families.
var apiBoth = append(slices.Clone(apiOnly), vrrp.Instance{
	Name: "shop_API_1", Kind: vrrp.API, VIP: addr("fd98::5"), Interface: "eth0", Source: addr("fd98::11"), Peers: addrs("fd98::12"), RouterID: 231,
})

// announces returns an advert with the VIPs that it is about.
func announces(from, by string, id uint8, vips ...string) vrrp.Frame {
	f := advertFrom(from, by, 65)
	f.RouterID, f.Announces = id, addrs(vips...)
	return f
}

func TestWhoClaimsAVIP(t *testing.T) {
	vip := addr("10.98.0.5")
	for _, c := range []struct {
		name      string
		frames    []vrrp.Frame
		claims    []state.VIPClaim
		namesakes []state.VIPClaim
	}{
		{"peers of both families announce their VIPs", []vrrp.Frame{announces("10.98.0.12", mac(12), 231, "10.98.0.5"), announces("fd98::12", mac(12), 231, "fd98::5")}, nil, nil},
		{"this host hears its own advert", []vrrp.Frame{announces("10.98.0.11", mac(11), 231, "10.98.0.5")}, nil, nil},
		{"somebody has another router id", []vrrp.Frame{announces("10.98.0.99", mac(99), 7, "10.98.0.5")}, nil, nil},
		{
			"a host that may not hold it announces it",
			[]vrrp.Frame{announces("10.98.0.31", mac(31), 231, "10.98.0.5")},
			[]state.VIPClaim{{By: "10.98.0.31", RouterID: 231, Host: "h31"}},
			nil,
		},
		{
			"two strangers, in whatever order they are heard",
			[]vrrp.Frame{answersFor("10.98.0.5", mac(99)), answersFor("10.98.0.5", mac(98)), answersFor("10.98.0.5", mac(99))},
			[]state.VIPClaim{{VIP: vip, By: mac(98)}, {VIP: vip, By: mac(99)}},
			nil,
		},
		{
			"a peer is heard, answers, and announces nothing",
			[]vrrp.Frame{answersFor("10.98.0.12", mac(12)), answersFor("10.98.0.5", mac(12))},
			[]state.VIPClaim{{VIP: vip, By: mac(12), Host: "h12"}},
			nil,
		},
		{
			"a peer announced it and then gave it up",
			[]vrrp.Frame{advertFrom("10.98.0.12", mac(12), 65), advertFrom("10.98.0.12", mac(12), 0), answersFor("10.98.0.5", mac(99))},
			nil, nil,
		},
		{
			"a peer announces an ingress VIP alone",
			[]vrrp.Frame{announces("10.98.0.12", mac(12), 7, "10.98.0.6"), answersFor("10.98.0.5", mac(99))},
			[]state.VIPClaim{{VIP: vip, By: mac(99)}},
			nil,
		},
	} {
		claims, namesakes := vrrp.Claims(heard(nil, c.frames...), told(), apiBoth)
		if diff := cmp.Diff(c.claims, claims, cmpopts.EquateComparable(vip)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if diff := cmp.Diff(c.namesakes, namesakes, cmpopts.EquateComparable(vip)); diff != "" {
			t.Errorf("%s, namesakes: %s", c.name, diff)
		}
	}
}

func TestWhichAdvertsAreForged(t *testing.T) {
	vip, peer := addr("10.98.0.5"), addr("10.98.0.12")
	ingress := apiOnly[0]
	ingress.Kind = vrrp.Ingress
	elsewhere := heard(nil)
	elsewhere.Neighbours = map[netip.Addr]string{peer: mac(77)}
	stolen := heard(nil)
	stolen.Neighbours = map[netip.Addr]string{peer: mac(99)}
	for _, c := range []struct {
		name     string
		heard    vrrp.Heard
		instance vrrp.Instance
		frames   []vrrp.Frame
		want     []state.ForgedAdvert
	}{
		{"the highest priority of the API", heard(nil), apiOnly[0], []vrrp.Frame{advertFrom("10.98.0.12", mac(12), 70)}, nil},
		{"one more", heard(nil), apiOnly[0], []vrrp.Frame{advertFrom("10.98.0.12", mac(12), 71)}, []state.ForgedAdvert{{VIP: vip, As: peer, By: mac(12), Excess: true}}},
		{"the highest priority of ingress", heard(nil), ingress, []vrrp.Frame{advertFrom("10.98.0.12", mac(12), 80)}, nil},
		{"one more", heard(nil), ingress, []vrrp.Frame{advertFrom("10.98.0.12", mac(12), 81)}, []state.ForgedAdvert{{VIP: vip, As: peer, By: mac(12), Excess: true}}},
		{"this host's own, from its NIC", heard(nil), apiOnly[0], []vrrp.Frame{advertFrom("10.98.0.11", mac(11), 65)}, nil},
		{"this host's own, from another NIC that its interface has", heard(nil), apiOnly[0], []vrrp.Frame{advertFrom("10.98.0.11", mac(111), 65)}, nil},
		{
			"a NIC that the host could not report yet, and another address on the old one", elsewhere, apiOnly[0],
			[]vrrp.Frame{advertFrom("10.98.0.12", mac(77), 65), answersFor("10.98.0.200", mac(12))},
			nil,
		},
		{
			"the same NIC, and the host sends adverts from its own", stolen, apiOnly[0],
			[]vrrp.Frame{advertFrom("10.98.0.12", mac(99), 65), advertFrom("10.98.0.12", mac(12), 65)},
			[]state.ForgedAdvert{{VIP: vip, As: peer, By: mac(99)}},
		},
		{
			"several, each once and in order", heard(nil), apiOnly[0],
			[]vrrp.Frame{advertFrom("10.98.0.12", mac(99), 65), advertFrom("10.98.0.12", mac(98), 65), advertFrom("10.98.0.11", mac(99), 65), advertFrom("10.98.0.12", mac(99), 65)},
			[]state.ForgedAdvert{{VIP: vip, As: addr("10.98.0.11"), By: mac(99)}, {VIP: vip, As: peer, By: mac(98)}, {VIP: vip, As: peer, By: mac(99)}},
		},
	} {
		v := told()
		v.Hardware = map[string][]string{"eth0": {mac(111)}}
		c.heard.Frames = c.frames
		if diff := cmp.Diff(c.want, vrrp.Forged(c.heard, v, []vrrp.Instance{c.instance}), cmpopts.EquateComparable(vip)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestAReportOfHardwareIsAboutTheHostsOwnAddressAndShort(t *testing.T) {
	bond := func(members int) (out []string) {
		for n := range members {
			out = append(out, mac(100+n))
		}
		return out
	}
	liar := says(worker(32), map[string][]string{"10.98.0.31": {mac(32)}})
	for _, c := range []struct {
		name string
		node state.Node
		want int
	}{
		{"of 16 members of a bond", says(worker(31), map[string][]string{"10.98.0.31": bond(16)}), 16},
		{"of 17", says(worker(31), map[string][]string{"10.98.0.31": bond(17)}), 0},
	} {
		if got := vrrp.Says(viewOf(11, c.node, liar), addr("10.98.0.31")); len(got) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestWhoIsAskedWhetherItAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.NetworkView)
		want   int
	}{
		{"the two others that are not live", func(*state.NetworkView) {}, 2},
		{"one without an address cannot be asked", func(v *state.NetworkView) { v.Nodes.Value[1].Addresses = nil }, 1},
		{"a host that is not listed asks nobody", func(v *state.NetworkView) { v.Host.NodeName = "h99" }, 0},
		{"a worker asks nobody", func(v *state.NetworkView) { v.Nodes.Value[0] = worker(11) }, 0},
	} {
		v := viewOf(11, slices.Clone(three)...)
		v.Balancer = live()
		c.change(&v)
		if got := vrrp.Doubted(v); len(got) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestWhatOnlyAControlPlaneThatIsListedCanLose(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.NetworkView)
		cut    bool
	}{
		{"both others do not answer", func(*state.NetworkView) {}, true},
		{"nobody was asked", func(v *state.NetworkView) { v.Reachable.Known = false }, false},
		{"haproxy's last answer names a live one, and it does not answer now", func(v *state.NetworkView) { v.Balancer = live("h12"); v.Balancer.Known = false }, true},
		{"it is not listed", func(v *state.NetworkView) { v.Host.NodeName = "h99" }, false},
		{"it is a worker", func(v *state.NetworkView) { v.Nodes.Value[0] = worker(11) }, false},
		{"one does not answer, and neither does its own name", func(v *state.NetworkView) { v.Reachable = state.Known(map[string]bool{"h12": false, "h11": false}) }, false},
		{"one does not answer, and the other was not asked", func(v *state.NetworkView) { v.Reachable = state.Known(map[string]bool{"h12": false}) }, false},
	} {
		v := viewOf(11, slices.Clone(three)...)
		v.Balancer, v.LocalAPI, v.Reachable = live(), state.Known(false), state.Known(map[string]bool{"h12": false, "h13": false})
		c.change(&v)
		if got := weight(v); (got.Value == vrrp.Fault) != c.cut {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
