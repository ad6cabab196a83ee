package vrrp_test

import (
	"fmt"
	"net/netip"

	"github.com/holdfast/holdfast/internal/model/state"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, addr(s))
	}
	return out
}

// host returns a node of 10.98.0.0/24 and fd98::/64 with that last part.
func host(n int, labels ...string) state.Node {
	node := state.Node{Name: fmt.Sprintf("h%d", n), Labels: map[string]string{}, Ready: true}
	for _, l := range labels {
		node.Labels[l] = ""
	}
	node.Addresses = addrs(fmt.Sprintf("10.98.0.%d", n), fmt.Sprintf("fd98::%d", n))
	return node
}

func master(n int) state.Node { return host(n, state.LabelControlPlane, state.LabelMaster) }
func worker(n int) state.Node { return host(n, state.LabelWorker) }

// viewOf returns what host n sees in an installed dual-stack cluster.
func viewOf(n int, nodes ...state.Node) state.NetworkView {
	v := state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "shop", Domain: "shop.example", ManagedVIPs: true, ControlPlanes: 3,
			APIVIPs: addrs("10.98.0.5", "fd98::5"), IngressVIPs: addrs("10.98.0.6", "fd98::6"),
		},
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Host:  state.HostFacts{NodeName: fmt.Sprintf("h%d", n), Interface: "eth0", Addresses: addrs(fmt.Sprintf("10.98.0.%d", n), fmt.Sprintf("fd98::%d", n))},
		Nodes: state.Known(nodes),
	}
	for _, a := range v.Host.Addresses {
		v.Addresses = append(v.Addresses, on("eth0", a.String(), map[bool]int{true: 24, false: 64}[a.Is4()]))
	}
	return v
}

func on(nic, a string, bits int) state.HostAddress {
	return state.HostAddress{Interface: nic, Index: 2, Prefix: netip.PrefixFrom(addr(a), bits), Usable: true}
}

// link returns a route without a gateway.
func link(nic, prefix string) state.HostRoute {
	return state.HostRoute{Destination: netip.MustParsePrefix(prefix), Interface: nic, Index: 2}
}
