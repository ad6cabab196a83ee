package vrrp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// defaultLink is a default route without a gateway.
func defaultLink(nic string) state.HostRoute { return link(nic, "0.0.0.0/0") }

func TestOnWhichInterfaceAVIPIsHeld(t *testing.T) {
	behind := link("eth1", "172.20.0.0/16")
	behind.Gateway = addr("10.98.0.1")
	for _, c := range []struct {
		name      string
		vip       string
		addresses []state.HostAddress
		routes    []state.HostRoute
		machines  string
		want      string
	}{
		{"on that of its network", "10.99.0.5", []state.HostAddress{on("eth0", "10.98.0.11", 24), on("eth1", "10.99.0.11", 24)}, nil, "", "eth1"},
		{"on that of the narrower network, listed last", "10.98.0.5", []state.HostAddress{on("eth0", "10.98.0.11", 16), on("eth1", "10.98.0.12", 24)}, nil, "", "eth1"},
		{"on that of the narrower network, listed first", "10.98.0.5", []state.HostAddress{on("eth1", "10.98.0.12", 24), on("eth0", "10.98.0.11", 16)}, nil, "", "eth1"},
		{"on that of a route on the link", "172.20.0.5", []state.HostAddress{on("eth0", "10.98.0.11", 24)}, []state.HostRoute{link("eth1", "172.20.0.0/16")}, "", "eth1"},
		{"not where a gateway leads", "172.20.0.5", []state.HostAddress{on("eth0", "10.98.0.11", 24)}, []state.HostRoute{behind}, "", "eth0"},
		{"not where everything leads", "172.20.0.5", []state.HostAddress{on("eth0", "10.98.0.11", 24)}, []state.HostRoute{defaultLink("eth1")}, "", "eth0"},
		{"not where a route for it alone leads", "10.98.0.5", []state.HostAddress{on("eth0", "10.98.0.11", 24)}, []state.HostRoute{link("eth1", "10.98.0.5/32")}, "", "eth0"},
		{"not where a VIP is already", "10.98.0.5", []state.HostAddress{on("eth0", "10.97.0.11", 24), on("eth1", "10.98.0.6", 24)}, nil, "", "eth0"},
		{"on that of its machine network", "10.98.0.5", []state.HostAddress{on("eth0", "10.97.0.11", 24), on("eth1", "10.98.7.11", 24)}, nil, "10.98.0.0/16", "eth1"},
		{"on that of its machine network, with an address alone", "10.98.0.5", []state.HostAddress{on("eth0", "10.97.0.11", 24), on("eth1", "10.98.7.11", 32)}, nil, "10.98.0.0/16", "eth1"},
		{"on that of an address alone, listed last", "10.98.0.5", []state.HostAddress{on("eth0", "10.98.7.11", 24), on("eth1", "10.98.8.11", 32)}, nil, "10.98.0.0/16", "eth1"},
		{"on that of an address alone, listed first", "10.98.0.5", []state.HostAddress{on("eth1", "10.98.8.11", 32), on("eth0", "10.98.7.11", 24)}, nil, "10.98.0.0/16", "eth1"},
		{"not on that of a VIP in its machine network", "10.98.0.5", []state.HostAddress{on("eth1", "10.98.0.6", 32), on("eth2", "10.98.7.11", 24)}, nil, "10.98.0.0/16", "eth2"},
	} {
		v := viewOf(11, three...)
		v.Addresses, v.Routes = c.addresses, c.routes
		if c.machines != "" {
			v.Settings.MachineNetworks = prefixes(c.machines)
		}
		if nic, away := vrrp.Where(v, addr(c.vip)); nic != c.want || away != "" {
			t.Errorf("%s: on %s, %q", c.name, nic, away)
		}
	}
}

func TestWhyAHostMustNotHoldAVIP(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.NetworkView)
		want   string
	}{
		{"it is in no network of a worker", func(v *state.NetworkView) { v.Role = state.RoleWorker }, "is in no network of this worker"},
		{"before the kernel was asked", func(v *state.NetworkView) { v.Role, v.Addresses = state.RoleWorker, nil }, ""},
		{"it is in another machine network", func(v *state.NetworkView) { v.Settings.MachineNetworks = prefixes("10.98.0.0/24", "172.20.0.0/16") }, "is in 172.20.0.0/16, where this host has no address"},
		{"another host is in its network", func(v *state.NetworkView) { v.Nodes.Value[1] = reports(master(12), "172.20.0.12/24") }, "is in 172.20.0.0/24, as reported by h12, where this host has no address"},
		{"this host was in its network", func(v *state.NetworkView) { v.Nodes.Value[0] = reports(master(11), "172.20.0.11/24") }, ""},
		{"another host has an address alone", func(v *state.NetworkView) { v.Nodes.Value[1] = reports(master(12), "172.20.0.5/32") }, ""},
		{"another host reports the whole world", func(v *state.NetworkView) { v.Nodes.Value[1] = reports(master(12), "172.20.0.12/0") }, ""},
	} {
		v := viewOf(11, slices.Clone(three)...)
		c.change(&v)
		if _, away := vrrp.Where(v, addr("172.20.0.5")); away != c.want {
			t.Errorf("%s: %q", c.name, away)
		}
	}
}

// I4: a host whose address in the VIP's network its peers do not know would hold
// the VIP beside them. One that brings the cluster up has nobody to wait for.
func TestAHostWaitsUntilItsPeersKnowItInTheNetworkOfAVIP(t *testing.T) {
	known := bothKnown()
	known[0] = reports(master(11), "10.98.0.11/24") // its report of eth1 is not out
	v := twoNetworks(11, known...)
	got := vrrp.Instances(v)
	if names(got) != "API_0" || got.Why != "2 nodes, 2 control planes; 10.99.0.6 is in 10.99.0.0/24, where h12 does not know an address of this host yet" {
		t.Errorf("%s: %q", names(got), got.Why)
	}
	v.Role, v.Stage = state.RoleBootstrap, state.StageInstalling
	if got := vrrp.Instances(v); names(got) != "API_0 INGRESS_0" {
		t.Errorf("%s: %q", names(got), got.Why)
	}
}

func TestAnInstanceHasTheIdAndThePriorityOfItsKind(t *testing.T) {
	v := viewOf(11, three...)
	ids := vrrp.IDs(v.Settings)
	for _, i := range vrrp.Instances(v).Instances {
		id, priority := ids.API, vrrp.APIPriority
		if i.Kind == vrrp.Ingress {
			id, priority = ids.Ingress, vrrp.IngressPriority
		}
		if i.RouterID != id || i.Priority != priority || i.Interface != "eth0" || i.Device != "eth0" {
			t.Errorf("%+v", i)
		}
	}
}

// keepalived starts anew where its configuration differs, so the order in which
// nodes are listed must not show in it.
func TestPeersAreInOrderAndEachOnce(t *testing.T) {
	twin := master(12)
	twin.Name = "twin"
	v := viewOf(11, master(13), master(12), master(11), twin)
	for _, i := range vrrp.Instances(v).Instances {
		want := "[10.98.0.12 10.98.0.13]"
		if i.VIP.Is6() {
			want = "[fd98::12 fd98::13]"
		}
		if got := fmt.Sprint(i.Peers); got != want {
			t.Errorf("%s: %s", i.Name, got)
		}
	}
}

func TestWhatIsNoPeersAddress(t *testing.T) {
	odd := master(12)
	odd.Addresses = addrs("fe80::12", "10.98.0.5", "10.98.0.12") // on the link, a VIP, and its own
	v := viewOf(11, master(11), odd)
	v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("172.20.0.5", "fd77::5", "10.98.0.5"), nil
	for _, i := range vrrp.Instances(v).Instances {
		for _, p := range i.Peers {
			if p != addr("10.98.0.12") {
				t.Errorf("%s has the peer %s", i.Name, p)
			}
		}
	}
	// The host that brings the cluster up is listed with another address than that
	// which it sends from.
	self := master(11)
	self.Addresses = addrs("10.98.0.111")
	v = viewOf(11, self, master(12))
	v.Role, v.Stage, v.Settings.IngressVIPs = state.RoleBootstrap, state.StageReady, nil
	if got := vrrp.Instances(v).Instances; len(got) == 0 || fmt.Sprint(got[0].Peers) != "[10.98.0.12]" {
		t.Errorf("%+v", got)
	}
}

func TestBeforeTheKernelWasAskedTheHostsOwnFactsCount(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.NetworkView)
		want   string
	}{
		{"a control plane", func(*state.NetworkView) {}, both},
		{"a worker is not remote", func(v *state.NetworkView) { v.Role, v.Nodes.Value[0] = state.RoleWorker, worker(11) }, "INGRESS_0 INGRESS_1"},
		{"its interface is not known", func(v *state.NetworkView) { v.Host.Interface = "" }, "as it is"},
		{"its addresses are others", func(v *state.NetworkView) { v.Host.Addresses = addrs("10.98.0.99") }, "as it is"},
	} {
		v := viewOf(11, slices.Clone(three)...)
		v.Addresses = nil
		c.change(&v)
		got := vrrp.Instances(v)
		if names(got) != c.want {
			t.Errorf("%s: %s, %q", c.name, names(got), got.Why)
		}
		for _, i := range got.Instances {
			if i.Interface != "eth0" || i.Device != "eth0" {
				t.Errorf("%s: %+v", c.name, i)
			}
		}
	}
}

func TestAVerdictSaysWhy(t *testing.T) {
	alone := func(v *state.NetworkView) { v.Nodes.Value, v.Stage = v.Nodes.Value[:1], state.StageReady }
	for _, c := range []struct {
		change   func(*state.NetworkView)
		has, why string
	}{
		{func(*state.NetworkView) {}, both, "3 nodes, 3 control planes"},
		{func(v *state.NetworkView) { v.Settings.Cluster = "" }, "as it is", "the cluster's settings are not yet known"},
		{func(v *state.NetworkView) { v.Settings.ManagedVIPs = false }, "", "this cluster's hosts hold no VIP"},
		{func(v *state.NetworkView) { v.Settings.APIVIPs, v.Settings.IngressVIPs = nil, nil }, "", "this cluster's hosts hold no VIP"},
		{func(v *state.NetworkView) { v.MayHold = state.Known(false) }, "", "this host must not hold a VIP"},
		{func(v *state.NetworkView) { v.Stage = state.StageInstalling }, "", "this host is not ready yet"},
		{func(v *state.NetworkView) { v.Nodes.Known = false }, "as it is", "the nodes are unknown"},
		{func(v *state.NetworkView) { v.Nodes.Value = v.Nodes.Value[1:] }, "", "the cluster does not list this host"},
		{alone, "as it is", "the other control planes are not listed yet"},
		{func(v *state.NetworkView) { alone(v); v.Settings.ControlPlanes = 1 }, both, "1 nodes, 1 control planes"},
		{func(v *state.NetworkView) { v.Nodes.Value, v.Stage = v.Nodes.Value[:2], state.StageReady }, both, "2 nodes, 2 control planes"},
		{func(v *state.NetworkView) { v.Role, v.Nodes.Value[0] = state.RoleBootstrap, worker(11) }, "INGRESS_0 INGRESS_1", "3 nodes, 2 control planes"},
		{func(v *state.NetworkView) { v.Role, v.Stage = state.RoleBootstrap, state.StageReady }, both, "this host bootstraps the cluster"},
		{
			func(v *state.NetworkView) {
				v.Role, v.Stage, v.Host.Addresses = state.RoleBootstrap, state.StageReady, nil
			},
			"as it is", "this host's own addresses are not yet known",
		},
		{
			func(v *state.NetworkView) {
				v.Role, v.Nodes.Value[0], v.Addresses = state.RoleWorker, worker(11), []state.HostAddress{on("eth0", "10.77.0.11", 24)}
			}, "", "this host is on another network than the VIPs",
		},
		{func(v *state.NetworkView) { v.Addresses = v.Addresses[:1] }, "API_0 INGRESS_0", "3 nodes, 3 control planes; own address fd98::11 is not on any interface"},
		{func(v *state.NetworkView) { v.Addresses = []state.HostAddress{on("eth0", "10.77.0.11", 24)} }, "as it is", "own address 10.98.0.11, fd98::11 is not on any interface"},
	} {
		v := viewOf(11, slices.Clone(three)...)
		c.change(&v)
		if got := vrrp.Instances(v); names(got) != c.has || got.Why != c.why {
			t.Errorf("want %q for %q, got %q for %q", c.has, c.why, names(got), got.Why)
		}
	}
}

// A host that has lost its address of one family goes on with the other one: it knows a host that
// comes, which would take the VIPs beside it otherwise. What it had of the lost family stays.
func TestAHostWithoutAnAddressOfOneFamilyKnowsHostsThatCome(t *testing.T) {
	before := vrrp.Instances(viewOf(11, master(11), master(12)))
	v := viewOf(11, three...)
	v.Addresses = v.Addresses[:1]
	after := vrrp.Instances(v).After(before)
	if names(after) != names(before) {
		t.Fatalf("%s", names(after))
	}
	for _, i := range after.Instances {
		if v4 := i.VIP.Is4(); i.Knows(master(13)) != v4 || !i.Knows(master(12)) {
			t.Errorf("%s with the peers %v", i.Name, i.Peers)
		}
	}
	v.Addresses = viewOf(11, three...).Addresses
	if again := vrrp.Instances(v).After(after); len(again.Undecided) != 0 || !again.Instances[1].Knows(master(13)) {
		t.Errorf("with both families again: %+v", again)
	}
}

func TestEitherLabelMakesAControlPlane(t *testing.T) {
	for _, label := range []string{state.LabelControlPlane, state.LabelMaster} {
		if got := names(vrrp.Instances(viewOf(11, host(11, label), host(12, label), worker(21)))); got != both {
			t.Errorf("%s: %s", label, got)
		}
	}
}

func TestAnInstanceKnowsThePeersThatItHas(t *testing.T) {
	for _, i := range vrrp.Instances(viewOf(11, master(11), master(12))).Instances {
		if !i.Knows(master(12)) || i.Knows(master(13)) || i.Knows(state.Node{}) {
			t.Errorf("%s with the peers %v", i.Name, i.Peers)
		}
		if !i.Knows(reports(state.Node{}, i.Peers[0].String()+"/24")) {
			t.Errorf("%s does not know a peer by what it reports", i.Name)
		}
	}
}

// advertAsFrame wraps an advert as it goes over the wire.
func advertAsFrame(i vrrp.Instance, b []byte) []byte {
	if i.VIP.Is6() {
		head := append([]byte{0x60, 0, 0, 0, 0, byte(len(b)), 112, 255}, append(i.Source.AsSlice(), i.Peers[0].AsSlice()...)...)
		return slices.Concat(make([]byte, 12), []byte{0x86, 0xdd}, head, b)
	}
	head := append([]byte{0x45, 0, 0, byte(20 + len(b)), 0, 0, 0, 0, 255, 112, 0, 0}, append(i.Source.AsSlice(), i.Peers[0].AsSlice()...)...)
	return slices.Concat(make([]byte, 12), []byte{0x08, 0x00}, head, b)
}

func TestAnAdvertNamesItsVIP(t *testing.T) {
	// The parts of this one add up to all ones, of which nothing carries over.
	ones := vrrp.Instance{VIP: addr("10.98.174.74"), Source: addr("10.98.0.12"), Peers: addrs("10.98.0.11"), RouterID: 231}
	checkAdvert(t, ones, ones.Farewell(0, 20), 0)
	for _, i := range []vrrp.Instance{
		{VIP: addr("10.98.0.5"), Source: addr("10.98.0.12"), Peers: addrs("10.98.0.11"), RouterID: 231},
		{VIP: addr("fd98::5"), Source: addr("fd98::12"), Peers: addrs("fd98::11"), RouterID: 231},
	} {
		f, ok := vrrp.ParseFrame(advertAsFrame(i, i.Greeting(0, 20)))
		if !ok || f.Source != i.Source || f.RouterID != 231 || fmt.Sprint(f.Announces) != "["+i.VIP.String()+"]" {
			t.Errorf("%s: %v %+v", i.VIP, ok, f)
		}
	}
}

func TestWhatAClaimMeansAndWhatToDo(t *testing.T) {
	vip := addr("10.98.0.5")
	for _, c := range []struct {
		claim state.VIPClaim
		words []string
	}{
		{state.VIPClaim{By: "10.98.0.31", RouterID: 231, Host: "h31"}, []string{"h31 (10.98.0.31) sends VRRP adverts with router id 231", "second keepalived on h31"}},
		{state.VIPClaim{VIP: vip, By: mac(12), Host: "h12"}, []string{"VIP 10.98.0.5 is also answered for by h12 (02:00:00:00:00:0c), which does not announce it"}},
		{state.VIPClaim{VIP: vip, By: mac(99)}, []string{"VIP 10.98.0.5 is also held by the machine with hardware address 02:00:00:00:00:63", "remove the address from that machine"}},
		{state.VIPClaim{By: "10.98.0.99", RouterID: 231}, []string{"10.98.0.99, which is not a host of this cluster, sends VRRP adverts with our router id 231", "give one of the two clusters another VIP"}},
	} {
		text := vrrp.Explain(c.claim)
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%q is not in %q", w, text)
			}
		}
	}
	if text := vrrp.ExplainNamesake(state.VIPClaim{By: "10.98.0.2", RouterID: 231}); !strings.Contains(text, "10.98.0.2") || !strings.Contains(text, "they have no effect") {
		t.Error(text)
	}
	for excess, word := range map[bool]string{false: "which is not that host's", true: "with a priority that no host has"} {
		text := vrrp.ExplainForged(state.ForgedAdvert{VIP: vip, As: addr("10.98.0.12"), By: mac(99), Excess: excess})
		if !strings.Contains(text, word) || !strings.Contains(text, "in the name of 10.98.0.12 from hardware address "+mac(99)) {
			t.Errorf("%t: %q", excess, text)
		}
	}
}
