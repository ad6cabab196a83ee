package reach

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// notOurs are the prefixes of interfaces that join pods and containers, not
// hosts.
var notOurs = []string{"lo", "cni", "flannel", "docker", "podman", "veth", "kube-", "virbr", "nodelocaldns"}

func joinsHosts(nic string) bool {
	return !slices.ContainsFunc(notOurs, func(p string) bool { return strings.HasPrefix(nic, p) })
}

// mostHardware bounds the hardware addresses that a host tells.
const mostHardware = 8

// HardwareAddresses returns the hardware addresses of the interfaces that join this
// host with others, members of bonds included, sorted. It returns none if there are
// more than eight: a list that lacks one would make a host pass for another.
func HardwareAddresses() ([]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []string
	for _, link := range links {
		a := link.Attrs()
		if joinsHosts(a.Name) && len(a.HardwareAddr) > 0 {
			out = append(out, a.HardwareAddr.String())
		}
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) > mostHardware {
		return nil, nil
	}
	return out, nil
}

// Addresses returns the addresses at which another host may reach this one, on
// all its networks, sorted. It leaves out virtual IPs: they are single
// addresses, and move.
func Addresses() ([]netip.Addr, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []netip.Addr
	for _, link := range links {
		if link.Flags&net.FlagUp == 0 || !joinsHosts(link.Name) {
			continue
		}
		list, err := link.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range list {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() && !prefix.IsSingleIP() {
				out = append(out, prefix.Addr())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out, nil
}
