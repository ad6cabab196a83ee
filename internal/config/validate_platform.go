package config

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Roles of platform.baremetal.hosts.
var hostRoles = []string{ControlPlanePool, ComputePool}

func (v *validator) platform(nets networks) {
	root := field.NewPath("platform")
	p := v.c.Platform
	switch {
	case !v.readable("platform"):
	case p.None == nil && p.BareMetal == nil:
		v.add(field.Required(root, "choose one: none (the site brings load balancer and DNS) or baremetal (the hosts hold virtual IPs)"))
	case p.None != nil && p.BareMetal != nil:
		v.add(field.Forbidden(root, "give exactly one of none and baremetal"))
	}
	if p.BareMetal != nil {
		path := root.Child("baremetal")
		v.vips(path, nets)
		v.bareMetalHosts(path.Child("hosts"))
	}
}

// vip is an address given in the configuration, and where.
type vip struct {
	addr netip.Addr
	path *field.Path
}

func (v *validator) vips(root *field.Path, nets networks) {
	bm := v.c.Platform.BareMetal
	api := v.vipList(root.Child("apiVIPs"), bm.APIVIPs, nets)
	ingress := v.vipList(root.Child("ingressVIPs"), bm.IngressVIPs, nets)
	if len(bm.APIVIPs) > 0 && len(bm.IngressVIPs) > 0 && len(bm.APIVIPs) != len(bm.IngressVIPs) {
		v.add(field.Invalid(root.Child("ingressVIPs"), len(bm.IngressVIPs), fmt.Sprintf(
			"must have as many addresses as apiVIPs, which has %d", len(bm.APIVIPs))))
	}
	all := slices.Concat(api, ingress)
	for j := range all {
		for _, first := range all[:j] {
			if first.addr == all[j].addr {
				v.add(duplicate(all[j].path, all[j].addr.String(), first.path))
				break
			}
		}
	}
}

// vipList checks one list on its own and returns the addresses in it.
func (v *validator) vipList(path *field.Path, list []string, nets networks) []vip {
	if len(list) == 0 {
		v.add(field.Required(path, "one address, or one of each family"))
	}
	if len(list) > 2 {
		v.add(field.TooMany(path, len(list), 2))
	}
	var out []vip
	for i, text := range list {
		if addr, ok := v.hostAddress(path.Index(i), text, nets); ok {
			out = append(out, vip{addr, path.Index(i)})
		}
	}
	v.vipFamilies(out, nets)
	return out
}

func (v *validator) vipFamilies(list []vip, nets networks) {
	if len(list) == 0 {
		return
	}
	for _, second := range list[1:] {
		if f := familyOf(second.addr); f == familyOf(list[0].addr) {
			v.add(field.Invalid(second.path, second.addr.String(), fmt.Sprintf(
				"is %s as the first: two addresses must be one of each family", f)))
		}
	}
	families := familiesOf(nets.machine)
	if !nets.complete || len(families) != 2 || familyOf(list[0].addr) == families[0] {
		return
	}
	v.add(field.Invalid(list[0].path, list[0].addr.String(), fmt.Sprintf(
		"must be %s, the family of the first machine network", families[0])))
}

// hostAddress checks an address that a host of the cluster will hold.
func (v *validator) hostAddress(path *field.Path, text string, nets networks) (netip.Addr, bool) {
	if !v.readable(path.String()) {
		return netip.Addr{}, false
	}
	addr, detail := soundAddr(text)
	if detail == "" {
		detail = placeInNetworks(addr, nets)
	}
	if detail != "" {
		v.add(field.Invalid(path, text, detail))
		return addr, false
	}
	return addr, true
}

// soundAddr parses an address; detail is empty if a host can have it.
func soundAddr(text string) (addr netip.Addr, detail string) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return addr, "must be an IP address"
	case addr.Zone() != "":
		return addr, "must not have a zone"
	case addr.Is4In6():
		return addr, "is an IPv4 address in IPv6 form: write it as " + addr.Unmap().String()
	}
	if kind := reservedAddr(addr); kind != "" {
		return addr, "is " + kind + ", which no host can hold"
	}
	return addr, ""
}

// reservedAddr names the kind of an address that cannot be reached from
// another host, or is empty.
func reservedAddr(a netip.Addr) string {
	switch {
	case a.IsUnspecified():
		return "the unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast():
		return "a multicast address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the broadcast address"
	}
	return ""
}

// placeInNetworks returns what is wrong with an address of a host, or "".
func placeInNetworks(addr netip.Addr, nets networks) string {
	for _, n := range nets.cluster {
		if n.prefix.Contains(addr) {
			return fmt.Sprintf("lies in the pod network %s", n.prefix)
		}
	}
	for _, n := range nets.service {
		if n.prefix.Contains(addr) {
			return fmt.Sprintf("lies in the service network %s", n.prefix)
		}
	}
	var machine []string
	for _, n := range nets.machine {
		if n.prefix.Contains(addr) {
			return edgeOf(addr, n.prefix)
		}
		machine = append(machine, n.prefix.String())
	}
	if !nets.complete {
		return ""
	}
	return fmt.Sprintf("lies in no machine network (%s)", strings.Join(machine, ", "))
}

// edgeOf refuses the first address of a network and, with IPv4, the last.
// Networks of one or two addresses have no such edges (RFC 3021, RFC 6164).
func edgeOf(addr netip.Addr, p netip.Prefix) string {
	free := p.Addr().BitLen() - p.Bits()
	switch {
	case free <= 1:
		return ""
	case addr == p.Addr() && addr.Is6():
		return fmt.Sprintf("is the subnet-router address of %s", p)
	case addr == p.Addr():
		return fmt.Sprintf("is the network address of %s", p)
	case addr.Is4() && !p.Contains(addr.Next()):
		return fmt.Sprintf("is the broadcast address of %s", p)
	}
	return ""
}

// bmcPlace refuses a BMC at an address that belongs to the cluster.
func (v *validator) bmcPlace(path *field.Path, text string, address BMCAddress) {
	addr, err := netip.ParseAddr(address.Host)
	if err != nil {
		return // a name
	}
	for _, own := range v.ownAddresses() {
		if own.addr == addr {
			v.add(field.Invalid(path, text, fmt.Sprintf("is the address of %s", own.path)))
		}
	}
	n := v.c.Networking
	lists := append([]string{}, n.ServiceNetwork...)
	for _, entry := range n.ClusterNetwork {
		lists = append(lists, entry.CIDR)
	}
	for _, cidr := range lists {
		if p, err := netip.ParsePrefix(cidr); err == nil && p.Contains(addr) {
			v.add(field.Invalid(path, text, fmt.Sprintf("lies in %s, which is inside the cluster", p)))
		}
	}
}

// ownAddresses are the addresses that the configuration gives to the cluster.
func (v *validator) ownAddresses() []vip {
	var out []vip
	add := func(path *field.Path, text string) {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, vip{a.Unmap(), path})
		}
	}
	if bm := v.c.Platform.BareMetal; bm != nil {
		root := field.NewPath("platform", "baremetal")
		for i, text := range bm.APIVIPs {
			add(root.Child("apiVIPs").Index(i), text)
		}
		for i, text := range bm.IngressVIPs {
			add(root.Child("ingressVIPs").Index(i), text)
		}
	}
	add(field.NewPath("rendezvousIP"), v.c.RendezvousIP)
	return out
}

func (v *validator) rendezvous(nets networks) {
	path := field.NewPath("rendezvousIP")
	if v.c.RendezvousIP == "" {
		return
	}
	addr, ok := v.hostAddress(path, v.c.RendezvousIP, nets)
	if !ok {
		return
	}
	for _, own := range v.ownAddresses() {
		if own.addr == addr && own.path.String() != path.String() {
			v.add(field.Invalid(path, v.c.RendezvousIP, fmt.Sprintf(
				"must be the address of a host, and is the virtual IP %s", own.path)))
			return
		}
	}
}

func (v *validator) bootstrapInPlace() {
	bip := v.c.BootstrapInPlace
	if bip == nil {
		return
	}
	root := field.NewPath("bootstrapInPlace")
	if n := v.c.ControlPlaneReplicas(); n != 1 && v.readable("controlPlane.replicas") {
		v.add(field.Forbidden(root, fmt.Sprintf("is for exactly one control plane, and there are %d", n)))
	}
	disk := bip.InstallationDisk
	if disk != "" && (!strings.HasPrefix(disk, "/dev/") || path.Clean(disk) != disk) {
		v.add(field.Invalid(root.Child("installationDisk"), disk,
			"must be the path of a device below /dev, for example /dev/sda (only an Ignition-based system has use for it)"))
	}
}
