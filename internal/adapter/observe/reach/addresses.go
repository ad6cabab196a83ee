package reach

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// notOurs are the prefixes of interfaces that join pods and containers, not
// hosts.
var notOurs = []string{"lo", "cni", "flannel", "docker", "podman", "veth", "kube-", "virbr", "nodelocaldns"}

func joinsHosts(nic string) bool {
	return !slices.ContainsFunc(notOurs, func(p string) bool { return strings.HasPrefix(nic, p) })
}

// mostHardware bounds the hardware addresses that a host tells.
const mostHardware = 8

// Own returns the addresses at which another host may reach this one, on all its
// networks, sorted. It leaves out virtual IPs: they are single addresses, and move.
// hardware holds the hardware addresses of the interfaces that join hosts, members of
// bonds included, sorted. It is empty if there are more than eight: a list that lacks
// one would make a host pass for another.
func Own() (addresses []netip.Addr, hardware []string, err error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, link := range links {
		if !joinsHosts(link.Name) {
			continue
		}
		if len(link.HardwareAddr) > 0 {
			hardware = append(hardware, link.HardwareAddr.String())
		}
		if link.Flags&net.FlagUp != 0 {
			addresses = append(addresses, addressesOf(link)...)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	slices.Sort(hardware)
	if hardware = slices.Compact(hardware); len(hardware) > mostHardware {
		hardware = nil
	}
	return addresses, hardware, nil
}

// addressesOf returns those of an interface, none if it went away.
func addressesOf(link net.Interface) (out []netip.Addr) {
	list, err := link.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() && !prefix.IsSingleIP() {
			out = append(out, prefix.Addr())
		}
	}
	return out
}
