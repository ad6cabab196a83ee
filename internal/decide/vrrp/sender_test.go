package vrrp_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// mac returns the hardware address of the host with that last part.
func mac(n int) string { return fmt.Sprintf("02:00:00:00:00:%02x", n) }

// says returns a node whose agent reports hardware addresses.
func says(n state.Node, hardware map[string][]string) state.Node {
	report := state.VIPReport{Hardware: map[netip.Addr][]string{}}
	for a, list := range hardware {
		report.Hardware[addr(a)] = list
		report.Addresses = append(report.Addresses, netip.PrefixFrom(addr(a), 24))
	}
	n.Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(report)}
	return n
}

// told is the view of two control planes and a worker that report where they send
// from.
func told() state.NetworkView {
	return viewOf(11,
		says(master(11), map[string][]string{"10.98.0.11": {mac(11)}}),
		says(master(12), map[string][]string{"10.98.0.12": {mac(12), mac(112)}}),
		says(worker(31), map[string][]string{"10.98.0.31": {mac(31)}}))
}

var apiOnly = []vrrp.Instance{{
	Name: "shop_API_0", Kind: vrrp.API, VIP: addr("10.98.0.5"), Interface: "eth0",
	Source: addr("10.98.0.11"), Peers: addrs("10.98.0.12", "10.98.0.13"), RouterID: 231,
}}

func heard(neighbours map[netip.Addr]string, frames ...vrrp.Frame) vrrp.Heard {
	return vrrp.Heard{Own: []string{mac(11)}, Frames: frames, Neighbours: neighbours}
}

func advertFrom(a, by string, priority uint8) vrrp.Frame {
	return vrrp.Frame{MAC: by, Advert: true, Source: addr(a), RouterID: 231, Priority: priority}
}

func answersFor(a, by string) vrrp.Frame { return vrrp.Frame{MAC: by, Claims: addr(a)} }

// A host kept the VIP from all others although it was off and a switch answered for
// its address, or although it had lost keepalived and agent at once.
func TestAVIPThatAnotherHostLeftBehindIsTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames []vrrp.Frame
		want   []state.VIPClaim
	}{
		{"a host answers and announces nothing", []vrrp.Frame{answersFor("10.98.0.5", mac(112))}, []state.VIPClaim{{VIP: addr("10.98.0.5"), By: mac(112), Host: "h12"}}},
		{"a worker answers", []vrrp.Frame{answersFor("10.98.0.5", mac(31))}, []state.VIPClaim{{VIP: addr("10.98.0.5"), By: mac(31), Host: "h31"}}},
		{"a stranger answers", []vrrp.Frame{answersFor("10.98.0.5", mac(99))}, []state.VIPClaim{{VIP: addr("10.98.0.5"), By: mac(99)}}},
		{"a host answers and announces it", []vrrp.Frame{answersFor("10.98.0.5", mac(12)), advertFrom("10.98.0.12", mac(12), 65)}, nil},
		{"a stranger answers and sends in a peer's name", []vrrp.Frame{answersFor("10.98.0.5", mac(99)), advertFrom("10.98.0.12", mac(99), 65)}, []state.VIPClaim{{VIP: addr("10.98.0.5"), By: mac(99)}}},
		{"a stranger answers while a peer greets", []vrrp.Frame{answersFor("10.98.0.5", mac(99)), advertFrom("10.98.0.12", mac(12), 1)}, []state.VIPClaim{{VIP: addr("10.98.0.5"), By: mac(99)}}},
		{"a peer of an older version answers and announces it", []vrrp.Frame{answersFor("10.98.0.5", mac(13)), advertFrom("10.98.0.13", mac(113), 65)}, nil},
	} {
		got, _ := vrrp.Claims(heard(nil, c.frames...), told(), apiOnly)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(addr("::"))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestAVIPThatAnotherHostLeftBehindIsTaken(t *testing.T) {
	v := viewOf(11, three...)
	v.Claims = []state.VIPClaim{{VIP: addr("10.98.0.5"), By: mac(12), Host: "h12"}}
	if why := vrrp.Barred(v, apiOnly[0]); why != "" {
		t.Errorf("barred: %s", why)
	}
	v.Claims = append(v.Claims, state.VIPClaim{VIP: addr("10.98.0.5"), By: mac(99)})
	if why := vrrp.Barred(v, apiOnly[0]); why == "" {
		t.Error("a stranger's VIP is taken")
	}
}

func TestAnAdvertInANameThatIsNotTheSendersIsForged(t *testing.T) {
	vip, peer, old := addr("10.98.0.5"), addr("10.98.0.12"), addr("10.98.0.13")
	for _, c := range []struct {
		name       string
		neighbours map[netip.Addr]string
		frames     []vrrp.Frame
		want       []state.ForgedAdvert
	}{
		{"a peer's own", nil, []vrrp.Frame{advertFrom("10.98.0.12", mac(12), 65), advertFrom("10.98.0.12", mac(112), 0)}, nil},
		{"from another NIC", nil, []vrrp.Frame{advertFrom("10.98.0.12", mac(99), 65)}, []state.ForgedAdvert{{VIP: vip, As: peer, By: mac(99)}}},
		{"from that of a worker", nil, []vrrp.Frame{advertFrom("10.98.0.12", mac(31), 65)}, []state.ForgedAdvert{{VIP: vip, As: peer, By: mac(31)}}},
		{"with a priority that nobody has, from the peer's", nil, []vrrp.Frame{advertFrom("10.98.0.12", mac(12), 255)}, []state.ForgedAdvert{{VIP: vip, As: peer, By: mac(12), Excess: true}}},
		{"the host that brings the cluster up", nil, []vrrp.Frame{advertFrom("10.98.0.12", mac(12), 70)}, nil},
		{"a new NIC that the kernel knows", map[netip.Addr]string{peer: mac(77)}, []vrrp.Frame{advertFrom("10.98.0.12", mac(77), 65)}, nil},
		{
			"one that the kernel was made to believe, and the host is heard too",
			map[netip.Addr]string{peer: mac(99)},
			[]vrrp.Frame{advertFrom("10.98.0.12", mac(99), 65), answersFor("10.98.0.12", mac(12))},
			[]state.ForgedAdvert{{VIP: vip, As: peer, By: mac(99)}},
		},
		{"a peer that says nothing of itself", nil, []vrrp.Frame{advertFrom("10.98.0.13", mac(99), 65)}, nil},
		{"the same with a priority that nobody has", nil, []vrrp.Frame{advertFrom("10.98.0.13", mac(99), 255)}, []state.ForgedAdvert{{VIP: vip, As: old, By: mac(99), Excess: true}}},
		{"in this host's own name", nil, []vrrp.Frame{advertFrom("10.98.0.11", mac(99), 65)}, []state.ForgedAdvert{{VIP: vip, As: addr("10.98.0.11"), By: mac(99)}}},
		{"a stranger in his own name", nil, []vrrp.Frame{advertFrom("10.98.0.99", mac(99), 255)}, nil},
		{"another router id", nil, []vrrp.Frame{{MAC: mac(99), Advert: true, Source: peer, RouterID: 7, Priority: 255}}, nil},
	} {
		got := vrrp.Forged(heard(c.neighbours, c.frames...), told(), apiOnly)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(vip)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestAPeersAdvertsAreLetInFromItsOwnNICsUnlessItIsReachedElsewhere(t *testing.T) {
	peer := addr("10.98.0.12")
	for _, c := range []struct {
		name string
		at   string
		want []string
	}{
		{"it was never reached", "", []string{mac(12), mac(112)}},
		{"it is reached where it says", mac(112), []string{mac(12), mac(112)}},
		{"it is reached elsewhere", mac(77), nil},
	} {
		neighbours := map[netip.Addr]string{}
		if c.at != "" {
			neighbours[peer] = c.at
		}
		got := vrrp.Senders(told(), apiOnly, neighbours)
		if !slices.Equal(got[peer], c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
		if _, bound := got[addr("10.98.0.13")]; bound {
			t.Errorf("%s: a peer that says nothing is bound: %v", c.name, got)
		}
	}
}

// TestAPeerOfASiteThatMovesIsHeardAtEitherAddress: within one network nobody can tell whether it has moved
// yet, and two hosts that do not hear each other both hold the VIPs.
func TestAPeerOfASiteThatMovesIsHeardAtEitherAddress(t *testing.T) {
	also := addr("10.98.0.112")
	liar := says(worker(31), map[string][]string{"10.98.0.31": {mac(31)}, "10.98.0.112": {mac(31)}})
	moving := says(master(12), map[string][]string{"10.98.0.12": {mac(12)}})
	moving.Also = []netip.Addr{also, addr("10.98.0.5"), addr("10.77.0.12")} // a VIP, and where no advert gets
	v := viewOf(11, says(master(11), map[string][]string{"10.98.0.11": {mac(11)}}), moving, liar)
	for _, i := range vrrp.Instances(v).Instances {
		want := map[bool][]netip.Addr{true: addrs("10.98.0.12", "10.98.0.112"), false: addrs("fd98::12")}[i.VIP.Is4()]
		if i.Kind == vrrp.API && (!slices.Equal(i.Peers, want) || !i.Knows(moving)) {
			t.Errorf("%s: %v", i.Name, i.Peers)
		}
	}
	api := []vrrp.Instance{{Kind: vrrp.API, VIP: addr("10.98.0.5"), Source: addr("10.98.0.11"), Peers: addrs("10.98.0.12", "10.98.0.112"), RouterID: 231}}
	for at, want := range map[string][]string{"": {mac(12)}, mac(12): {mac(12)}, mac(77): nil} {
		neighbours := map[netip.Addr]string{}
		if at != "" {
			neighbours[also] = at
		}
		if got := vrrp.Senders(v, api, neighbours)[also]; !slices.Equal(got, want) {
			t.Errorf("reached at %q, its adverts are let in from %v, want %v", at, got, want)
		}
	}
	if claims, _ := vrrp.Claims(heard(nil, vrrp.Frame{MAC: mac(12), Advert: true, Source: also, RouterID: 231, Priority: 65, Announces: addrs("10.98.0.5")}), v, api); len(claims) > 0 {
		t.Errorf("the peer is a stranger at its other address: %v", claims)
	}
	forged := vrrp.Forged(heard(nil, advertFrom("10.98.0.112", mac(99), 65)), v, api)
	if len(forged) != 1 || forged[0].As != also {
		t.Errorf("a stranger sends in the peer's name: %v", forged)
	}
	moving = says(moving, map[string][]string{"10.98.0.12": {mac(12)}, "10.98.0.112": {mac(212)}})
	v.Nodes.Value[1] = moving
	if got := vrrp.Says(v, also); !slices.Equal(got, []string{mac(212)}) {
		t.Errorf("what the peer reports of the other address: %v", got)
	}
}

// A worker has a kubelet's account, and may write anything into its own Node.
func TestAWorkersWordAboutAControlPlanesAddressCountsNothing(t *testing.T) {
	liar := says(worker(31), map[string][]string{"10.98.0.12": {mac(31)}, "10.98.0.11": {mac(31)}, "10.99.0.12": {mac(31)}, "10.98.0.31": {mac(31)}})
	liar.Addresses = append(liar.Addresses, addr("10.98.0.12"))
	many := worker(32)
	var list []string
	for i := range 40 {
		list = append(list, mac(i))
	}
	many = says(many, map[string][]string{"10.98.0.32": list})
	v := told()
	v.Nodes.Value = []state.Node{
		v.Nodes.Value[0], says(master(12), map[string][]string{"10.98.0.12": {mac(12)}, "10.99.0.12": {mac(12)}}), liar, many,
	}
	got := map[string]string{}
	for _, a := range addrs("10.98.0.11", "10.98.0.12", "10.99.0.12", "10.98.0.31", "10.98.0.32") {
		got[a.String()] = strings.Join(vrrp.Says(v, a), " ")
	}
	want := map[string]string{"10.98.0.11": mac(11), "10.98.0.12": mac(12), "10.99.0.12": mac(12), "10.98.0.31": mac(31), "10.98.0.32": ""}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestAVIPIsOnTwoHostsOnlyIfBothAreOfTheCluster: whoever sends adverts or answers for an address would make
// each upgrade of a control plane return.
func TestAVIPIsOnTwoHostsOnlyIfBothAreOfTheCluster(t *testing.T) {
	api, ingress, spare := addr("10.98.0.5"), addr("10.98.0.6"), addr("10.98.0.7")
	for sentence, c := range map[string]struct {
		claim state.VIPClaim
		lacks bool // this host does not hold the VIPs
		want  bool
	}{
		"another control plane has the API's, too": {state.VIPClaim{VIP: api, By: mac(12), Host: "h12"}, false, true},
		"its hardware address alone answers":       {state.VIPClaim{VIP: spare, By: mac(12), Host: "h12"}, false, false},
		"this host has left it to that one":        {state.VIPClaim{VIP: api, By: mac(12), Host: "h12"}, true, false},
		"an advert in a control plane's name":      {state.VIPClaim{By: "10.98.0.12", RouterID: 231, Host: "h12"}, false, false},
		"an advert of a worker":                    {state.VIPClaim{By: "10.98.0.31", RouterID: 231, Host: "h31"}, false, false},
		"an advert of a stranger":                  {state.VIPClaim{By: "10.98.0.99", RouterID: 231}, false, false},
		"a stranger has it":                        {state.VIPClaim{VIP: api, By: mac(99)}, false, false},
		"a worker answers for it":                  {state.VIPClaim{VIP: api, By: mac(31), Host: "h31"}, false, false},
		"a worker left an ingress VIP behind":      {state.VIPClaim{VIP: ingress, By: mac(31), Host: "h31"}, false, false},
		"a control plane has an ingress VIP, too":  {state.VIPClaim{VIP: ingress, By: mac(12), Host: "h12"}, false, true},
	} {
		v := told()
		v.Settings.APIVIPs, v.Settings.IngressVIPs = []netip.Addr{api, spare}, []netip.Addr{ingress}
		v.Nodes.Value[1].Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{Holds: []netip.Addr{api, ingress}})}
		if v.Claims = []state.VIPClaim{c.claim}; !c.lacks {
			for _, a := range []netip.Addr{api, ingress, spare} {
				v.Addresses = append(v.Addresses, state.HostAddress{Prefix: netip.PrefixFrom(a, 32)})
			}
		}
		if got := vrrp.Shared(v); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
	}
}
