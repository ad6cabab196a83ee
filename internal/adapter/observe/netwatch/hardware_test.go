package netwatch

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAnInterfacesPacketsComeFromItselfAndFromItsBondsMembers(t *testing.T) {
	attrs := func(index int, name string, last byte, more func(*netlink.LinkAttrs)) netlink.LinkAttrs {
		a := netlink.LinkAttrs{Index: index, Name: name, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, last}}
		if more != nil {
			more(&a)
		}
		return a
	}
	slave := func(permanent byte) func(*netlink.LinkAttrs) {
		return func(a *netlink.LinkAttrs) {
			a.MasterIndex, a.PermHWAddr = 4, net.HardwareAddr{2, 0, 0, 0, 0, permanent}
		}
	}
	links := []netlink.Link{
		&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1, Name: "lo", HardwareAddr: make(net.HardwareAddr, 6)}},
		&netlink.Device{LinkAttrs: attrs(2, "eth0", 2, slave(2))},
		&netlink.Device{LinkAttrs: attrs(3, "eth1", 2, slave(3))},
		&netlink.Bond{LinkAttrs: attrs(4, "bond0", 2, nil)},
		&netlink.Vlan{LinkAttrs: attrs(5, "bond0.7", 2, func(a *netlink.LinkAttrs) { a.ParentIndex = 4 })},
		&netlink.Bridge{LinkAttrs: attrs(6, "br0", 6, nil)},
		&netlink.Device{LinkAttrs: attrs(7, "eth2", 7, func(a *netlink.LinkAttrs) { a.MasterIndex = 6 })},
		&netlink.Veth{LinkAttrs: attrs(8, "eth3", 8, func(a *netlink.LinkAttrs) { a.ParentIndex = 2 })}, // its parent is in another namespace
		&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 9, Name: "ib0", HardwareAddr: make(net.HardwareAddr, 20)}},
		&netlink.Device{LinkAttrs: attrs(10, "veth1", 10, nil)},
	}
	var list []state.HostAddress
	for i, name := range map[int]string{1: "lo", 5: "bond0.7", 6: "br0", 8: "eth3", 9: "ib0"} {
		list = append(list, state.HostAddress{Interface: name, Index: i, Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 1}), 24)})
	}
	want := map[string][]string{
		"bond0.7": {"02:00:00:00:00:02", "02:00:00:00:00:03"},
		"br0":     {"02:00:00:00:00:06"},
		"eth3":    {"02:00:00:00:00:08"},
	}
	if diff := cmp.Diff(want, hardware(links, list)); diff != "" {
		t.Error(diff)
	}
}
