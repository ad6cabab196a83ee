package config

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/viprule"
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

// vip is an address given in the configuration, with its place.
type vip struct {
	addr netip.Addr
	path *field.Path
}

func (v *validator) vips(root *field.Path, nets networks) {
	bm := v.c.Platform.BareMetal
	lists := viprule.Lists{
		API:        viprule.List{Path: root.Child("apiVIPs"), Texts: bm.APIVIPs},
		Ingress:    viprule.List{Path: root.Child("ingressVIPs"), Texts: bm.IngressVIPs},
		Networks:   nets.plan(),
		Unreadable: func(path string) bool { return !v.readable(path) },
	}
	v.add(viprule.Errors(lists.Findings())...)
}

// hostAddress checks an address that a host of the cluster will hold.
func (v *validator) hostAddress(path *field.Path, text string, nets networks) (netip.Addr, bool) {
	if !v.readable(path.String()) {
		return netip.Addr{}, false
	}
	addr, detail := nets.plan().Host(text)
	if detail != "" {
		v.add(field.Invalid(path, text, detail))
		return addr, false
	}
	return addr, true
}

// bmcPlace refuses a BMC at an address that belongs to the cluster.
func (v *validator) bmcPlace(path *field.Path, text string, address bmc.Address) {
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

// ownAddresses returns the addresses that the configuration gives to the
// cluster.
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

// bootstrapInPlace refuses the field: docs/adr/0039.
func (v *validator) bootstrapInPlace() {
	if v.c.BootstrapInPlace != nil {
		v.add(field.Forbidden(field.NewPath("bootstrapInPlace"), NotInPlace+
			": leave it out; put the operating system on the host's disk first, and give it bootstrap.ign of 'holdfast create ignition-configs' then"))
	}
}

// NotInPlace tells a person who asks for an installation in place why there is
// none.
const NotInPlace = "nothing is installed in place: Holdfast brings no operating system, and a host stays on the disk that it runs from"
