package vrrp_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// reports returns the node with a report of its agent.
func reports(n state.Node, list ...string) state.Node {
	n.Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{Addresses: prefixes(list...)})}
	return n
}

// twoNetworks is the view of host n of two: the nodes' addresses are on eth0, and
// the ingress VIP is in the network of eth1.
func twoNetworks(n int, nodes ...state.Node) state.NetworkView {
	v := viewOf(n, nodes...)
	v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("10.98.0.5"), addrs("10.99.0.6")
	v.Settings.MachineNetworks = prefixes("10.98.0.0/24", "10.99.0.0/24")
	v.Addresses = []state.HostAddress{on("eth0", fmt.Sprintf("10.98.0.%d", n), 24), on("eth1", fmt.Sprintf("10.99.0.%d", n), 24)}
	return v
}

func bothKnown() []state.Node {
	return []state.Node{reports(master(11), "10.98.0.11/24", "10.99.0.11/24"), reports(master(12), "10.98.0.12/24", "10.99.0.12/24")}
}

// Adverts for a VIP go through the VIP's own network: through another they would
// make a host hold it where nobody can reach it.
func TestAVIPOfASecondNetworkIsHeldByTheAddressesThere(t *testing.T) {
	got := vrrp.Instances(twoNetworks(11, bothKnown()...))
	if names(got) != "API_0 INGRESS_0" {
		t.Fatalf("%+v", got)
	}
	i := got.Instances[1]
	if i.Interface != "eth1" || i.Device != "eth1" || i.Source != addr("10.99.0.11") || fmt.Sprint(i.Peers) != "[10.99.0.12]" {
		t.Errorf("%+v", i)
	}
}

// A lease that ran out, a cable that is out at the start, or an administrator takes
// the address away: the other host can hold the VIP, and this one would keep it
// from that host.
func TestAHostThatLostItsAddressInTheNetworkOfAVIPHoldsItNowhereElse(t *testing.T) {
	lost := func(v state.NetworkView) state.NetworkView {
		v.Addresses = v.Addresses[:1]
		return v
	}
	for name, v := range map[string]state.NetworkView{
		"while its report still says that it is there": lost(twoNetworks(11, bothKnown()...)),
		"once its report says that it is gone":         lost(twoNetworks(11, reports(master(11), "10.98.0.11/24"), bothKnown()[1])),
		"where no report was ever heard":               lost(twoNetworks(11, master(11), master(12))),
		"where the site names no machine networks": func() state.NetworkView {
			v := lost(twoNetworks(11, bothKnown()...))
			v.Settings.MachineNetworks = nil
			return v
		}(),
	} {
		got := vrrp.Instances(v)
		if names(got) != "API_0" || !strings.Contains(got.Why, "10.99.0.6 is in 10.99.0.0/24") {
			t.Errorf("%s: %s, %s", name, names(got), got.Why)
		}
	}
}

// A worker is in the network of the API's VIP, and the ingress VIP is in another
// network: both hosts once held it permanently.
func TestAHostOutsideTheNetworkOfAVIPHoldsOnlyTheOthers(t *testing.T) {
	near, far := worker(31), worker(32)
	near.Addresses, far.Addresses = addrs("10.98.0.31"), addrs("10.97.0.32")
	nodes := []state.Node{master(11), near, far}
	settings := func(v *state.NetworkView, role state.Role, own string) {
		v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("10.98.0.5"), addrs("10.97.0.6")
		v.Settings.MachineNetworks = prefixes("10.98.0.0/24", "10.97.0.0/24")
		v.Role, v.Addresses = role, []state.HostAddress{on("eth0", own, 24)}
	}
	for _, c := range []struct {
		n    int
		role state.Role
		own  string
		want string
	}{
		{11, state.RoleMaster, "10.98.0.11", "API_0"},
		{31, state.RoleWorker, "10.98.0.31", ""},
		{32, state.RoleWorker, "10.97.0.32", "INGRESS_0"},
	} {
		v := viewOf(c.n, nodes...)
		settings(&v, c.role, c.own)
		got := vrrp.Instances(v)
		if names(got) != c.want || !got.Known {
			t.Errorf("h%d: %q, want %q: %s", c.n, names(got), c.want, got.Why)
		}
		for _, i := range got.Instances {
			if len(i.Peers) != 0 {
				t.Errorf("h%d: %s is announced to %v, who cannot hold it", c.n, i.VIP, i.Peers)
			}
		}
	}
}

// DHCPv6 gives a single address, and no route says which network it is in: the
// machine network does.
func TestAHostWithAnAddressAloneIsInItsMachineNetwork(t *testing.T) {
	nodes := []state.Node{reports(master(11), "fd98::11/128"), reports(master(12), "fd98::12/64")}
	v := viewOf(11, nodes...)
	v.Settings.APIVIPs, v.Settings.IngressVIPs, v.Settings.MachineNetworks = addrs("fd98::5"), nil, prefixes("fd98::/64")
	v.Addresses = []state.HostAddress{on("eth1", "fd77::11", 64), on("eth0", "fd98::11", 128), on("eth0", "10.98.0.11", 24)}
	got := vrrp.Instances(v)
	if names(got) != "API_0" || got.Instances[0].Device != "eth0" || fmt.Sprint(got.Instances[0].Peers) != "[fd98::12]" {
		t.Errorf("%+v", got)
	}
}

// A mask is too narrow: no host's network holds the VIP, which is still on the
// wire. It stays on the NIC of the machine network.
func TestAVIPOfAMachineNetworkThatNoHostHasWholeStaysInIt(t *testing.T) {
	v := viewOf(11, reports(master(11), "10.98.0.11/25"), reports(master(12), "10.98.0.12/25"))
	v.Settings.APIVIPs, v.Settings.IngressVIPs, v.Settings.MachineNetworks = addrs("10.98.0.205"), nil, prefixes("10.98.0.0/24")
	v.Addresses = []state.HostAddress{on("eth1", "10.77.0.11", 24), on("eth0", "10.98.0.11", 25)}
	got := vrrp.Instances(v)
	if names(got) != "API_0" || got.Instances[0].Device != "eth0" || fmt.Sprint(got.Instances[0].Peers) != "[10.98.0.12]" {
		t.Errorf("%+v", got)
	}
	// Unless another host has the whole of it.
	v.Nodes = state.Known([]state.Node{reports(master(11), "10.98.0.11/25"), reports(master(12), "10.98.0.12/24")})
	if got := vrrp.Instances(v); names(got) != "" {
		t.Errorf("%+v", got)
	}
}

// An address that is moving from a network card to a bridge decides nothing, also
// about a VIP whose network moves with it.
func TestB15_TheNetworkOfAVIPThatMovesWithTheNodesAddressDecidesNothing(t *testing.T) {
	v := viewOf(11, three...)
	v.Settings.MachineNetworks = prefixes("10.98.0.0/24", "fd98::/64")
	v.Addresses = []state.HostAddress{on("lo", "127.0.0.1", 8)}
	if got := names(vrrp.Instances(v)); got != "as it is" {
		t.Error(got)
	}
}

// stance describes a host's place in a site of two networks, A and B.
type stance struct {
	name string
	// node is the network of the node's address, nics are those of its NICs.
	node string
	nics string
}

var stances = []stance{
	{"in A", "A", "A"},
	{"in B", "B", "B"},
	{"in both, known by A", "A", "AB"},
	{"in both, known by B", "B", "AB"},
	{"lost its NIC in A", "B", "B-"},
}

var networks = map[byte]string{'A': "10.98.0.", 'B': "10.99.0."}

// asNode returns the host as the API shows it: its report may be late, and describe
// the state before its NIC was lost.
func (s stance) asNode(n int, reported bool) state.Node {
	out := master(n)
	out.Addresses = addrs(fmt.Sprintf("%s%d", networks[s.node[0]], n))
	if !reported {
		return out
	}
	var list []string
	for _, nic := range strings.ReplaceAll(s.nics, "-", "A") {
		list = append(list, fmt.Sprintf("%s%d/24", networks[byte(nic)], n))
	}
	return reports(out, list...)
}

func (s stance) view(n int, vip string, nodes []state.Node) state.NetworkView {
	v := viewOf(n, nodes...)
	v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs(vip), nil
	v.Settings.MachineNetworks = prefixes("10.98.0.0/24", "10.99.0.0/24")
	v.Addresses = nil
	for i, nic := range strings.Trim(s.nics, "-") {
		v.Addresses = append(v.Addresses, on(fmt.Sprint("eth", i), fmt.Sprintf("%s%d", networks[byte(nic)], n), 24))
	}
	return v
}

// has reports whether a stance is in the network of a VIP.
func (s stance) has(vip string) bool {
	return slices.ContainsFunc([]byte(strings.Trim(s.nics, "-")), func(nic byte) bool { return strings.HasPrefix(vip, networks[nic]) })
}

// Invariant I4, as far as the choice of hosts and peers decides it: all hosts that
// take part in a VIP receive each other's adverts, in the VIP's own network. And
// where a host that others know of is there, one takes part.
func TestI4_WhoeverTakesPartInAVIPHearsAllOthersThatDo(t *testing.T) {
	n := len(stances)
	for _, vip := range []string{"10.98.0.5", "10.99.0.5"} {
		for code := range n * n * n * 8 {
			site, reported := []stance{stances[code%n], stances[code/n%n], stances[code/n/n%n]}, code/n/n/n
			tryI4(t, vip, site, reported)
		}
	}
}

// tryI4 checks one VIP of one site. The bits of reported are the hosts whose
// reports are out.
func tryI4(t *testing.T, vip string, site []stance, reported int) {
	t.Helper()
	var nodes []state.Node
	for i, s := range site {
		nodes = append(nodes, s.asNode(11+i, reported>>i&1 == 1))
	}
	part := map[int]vrrp.Instance{}
	able := false
	for i, s := range site {
		for _, inst := range vrrp.Instances(s.view(11+i, vip, nodes)).Instances {
			part[i] = inst
		}
		if _, takes := part[i]; takes && !s.has(vip) {
			t.Errorf("%s: of %v, reports %03b, host %d takes part and is elsewhere", vip, site, reported, i)
		}
		able = able || s.has(vip) && (reported>>i&1 == 1 || strings.HasPrefix(vip, networks[s.node[0]]))
	}
	for i, a := range part {
		for k, b := range part {
			if i != k && !slices.Contains(a.Peers, b.Source) {
				t.Errorf("%s: of %v, reports %03b, host %d does not hear host %d", vip, site, reported, i, k)
			}
		}
	}
	if able && len(part) == 0 {
		t.Errorf("%s: of %v, reports %03b, nobody takes part", vip, site, reported)
	}
}
