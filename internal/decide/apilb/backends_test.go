package apilb

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func controlPlane(name string, addresses ...string) state.Node {
	return state.Node{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: addrs(addresses...)}
}

// site is the view of cp-2 in a site of these nodes.
func site(vips []string, own []string, nodes ...state.Node) state.NetworkView {
	return state.NetworkView{
		Settings: state.NetworkSettings{Cluster: "shop", ManagedVIPs: true, APIVIPs: addrs(vips...), IngressVIPs: addrs("10.98.0.6")},
		Role:     state.RoleMaster, Host: state.HostFacts{NodeName: "cp-2", Addresses: addrs(own...)},
		Nodes: state.Known(nodes),
	}
}

func servers(f state.Fact[[]Backend]) []string {
	var out []string
	for _, b := range f.Value {
		out = append(out, b.Server())
	}
	return out
}

func TestBackendsAreEveryControlPlaneAndTheHostsOwnFirst(t *testing.T) {
	v := site([]string{"10.98.0.5"}, []string{"10.98.0.12"},
		controlPlane("cp-3", "10.98.0.13"), controlPlane("cp-2", "10.98.0.12"), controlPlane("cp-1", "10.98.0.11"),
		state.Node{Name: "worker", Addresses: addrs("10.98.0.21")})
	want := []string{"cp-2:10.98.0.12", "cp-1:10.98.0.11", "cp-3:10.98.0.13"}
	if diff := cmp.Diff(want, servers(Backends(v))); diff != "" {
		t.Error(diff)
	}
}

// H6: a node of the second family only is a backend; with both families the second
// is used when the first leads nowhere.
func TestH6_BackendsComeFromBothFamilies(t *testing.T) {
	v := site([]string{"10.98.0.5", "fd98::5"}, []string{"10.98.0.12", "fd98::12"},
		controlPlane("cp-1", "10.98.0.11", "fd98::11"), controlPlane("cp-2", "10.98.0.12", "fd98::12"),
		controlPlane("cp-3", "fd98::13"))
	want := []string{"cp-2:10.98.0.12", "cp-1:10.98.0.11", "cp-3:fd98::13", "cp-2:backup:fd98::12", "cp-1:backup:fd98::11"}
	if diff := cmp.Diff(want, servers(Backends(v))); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(v.Settings.APIVIPs)
	want = []string{"cp-2:fd98::12", "cp-1:fd98::11", "cp-3:fd98::13", "cp-2:backup:10.98.0.12", "cp-1:backup:10.98.0.11"}
	if diff := cmp.Diff(want, servers(Backends(v))); diff != "" {
		t.Errorf("the family of the first VIP comes first:\n%s", diff)
	}
	v.Host.Addresses = addrs("fd98::12")
	want = []string{"cp-2:fd98::12", "cp-1:fd98::11", "cp-3:fd98::13"}
	if diff := cmp.Diff(want, servers(Backends(v))); diff != "" {
		t.Errorf("a family that this host lacks leads nowhere:\n%s", diff)
	}
}

// H9: of several addresses of a family every use takes the first; a VIP among a
// node's addresses is not its own.
func TestH9_TheFirstAddressOfAFamilyCountsAndNoVIP(t *testing.T) {
	v := site([]string{"10.98.0.5"}, []string{"10.98.0.12"},
		controlPlane("cp-1", "10.98.0.5", "10.98.0.6", "169.254.0.1", "::ffff:10.98.0.11", "10.98.7.11"))
	if diff := cmp.Diff([]string{"cp-1:10.98.0.11"}, servers(Backends(v))); diff != "" {
		t.Error(diff)
	}
}

// B1, B32: neither a failed nor an empty look-up of the nodes removes backends.
func TestB1_B32_BackendsAreUnknownWithoutAWholeList(t *testing.T) {
	unknown := site([]string{"10.98.0.5"}, []string{"10.98.0.12"}, controlPlane("cp-1", "10.98.0.11"))
	unknown.Nodes.Known = false
	workers := site([]string{"10.98.0.5"}, []string{"10.98.0.12"}, state.Node{Name: "worker", Addresses: addrs("10.98.0.21")})
	for name, v := range map[string]state.NetworkView{
		"unknown": unknown, "empty": site([]string{"10.98.0.5"}, []string{"10.98.0.12"}), "no control plane": workers,
	} {
		if got := Backends(v); got.Known {
			t.Errorf("%s: %v", name, servers(got))
		}
	}
	unknown.Role = state.RoleBootstrap
	if diff := cmp.Diff([]string{"cp-2:10.98.0.12"}, servers(Backends(unknown))); diff != "" {
		t.Errorf("the host that starts a cluster has its own:\n%s", diff)
	}
}

func TestOnlyControlPlanesOfASiteWithVIPsBalance(t *testing.T) {
	v := site([]string{"10.98.0.5"}, nil)
	for _, c := range []struct {
		name   string
		change func(*state.NetworkView)
		want   state.Fact[bool]
	}{
		{"a control plane", func(*state.NetworkView) {}, state.Known(true)},
		{"the first host", func(v *state.NetworkView) { v.Role = state.RoleBootstrap }, state.Known(true)},
		{"a worker", func(v *state.NetworkView) { v.Role = state.RoleWorker }, state.Known(false)},
		{"a site with its own load balancer", func(v *state.NetworkView) { v.Settings.ManagedVIPs = false }, state.Known(false)},
		{"a site without VIPs", func(v *state.NetworkView) { v.Settings.APIVIPs = nil }, state.Known(false)},
		{"settings that are not there yet", func(v *state.NetworkView) { v.Settings = state.NetworkSettings{} }, state.Fact[bool]{}},
		{"a role that is not known yet", func(v *state.NetworkView) { v.Role = "" }, state.Fact[bool]{}},
	} {
		changed := v
		c.change(&changed)
		if got := Wanted(changed); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFamiliesAreThoseOfVIPsAndHost(t *testing.T) {
	for _, c := range []struct {
		vips, own []string
		v4, v6    bool
	}{
		{[]string{"10.98.0.5"}, []string{"10.98.0.12"}, true, false},
		{[]string{"10.98.0.5"}, []string{"10.98.0.12", "fd98::12"}, true, true},
		{[]string{"fd98::5"}, []string{"fd98::12"}, true, true}, // the ingress VIP is IPv4
	} {
		if v4, v6 := Families(site(c.vips, c.own)); v4 != c.v4 || v6 != c.v6 {
			t.Errorf("%v %v: %v %v", c.vips, c.own, v4, v6)
		}
	}
}
