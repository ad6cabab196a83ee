// Package own reads what a host knows about itself: its name and the addresses
// that it chose.
package own

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// HostFacts returns what a host knows about itself. It fails while the host has no
// name, or lacks an address of a family of the machine networks.
func HostFacts(networks []netip.Prefix, vips []netip.Addr) (state.HostFacts, error) {
	name, err := host.Name()
	if err != nil {
		return state.HostFacts{}, err
	}
	if name == "" || strings.HasPrefix(name, "localhost") {
		return state.HostFacts{}, fmt.Errorf("this host has no name yet (it is %q): set one by DHCP or with hostnamectl", name)
	}
	choice, err := ownAddresses(networks, vips)
	if err != nil {
		return state.HostFacts{}, err
	}
	restrict, err := observe.RestrictOOM()
	if err != nil {
		return state.HostFacts{}, err
	}
	return state.HostFacts{
		NodeName: name, Addresses: choice.Addresses, Interface: choice.Interface,
		CgroupV1: cgroupV1(), RestrictOOM: restrict,
	}, nil
}

// cgroupV1 reports whether the container runtime has to use the first version
// of cgroups, as on a mixed hierarchy.
func cgroupV1() bool {
	var fs unix.Statfs_t
	err := unix.Statfs("/sys/fs/cgroup", &fs)
	return err == nil && fs.Type != unix.CGROUP2_SUPER_MAGIC
}

// ownAddresses chooses among the host's present addresses. It repeats the
// choice of the boot before if the host still has those addresses.
func ownAddresses(networks []netip.Prefix, vips []netip.Addr) (nodeaddress.Choice, error) {
	now, err := netwatch.Read(nil)
	if err != nil {
		return nodeaddress.Choice{}, err
	}
	before, err := netwatch.LoadChoice(netwatch.Path)
	if err != nil {
		return nodeaddress.Choice{}, err
	}
	return nodeaddress.Decide(nodeaddress.Input{
		Addresses: now.Addresses, Routes: now.Routes, Networks: networks, VIPs: vips, Previous: before,
	})
}
