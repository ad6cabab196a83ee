package uplink_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/uplink"
	"github.com/holdfast/holdfast/internal/model/state"
)

// machine has a bond of two NICs with a VLAN on it, two more NICs, one of them
// in a bridge, and interfaces of pod networks.
func machine() []uplink.Link {
	ra := func(n int) state.Fact[int] { return state.Known(n) }
	return []uplink.Link{
		{Name: "lo", AcceptRA: ra(1)},
		{Name: "eth0", Physical: true, Member: true, AcceptRA: ra(1)},
		{Name: "eth1", Physical: true, Member: true, AcceptRA: ra(1)},
		{Name: "bond0", Kind: "bond", Lower: []string{"eth0", "eth1"}, AcceptRA: ra(1)},
		{Name: "bond0.7", Kind: "vlan", Lower: []string{"bond0"}, AcceptRA: ra(1)},
		{Name: "eth2", Physical: true, AcceptRA: ra(0)}, // NetworkManager takes its advertisements
		{Name: "eth3", Physical: true, Member: true, AcceptRA: ra(1)},
		{Name: "br0", Kind: "bridge", Lower: []string{"eth3"}, AcceptRA: ra(2)},
		{Name: "eth4", Physical: true}, // no IPv6
		{Name: "eth5", AcceptRA: ra(1)},
		{Name: "cni0", Kind: "bridge", Lower: []string{"veth1"}, AcceptRA: ra(1)},
		{Name: "veth1", Member: true, AcceptRA: ra(1)},
		{Name: "flannel.1", Kind: "vxlan", Lower: []string{"bond0"}, AcceptRA: ra(1)},
		{Name: "docker0", Kind: "bridge", AcceptRA: ra(1)},
	}
}

func TestWhatLeadsOutOfAHost(t *testing.T) {
	if got := fmt.Sprint(uplink.Uplinks(machine(), []string{"eth5"})); got != "[bond0 bond0.7 br0 eth2 eth4 eth5]" {
		t.Error(got)
	}
}

// NetworkManager and networkd keep the advertisements that they take themselves,
// and nobody takes those of a pod.
func TestTheKernelIsToldOfRouterAdvertisementsWhereItAloneTakesThem(t *testing.T) {
	if got := fmt.Sprint(uplink.Deaf(machine(), []string{"eth5"})); got != "[bond0 bond0.7 eth5]" {
		t.Error(got)
	}
	if got := fmt.Sprint(uplink.Deaf(machine(), nil)); got != "[bond0 bond0.7]" {
		t.Errorf("without an own address on eth5: %s", got)
	}
}

func TestInterfacesWithOwnAddresses(t *testing.T) {
	on := func(nic, p string) state.HostAddress {
		return state.HostAddress{Interface: nic, Prefix: netip.MustParsePrefix(p)}
	}
	v := state.NetworkView{
		Settings:  state.NetworkSettings{MachineNetworks: []netip.Prefix{netip.MustParsePrefix("fd98::/64")}},
		Host:      state.HostFacts{Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}},
		Addresses: []state.HostAddress{on("eth0", "10.98.0.11/24"), on("eth1", "fd98::11/64"), on("eth1", "fd98::12/64"), on("cni0", "10.128.0.1/24")},
	}
	if got := fmt.Sprint(uplink.Own(v)); got != "[eth0 eth1]" {
		t.Error(got)
	}
}
