// Package observe reads what is, and hands it on as state values. What it
// could not read is an error or an explicit unknown, never "no".
package observe

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/state"
)

// Addresses returns all global addresses of the host with their interfaces.
func Addresses() ([]nodeaddress.Address, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []nodeaddress.Address
	for _, link := range links {
		list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
		}
		for _, a := range list {
			if found, ok := globalAddress(link, a); ok {
				out = append(out, found)
			}
		}
	}
	return out, nil
}

func globalAddress(link netlink.Link, a netlink.Addr) (nodeaddress.Address, bool) {
	ip, ok := netip.AddrFromSlice(a.IP)
	if !ok || a.Scope != int(netlink.SCOPE_UNIVERSE) {
		return nodeaddress.Address{}, false
	}
	bits, _ := a.Mask.Size()
	const unusable = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED
	return nodeaddress.Address{
		Interface: link.Attrs().Name, Index: link.Attrs().Index,
		Prefix: netip.PrefixFrom(ip.Unmap(), bits), Usable: a.Flags&unusable == 0,
	}, true
}

// Host returns what a host knows about itself. It fails while the host has no
// name or not yet an address of each family of the machine networks.
func Host(networks []netip.Prefix, vips []netip.Addr) (state.HostFacts, error) {
	name, err := os.Hostname()
	if err != nil {
		return state.HostFacts{}, err
	}
	if name == "" || strings.HasPrefix(name, "localhost") {
		return state.HostFacts{}, fmt.Errorf("this host has no name yet (it is %q): set one by DHCP or with hostnamectl", name)
	}
	addresses, err := Addresses()
	if err != nil {
		return state.HostFacts{}, err
	}
	choice, err := nodeaddress.Choose(addresses, networks, vips)
	if err != nil {
		return state.HostFacts{}, err
	}
	restrict, err := RestrictOOM()
	if err != nil {
		return state.HostFacts{}, err
	}
	return state.HostFacts{
		NodeName: strings.ToLower(name), Addresses: choice.Addresses, Interface: choice.Interface,
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

// RestrictOOM reports whether this process lacks CAP_SYS_RESOURCE, without
// which no OOM score can be lowered.
func RestrictOOM() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, fmt.Errorf("read capabilities: %w", err)
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0, nil
}
