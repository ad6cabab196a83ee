package vrrp_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

var three = []state.Node{master(11), master(12), master(13)}

// names lists the instances in short.
func names(v vrrp.Verdict) string {
	if !v.Known {
		return "as it is"
	}
	var out []string
	for _, i := range v.Instances {
		out = append(out, strings.TrimPrefix(i.Name, "shop_"))
	}
	return strings.Join(out, " ")
}

const both = "API_0 API_1 INGRESS_0 INGRESS_1"

// A failed look-up leaves the nodes unknown or as they were; docs/facts/network.md#mended-there, B1.
func TestB1_WithoutAListOfNodesNothingIsDecided(t *testing.T) {
	unknown, empty := viewOf(11, three...), viewOf(11)
	unknown.Nodes = state.Fact[[]state.Node]{}
	for name, v := range map[string]state.NetworkView{"unknown": unknown, "empty": empty} {
		if got := names(vrrp.Instances(v)); got != "as it is" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := names(vrrp.Instances(state.NetworkView{})); got != "as it is" {
		t.Errorf("without settings: %s", got)
	}
}

func TestB2_HealthIsDecidedAlsoWhileTheNodesAreUnknown(t *testing.T) {
	v := viewOf(11)
	v.Nodes = state.Fact[[]state.Node]{}
	v.Balancer, v.Redirected = state.Known(state.Balancer{Backends: map[string]bool{"h11": true}}), true
	h, _ := vrrp.Follow(vrrp.Health{}, v, false, epoch)
	if w := vrrp.APIWeight(v, h, state.Fact[int]{}); w.Value != 25 {
		t.Errorf("healthy, and the weight is %+v", w)
	}
	v.Balancer = state.Fact[state.Balancer]{}
	h, _ = vrrp.Follow(h, v, true, epoch)
	if w := vrrp.APIWeight(v, h, state.Fact[int]{}); w.Value != 0 {
		t.Errorf("haproxy is gone, and the weight is %+v", w)
	}
}

func TestB3_AControlPlaneThatIsListedAloneWaitsForTheOthers(t *testing.T) {
	v := viewOf(12, master(12))
	v.Stage = state.StageReady
	if got := names(vrrp.Instances(v)); got != "as it is" {
		t.Error(got)
	}
}

func TestB4_AHostThatTheClusterDoesNotListHoldsNothing(t *testing.T) {
	if got := vrrp.Instances(viewOf(14, three...)); !got.Known || len(got.Instances) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestB5_PeersAreOfTheVIPsFamily(t *testing.T) {
	for _, i := range vrrp.Instances(viewOf(11, three...)).Instances {
		for _, a := range append(i.Peers, i.Source) {
			if a.Is4() != i.VIP.Is4() {
				t.Errorf("%s has %s", i.Name, a)
			}
		}
		if len(i.Peers) != 2 {
			t.Errorf("%s has the peers %v", i.Name, i.Peers)
		}
	}
}

// Two ways to find a host's address may return different ones; here there is one
// way.
func TestB6_WhatOneListsAsAPeerIsWhatTheOtherSendsFrom(t *testing.T) {
	odd := []state.Node{master(11), master(12), master(13)}
	odd[0].Addresses = addrs("10.98.0.11", "fd98::a:11", "fd98::11") // DHCPv6 beside SLAAC
	odd[1].Addresses = addrs("192.168.7.12", "fd11::12", "10.98.0.12", "fd98::12")
	sources, listed := map[netip.Addr]int{}, map[netip.Addr]int{}
	for n := 11; n <= 13; n++ {
		v := viewOf(n, odd...)
		if n == 11 {
			v.Addresses = append(v.Addresses, on("eth0", "fd98::a:11", 128))
		}
		if n == 12 {
			v.Addresses = append(v.Addresses, on("eth1", "192.168.7.12", 24), on("eth1", "fd11::12", 64))
		}
		for _, i := range vrrp.Instances(v).Instances {
			if i.Kind == vrrp.API {
				sources[i.Source]++
				for _, p := range i.Peers {
					listed[p]++
				}
			}
		}
	}
	for a := range sources {
		if listed[a] != 2 {
			t.Errorf("%s is listed by %d of 2 others", a, listed[a])
		}
	}
	if len(sources) != 6 || len(listed) != 6 {
		t.Errorf("sources %v, listed %v", sources, listed)
	}
}

func TestB8_AMappedIPv4AddressIsIPv4(t *testing.T) {
	nodes := []state.Node{master(11), master(12)}
	nodes[1].Addresses = addrs("::ffff:10.98.0.12", "fd98::12")
	got := vrrp.Instances(viewOf(11, nodes...)).Instances[0]
	if diff := cmp.Diff("[10.98.0.12]", fmt.Sprint(got.Peers)); diff != "" {
		t.Error(diff)
	}
}

// There is no annotation to fall back to: the node takes part in the family that it
// reports.
func TestB9_ANodeThatTellsOneFamilyTakesPartInThatFamily(t *testing.T) {
	nodes := []state.Node{master(11), master(12), master(13)}
	nodes[0].Addresses = addrs("10.98.0.11")
	if got := names(vrrp.Instances(viewOf(11, nodes...))); got != "API_0 INGRESS_0" {
		t.Error(got)
	}
	if got := vrrp.Instances(viewOf(12, nodes...)).Instances[1]; len(got.Peers) != 1 {
		t.Errorf("%s has the peers %v", got.Name, got.Peers)
	}
}

func TestB10_AVIPOutsideEverySubnetIsHeldByTheNodeAddresses(t *testing.T) {
	v := viewOf(11, three...)
	v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("172.20.0.5"), nil
	got := vrrp.Instances(v)
	if names(got) != "API_0" || len(got.Instances[0].Peers) != 2 || got.Instances[0].Device != "eth0" {
		t.Errorf("%+v", got)
	}
}

func TestB11_OverlappingLookingIPv6NetworksStayApart(t *testing.T) {
	v := viewOf(11, three...)
	v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("fd98::f05"), nil
	v.Addresses = []state.HostAddress{on("eth0", "fd98::11", 120), on("eth1", "fd98::f11", 120)}
	if got := vrrp.Instances(v); len(got.Instances) != 1 || got.Instances[0].Device != "eth1" {
		t.Errorf("%+v", got)
	}
}

func TestB12_AnAddressOfDHCPv6FindsItsNetworkByTheRoute(t *testing.T) {
	v := viewOf(11, three...)
	v.Addresses = []state.HostAddress{on("eth0", "10.98.0.11", 24), on("eth0", "fd98::11", 128), on("eth1", "fd11::11", 64)}
	v.Routes = []state.HostRoute{link("eth0", "fd98::/64"), {Destination: netip.MustParsePrefix("::/0"), Gateway: addr("fe80::1"), Interface: "eth1"}}
	got := vrrp.Instances(v)
	if names(got) != both || got.Instances[1].Source != addr("fd98::11") || got.Instances[1].Device != "eth0" || len(got.Instances[1].Peers) != 2 {
		t.Errorf("%+v", got.Instances)
	}
}

// The vectors were computed with the implementation that others run, so that
// they can be told apart: docs/facts/network.md#weights.
func TestB13_RouterIDsAreThePublishedOnesAndNeverZeroNorEqual(t *testing.T) {
	for cluster, want := range map[string][2]uint8{
		"cnf10": {147, 2}, "cnf11": {228, 147}, "ostest": {14, 93},
		"holdfast": {77, 92}, "prod": {2, 33}, "lab-1": {231, 102},
	} {
		api, ingress := vrrp.RouterIDs(cluster)
		if got := [2]uint8{api, ingress}; got != want {
			t.Errorf("%s: got %v, want %v", cluster, got, want)
		}
	}
	for a := range 200 {
		for b := range 200 {
			name := fmt.Sprint(a, "-", b)
			if api, ingress := vrrp.RouterIDs(name); api == 0 || ingress == 0 || api == ingress {
				t.Errorf("%s: api %d, ingress %d", name, api, ingress)
			}
		}
	}
}

func TestB14_RouterIDsCanBeSetAndStayApart(t *testing.T) {
	for _, c := range []struct{ api, ingress, wantAPI, wantIngress uint8 }{
		{0, 0, 77, 92},
		{9, 0, 9, 92},
		{0, 9, 77, 9},
		{9, 10, 9, 10},
		{92, 0, 92, 93},
		{0, 77, 78, 77},
		{255, 255, 255, 1},
	} {
		got := vrrp.IDs(state.NetworkSettings{Cluster: "holdfast", RouterIDs: state.RouterIDs{API: c.api, Ingress: c.ingress}})
		if got != (state.RouterIDs{API: c.wantAPI, Ingress: c.wantIngress}) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestB15_AnAddressThatIsOnItsWayToABridgeDecidesNothing(t *testing.T) {
	v := viewOf(11, three...)
	v.Addresses = []state.HostAddress{on("lo", "127.0.0.1", 8)}
	if got := names(vrrp.Instances(v)); got != "as it is" {
		t.Error(got)
	}
	v.Addresses = []state.HostAddress{on("bond0.354", "10.98.0.11", 24), on("br-very-long-15", "fd98::11", 64)}
	got := vrrp.Instances(v)
	if names(got) != both || got.Instances[0].Interface != "bond0.354" || got.Instances[1].Device != "br-very-long-15" {
		t.Errorf("%+v", got)
	}
}

func TestB28_FamiliesMoveTogetherWhereAskedFor(t *testing.T) {
	v := viewOf(11, three...)
	if vrrp.Instances(v).Sync {
		t.Error("not asked for")
	}
	v.Settings.SyncFamilies = true
	if !vrrp.Instances(v).Sync {
		t.Error("asked for")
	}
}

func TestB66_AWorkerBehindARouterHoldsNothing(t *testing.T) {
	far := worker(21)
	far.Addresses = addrs("10.77.0.21")
	v := viewOf(21, append([]state.Node{far}, three...)...)
	v.Role, v.Addresses = state.RoleWorker, []state.HostAddress{on("eth0", "10.77.0.21", 24)}
	if got := vrrp.Instances(v); !got.Known || len(got.Instances) != 0 {
		t.Errorf("%+v", got)
	}
	// On the subnet of the ingress VIP it takes part in that VIP.
	v.Settings.IngressVIPs = addrs("10.77.0.6")
	if got := names(vrrp.Instances(v)); got != "INGRESS_0" {
		t.Error(got)
	}
	near := vrrp.Instances(viewOf(11, append([]state.Node{far}, three...)...))
	for _, i := range near.Instances {
		if len(i.Peers) != 2 {
			t.Errorf("%s sends to %v", i.Name, i.Peers)
		}
	}
}

func TestH5_EachFamilyIsDecidedByItself(t *testing.T) {
	v := viewOf(11, three...)
	v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("fd98::5"), addrs("10.98.0.6")
	got := vrrp.Instances(v)
	if names(got) != "API_0 INGRESS_0" || got.Instances[0].Source != addr("fd98::11") || got.Instances[1].Source != addr("10.98.0.11") {
		t.Errorf("%+v", got)
	}
}

func TestH9_TheOrderOfANodesAddressesIsReadOneWay(t *testing.T) {
	nodes := []state.Node{master(11), master(12)}
	nodes[1].Addresses = addrs("10.98.0.112", "10.98.0.12", "fd98::12")
	a := vrrp.Instances(viewOf(11, nodes...)).Instances[0].Peers
	v := viewOf(12, nodes...)
	v.Addresses = append(v.Addresses, on("eth0", "10.98.0.112", 24))
	if b := vrrp.Instances(v).Instances[0].Source; len(a) != 1 || a[0] != b {
		t.Errorf("the one lists %v, the other sends from %s", a, b)
	}
}

func TestH10_AClusterThatShrankToOneControlPlaneIsHeldByThatOne(t *testing.T) {
	got := vrrp.Instances(viewOf(11, master(11), worker(21)))
	if names(got) != both || len(got.Instances[0].Peers) != 0 || len(got.Instances[2].Peers) != 1 {
		t.Errorf("%+v", got)
	}
}

// An incomplete list lacks this host, or lacks the others while one is new.
func TestHardCase13_ALookUpThatFailsOrReturnsNothingChangesNothing(t *testing.T) {
	whole := vrrp.Instances(viewOf(11, three...))
	if names(whole) != both {
		t.Fatal(names(whole))
	}
	failed := viewOf(11, three...) // a source that fails leaves its part unchanged
	if diff := cmp.Diff(names(whole), names(vrrp.Instances(failed))); diff != "" {
		t.Error(diff)
	}
	if got := names(vrrp.Instances(viewOf(11))); got != "as it is" {
		t.Error("empty:", got)
	}
}

func TestHardCase14_GrowthAndShrinkFollowTheNodes(t *testing.T) {
	nodes := []state.Node{master(11), master(12), master(13), master(14), master(15)}
	for _, n := range []int{1, 3, 5, 4, 3, 2, 1} {
		v := viewOf(11, nodes[:n]...)
		if got := vrrp.Instances(v); names(got) != both || len(got.Instances[0].Peers) != n-1 {
			t.Errorf("%d control planes: %+v", n, got)
		}
	}
}

func TestHardCase14_TheFirstHostOfTwoHoldsTheVIPAlone(t *testing.T) {
	v := viewOf(11, master(11))
	v.Settings.ControlPlanes, v.Settings.Fencing, v.Role, v.Stage = 2, true, state.RoleBootstrap, state.StageReady
	if got := names(vrrp.Instances(v)); got != both {
		t.Error(got)
	}
	v.Nodes = state.Fact[[]state.Node]{}
	if got := names(vrrp.Instances(v)); got != "API_0 API_1" {
		t.Error("before it knows its nodes:", got)
	}
}

// SLAAC, DHCPv6, a unique local and a temporary address on one interface.
func TestHardCase16_OfManyAddressesTheNodesOwnIsUsed(t *testing.T) {
	nodes := []state.Node{master(11), master(12)}
	nodes[0].Addresses = addrs("2001:db8::d:11", "10.98.0.11")
	nodes[1].Addresses = addrs("2001:db8::d:12", "10.98.0.12")
	v := viewOf(11, nodes...)
	v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("2001:db8::5"), nil
	v.Addresses = []state.HostAddress{
		on("eth0", "fe80::1", 64), on("eth0", "2001:db8::aaaa:bbff:fecc:dddd", 64), on("eth0", "2001:db8::7e37:1", 64),
		on("eth0", "fd98::11", 64), on("eth0", "2001:db8::d:11", 128), on("eth0", "10.98.0.11", 24),
	}
	got := vrrp.Instances(v).Instances
	if len(got) != 1 || got[0].Source != addr("2001:db8::d:11") || fmt.Sprint(got[0].Peers) != "[2001:db8::d:12]" {
		t.Errorf("%+v", got)
	}
}

func TestHardCase36_TheBootstrappingHostNeedsNoViewAndOutranksAll(t *testing.T) {
	v := viewOf(11)
	v.Role, v.Stage, v.Nodes = state.RoleBootstrap, state.StageInstalling, state.Fact[[]state.Node]{}
	if got := names(vrrp.Instances(v)); got != "API_0 API_1" {
		t.Error(got)
	}
	other := viewOf(12, three...)
	other.Balancer, other.Redirected, other.LocalAPI = live("h12"), true, state.Known(true)
	h, _ := vrrp.Follow(vrrp.Health{}, other, false, epoch)
	best := vrrp.APIWeight(other, h, state.Fact[int]{}).Value
	if got := vrrp.APIWeight(v, vrrp.Health{}, state.Fact[int]{}).Value; got <= best {
		t.Errorf("bootstrap %d, a control plane at its best %d", got, best)
	}
	v.Host.Addresses = nil
	if got := names(vrrp.Instances(v)); got != "as it is" {
		t.Error("without addresses:", got)
	}
}

func TestHardCase40_AHostThatMustNotHoldAVIPHasNoInstance(t *testing.T) {
	v := viewOf(11, master(11), master(12))
	v.Settings.Fencing, v.MayHold = true, state.Known(false)
	if got := vrrp.Instances(v); !got.Known || len(got.Instances) != 0 {
		t.Errorf("%+v", got)
	}
	v.MayHold = state.Fact[bool]{}
	if got := names(vrrp.Instances(v)); got != both {
		t.Error(got)
	}
}

func TestHostsWithoutVIPsOrNotYetReadyHaveNoInstance(t *testing.T) {
	for name, change := range map[string]func(*state.NetworkView){
		"platform none":  func(v *state.NetworkView) { v.Settings.APIVIPs, v.Settings.IngressVIPs = nil, nil },
		"user-managed":   func(v *state.NetworkView) { v.Settings.ManagedVIPs = false },
		"still installs": func(v *state.NetworkView) { v.Stage = state.StageInstalling },
	} {
		v := viewOf(12, three...)
		change(&v)
		if got := vrrp.Instances(v); !got.Known || len(got.Instances) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAWorkerTakesPartInTheIngressVIPsOnly(t *testing.T) {
	v := viewOf(21, append([]state.Node{worker(21)}, three...)...)
	v.Role = state.RoleWorker
	got := vrrp.Instances(v)
	if names(got) != "INGRESS_0 INGRESS_1" || len(got.Instances[0].Peers) != 3 {
		t.Errorf("%+v", got)
	}
}

// B9: kubelet reports one family, the host's agent both.
func TestB09_AnAddressThatOnlyTheAgentTellsCounts(t *testing.T) {
	nodes := []state.Node{master(11), master(12)}
	for i := range nodes {
		report := state.VIPReport{}
		for _, a := range nodes[i].Addresses {
			report.Addresses = append(report.Addresses, netip.PrefixFrom(a, map[bool]int{true: 24, false: 64}[a.Is4()]))
		}
		nodes[i].Addresses = nodes[i].Addresses[:1]
		nodes[i].Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(report)}
	}
	v := vrrp.Instances(viewOf(11, nodes...))
	for _, i := range v.Instances {
		if i.VIP != addr("fd98::5") {
			continue
		}
		if i.Source != addr("fd98::11") || len(i.Peers) != 1 || i.Peers[0] != addr("fd98::12") {
			t.Errorf("%+v", i)
		}
		return
	}
	t.Errorf("no instance of fd98::5 in %+v", v)
}
