package ports

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Openings describes what a firewall of the site lets in to a host from its
// machine networks.
type Openings struct {
	// All is true if it lets everything in.
	All   bool
	Ports []Opening
	// Protocols are the open protocols without ports, by name or number.
	Protocols []string
	// Services names groups of openings, which are to be read and added.
	Services []string
	// Pods are the networks of pods from which it lets everything in.
	Pods []netip.Prefix
	// Unsure is true if it has rules that this package does not understand.
	Unsure bool
}

// Opening is an open port, or a range of ports.
type Opening struct {
	First, Last uint16
	Protocol    Protocol
}

// Place holds the facts about a host that a firewall of the site depends on.
type Place struct {
	Interface string
	Machines  []netip.Prefix
	Pods      []netip.Prefix
}

// within reports whether a network covers all machine networks of its family, of
// which there must be some. Networks of the other family are then ignored.
func (at Place) within(network netip.Prefix) bool {
	same := slices.DeleteFunc(slices.Clone(at.Machines), func(m netip.Prefix) bool { return m.Addr().Is6() != network.Addr().Is6() })
	return len(same) > 0 && !slices.ContainsFunc(same, func(m netip.Prefix) bool { return !covers(network, m) })
}

func covers(a, b netip.Prefix) bool { return a.Bits() <= b.Bits() && a.Contains(b.Addr()) }

// from records that everything from an address or a network is let in.
func (o *Openings) from(text string, at Place) {
	network, err := netip.ParsePrefix(text)
	if a, err2 := netip.ParseAddr(text); err2 == nil {
		network, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil {
		o.Unsure = true // for example a set of addresses
		return
	}
	o.All = o.All || at.within(network)
	for _, p := range at.Pods {
		if covers(network, p) {
			o.Pods = append(o.Pods, p)
		}
	}
}

// ports records words such as 6443/tcp and 2379-2380/tcp.
func (o *Openings) ports(words []string) {
	for _, w := range words {
		number, protocol, ok := strings.Cut(w, "/")
		first, last, _ := strings.Cut(strings.ReplaceAll(number, ":", "-"), "-")
		if last == "" {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 16)
		z, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil {
			o.Unsure = true
			continue
		}
		list := both
		if ok {
			list = []Protocol{Protocol(protocol)}
		}
		for _, p := range list {
			o.Ports = append(o.Ports, Opening{uint16(a), uint16(z), p})
		}
	}
}

// Add adds the openings of a service.
func (o *Openings) Add(service Openings) {
	o.Ports = append(o.Ports, service.Ports...)
	o.Protocols = append(o.Protocols, service.Protocols...)
	o.Services = append(o.Services, service.Services...)
}

// Refused returns the ports of a host that are not open, as firewalls write
// them: those that the cluster needs to work, and those of applications.
func (o Openings) Refused(k Kind) (cluster, applications []string) {
	if o.All {
		return nil, nil
	}
	for _, p := range needed(k) {
		for _, protocol := range p.Protocols {
			switch {
			case o.lets(p, protocol):
			case p.forApplications():
				applications = append(applications, p.words(protocol))
			default:
				cluster = append(cluster, p.words(protocol))
			}
		}
	}
	return cluster, applications
}

func (o Openings) lets(p Port, protocol Protocol) bool {
	if protocol == VRRP {
		return slices.Contains(o.Protocols, string(VRRP)) || slices.Contains(o.Protocols, "112")
	}
	for at := uint32(p.First); at <= uint32(p.Last); at++ {
		if !slices.ContainsFunc(o.Ports, func(x Opening) bool {
			return x.Protocol == protocol && uint32(x.First) <= at && at <= uint32(x.Last)
		}) {
			return false
		}
	}
	return true
}

// words returns a port as firewall-cmd writes it.
func (p Port) words(protocol Protocol) string {
	if protocol == VRRP {
		return "protocol vrrp"
	}
	return p.number("-") + "/" + string(protocol)
}

// forApplications reports whether hosts do not need the port among themselves.
func (p Port) forApplications() bool {
	return p.On == Routers || p.First == firstNodePort || p.Who == kubeProxy
}

// needed returns the ports that a firewall of the site has to let in. It leaves
// out sshd's, which belongs to the site, pcsd's, which nobody uses, and those
// that only answer yes or no, which a host asks itself.
func needed(k Kind) []Port {
	return slices.DeleteFunc(of(k), func(p Port) bool { return p.Who == sshd || p.Who == pcsd || p.From == Machines })
}
