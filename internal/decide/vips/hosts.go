package vips

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/viprule"
)

// Host is a node of a running cluster, with what concerns virtual IPs.
type Host struct {
	Name                string
	ControlPlane, Ready bool
	// Addresses are the node's internal addresses.
	Addresses []netip.Addr
	// Report is the host's report about itself. It is unknown where its agent
	// never reported, or has a version with another format.
	Report state.Fact[state.VIPReport]
	// Probe and Answer hold the last question to the host and its answer.
	Probe  state.Fact[state.VIPProbe]
	Answer state.Fact[state.VIPAnswer]
}

// own returns all addresses of the host itself: those of its node and those that it
// reports, because a node may list one family only.
func (h Host) own() []netip.Addr {
	out := slices.Clone(h.Addresses)
	for _, p := range h.Report.Value.Addresses {
		if !slices.Contains(out, p.Addr()) {
			out = append(out, p.Addr())
		}
	}
	return out
}

// added is one new VIP with its place in the spec.
type added struct {
	addr netip.Addr
	path *field.Path
	// api is true for a VIP of the API, which only control planes may hold.
	api bool
}

// eligible returns the hosts whose role allows them to hold the VIP.
func (a added) eligible(hosts []Host) []Host {
	var out []Host
	for _, h := range hosts {
		if h.ControlPlane || !a.api {
			out = append(out, h)
		}
	}
	return out
}

// beside returns those eligible hosts that may hold the first VIP of the same list.
// A host outside that VIP's network does not hold it and need not be able to hold
// this one either. Where that network is unknown, or no host is in it, beside
// returns all eligible hosts.
func (a added) beside(s *Snapshot) []Host {
	all := a.eligible(s.Hosts)
	list := s.Status.Ingress
	if a.api {
		list = s.Status.API
	}
	machine := prefixes(s.networksWanted())
	now := parsed(list)
	if len(now) == 0 {
		return all
	}
	i := slices.IndexFunc(machine, func(p netip.Prefix) bool { return p.Contains(now[0]) })
	if i < 0 {
		return all
	}
	there := slices.DeleteFunc(slices.Clone(all), func(h Host) bool { return !slices.ContainsFunc(h.own(), machine[i].Contains) })
	if len(there) == 0 {
		return all
	}
	return there
}

// fits checks a new VIP against the hosts of the cluster. With a load balancer of
// the site, hosts need not be able to hold it.
func (a added) fits(s *Snapshot) []viprule.Finding {
	var out []viprule.Finding
	add := func(rule viprule.Rule, detail string) {
		if detail != "" {
			out = append(out, rule.Broken(field.Invalid(a.path, a.addr.String(), detail)))
		}
	}
	add(viprule.NotANode, a.ofNode(s.Hosts))
	if s.UserManaged {
		return out
	}
	add(viprule.NotAGateway, a.ofGateway(s.Hosts))
	add(viprule.HostsFamily, a.lackingFamily(a.beside(s)))
	add(viprule.HostsHold, a.nowhere(s.Hosts, prefixes(s.networksWanted())))
	return out
}

func (a added) ofNode(hosts []Host) string {
	for _, h := range hosts {
		if slices.Contains(h.own(), a.addr) {
			return "is the address of node " + h.Name
		}
	}
	return ""
}

func (a added) ofGateway(hosts []Host) string {
	for _, h := range hosts {
		if slices.Contains(h.Report.Value.Gateways, a.addr) {
			return "is the address of a gateway of " + h.Name
		}
	}
	return ""
}

func (a added) lackingFamily(hosts []Host) string {
	var without []string
	for _, h := range hosts {
		has := slices.ContainsFunc(h.own(), func(own netip.Addr) bool { return netaddr.FamilyOf(own) == netaddr.FamilyOf(a.addr) })
		if !has {
			without = append(without, h.Name)
		}
	}
	if len(without) == 0 {
		return ""
	}
	return fmt.Sprintf("is %s, but there is no %s address on %s, which may have to hold it",
		netaddr.FamilyOf(a.addr), netaddr.FamilyOf(a.addr), strings.Join(without, ", "))
}

// nowhere requires an eligible host in the machine network of the VIP. It finds
// nothing wrong where no machine network contains the VIP.
func (a added) nowhere(hosts []Host, machine []netip.Prefix) string {
	i := slices.IndexFunc(machine, func(p netip.Prefix) bool { return p.Contains(a.addr) })
	if i < 0 {
		return ""
	}
	for _, h := range a.eligible(hosts) {
		if slices.ContainsFunc(h.own(), machine[i].Contains) {
			return ""
		}
	}
	who := "host"
	if a.api {
		who = "control plane"
	}
	return fmt.Sprintf("lies in %s, where no %s has an address of its own", machine[i], who)
}

// held tells an administrator who answers for an address.
func (a added) held(by Holder) string {
	return fmt.Sprintf("is taken: %s answers for it, as reported by %s", by.Hardware, by.Seen)
}
