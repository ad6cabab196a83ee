package names

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// MaxUpstreams is the number of name servers that CoreDNS accepts; with more
// it does not start at all (plugin forward, v1.15).
const MaxUpstreams = 15

// Server describes the set-up of a host's name server.
type Server struct {
	// Listen holds only the host's own addresses. A wildcard would get in the way
	// of systemd-resolved, dnsmasq or a container network that answers on another
	// address of the host.
	Listen []netip.Addr
	// Upstreams are asked in this order. There may be none.
	Upstreams []netip.AddrPort
	// Omitted lists the site's name servers that are not asked, and why.
	Omitted []string
	// Claimed lists the name servers that are asked although a worker says that it
	// has their address: there are no others.
	Claimed []string
	Domain  string
	Cluster string
	// Clients are the networks that may ask. For anybody else the host would be an
	// open resolver: a way to attack others, and into the site's names.
	Clients []netip.Prefix
}

// Ours reports whether a host needs a name server of its own. Where hosts hold
// no VIPs, the site provides the names, as it provides the load balancer.
func Ours(view state.NetworkView) bool { return view.Settings.ManagedVIPs }

// DecideServer returns the set-up for a view, and false if the host has no
// address to listen on yet.
func DecideServer(view state.NetworkView) (Server, bool) {
	s := Server{Listen: present(view), Domain: view.Settings.Domain, Cluster: view.Settings.Cluster}
	if len(s.Listen) == 0 {
		return Server{}, false
	}
	s.Clients = clients(view)
	own := append(slices.Clip(s.Listen), view.Host.Addresses...)
	own = append(own, view.Settings.VIPs()...)
	for _, a := range view.Addresses {
		own = append(own, a.Prefix.Addr())
	}
	var claimed []netip.AddrPort
	for _, u := range view.Upstreams {
		if reason := cmp.Or(s.refuse(u, own), returns(u, view)); reason != "" {
			s.omit(u, reason)
		} else if claimant(u, view) != "" {
			claimed = append(claimed, u)
		} else {
			s.ask(u)
		}
	}
	s.weigh(claimed, own, view)
	return s, true
}

func (s *Server) ask(u netip.AddrPort) {
	s.Upstreams = append(s.Upstreams, netip.AddrPortFrom(u.Addr().Unmap(), u.Port()))
}

func (s *Server) omit(u netip.AddrPort, reason string) {
	s.Omitted = append(s.Omitted, fmt.Sprintf("%s: %s", u, reason))
}

// weigh omits the name servers whose addresses workers say they have, but asks them
// if nobody else is left: root on a worker writes what it likes into its Node, and
// must not take the site's names away from every host.
func (s *Server) weigh(claimed []netip.AddrPort, own []netip.Addr, view state.NetworkView) {
	alone := len(s.Upstreams) == 0
	for _, u := range claimed {
		host := "the host " + claimant(u, view) + " of this cluster"
		if !alone {
			s.omit(u, "it is "+host+", which may query this one")
		} else if reason := s.refuse(u, own); reason != "" {
			s.omit(u, reason)
		} else {
			s.ask(u)
			s.Claimed = append(s.Claimed, fmt.Sprintf("%s: %s says that it has this address, and no other server is left", u, host))
		}
	}
}

// refuse returns why a name server is not asked.
func (s Server) refuse(u netip.AddrPort, own []netip.Addr) string {
	a := u.Addr().Unmap()
	switch {
	case !u.IsValid() || a.IsUnspecified() || a.IsMulticast():
		return "it is not the address of a server"
	case slices.Contains(own, a) && u.Port() == 53:
		return "it is this host's own address or a VIP, so CoreDNS would query itself"
	case a.IsLoopback() && u.Port() == 53:
		return "it is a server of this host, which may query CoreDNS again"
	case a.Zone() != "" || a.Is6() && a.IsLinkLocalUnicast():
		return "CoreDNS cannot use an address that is valid on only one link"
	case slices.Contains(s.Upstreams, netip.AddrPortFrom(a, u.Port())):
		return "it is listed twice"
	case len(s.Upstreams) == MaxUpstreams:
		return fmt.Sprintf("CoreDNS accepts at most %d", MaxUpstreams)
	}
	return ""
}

// returns says why a question to a name server may come back to this host, and
// then go round for as long as clients wait. The cluster's own DNS asks the
// hosts' name servers, and a control plane that is asked by another host may ask
// back.
func returns(u netip.AddrPort, view state.NetworkView) string {
	a := u.Addr().Unmap()
	inside := func(p netip.Prefix) bool { return p.Contains(a) }
	if slices.ContainsFunc(view.Settings.PodNetworks, inside) || slices.ContainsFunc(view.Settings.ServiceNetworks, inside) {
		return "it is in the cluster's networks of pods and Services, whose name server queries this one"
	}
	if n := owner(u, view, true); n != "" {
		return "it is the host " + n + " of this cluster, which may query this one"
	}
	return ""
}

// claimant returns the worker that says it has a name server's address.
func claimant(u netip.AddrPort, view state.NetworkView) string { return owner(u, view, false) }

// owner returns the control plane or the worker that has a name server's address.
func owner(u netip.AddrPort, view state.NetworkView, controlPlane bool) string {
	for _, n := range view.Nodes.Value {
		if u.Port() == 53 && n.ControlPlane() == controlPlane && slices.Contains(n.Addresses, u.Addr().Unmap()) {
			return n.Name
		}
	}
	return ""
}

// clients returns the networks that may ask: this host, by any of its addresses,
// the hosts, their pods, and the networks that a person has named.
func clients(view state.NetworkView) []netip.Prefix {
	s := view.Settings
	out := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, a := range view.Host.Addresses {
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, list := range [][]netip.Prefix{s.MachineNetworks, s.PodNetworks, s.ServiceNetworks, s.NameClients} {
		for _, p := range list {
			if p = p.Masked(); p.IsValid() && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// present returns the host's addresses that are on its interfaces and usable: a
// server that listens on another one does not start. While the kernel's
// addresses are unknown it returns all of them.
func present(view state.NetworkView) []netip.Addr {
	var out []netip.Addr
	for _, own := range view.Host.Addresses {
		there := slices.ContainsFunc(view.Addresses, func(a state.HostAddress) bool { return a.Prefix.Addr() == own && a.Usable })
		if own.IsValid() && (there || len(view.Addresses) == 0) {
			out = append(out, own)
		}
	}
	return out
}
