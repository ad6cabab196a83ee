package vrrp

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// senders holds the hardware addresses that hosts send from, by their own reports.
type senders struct {
	of map[netip.Addr][]string
	// hosts maps a hardware address to the other host that has it; owners maps an
	// address to all hosts that have it.
	hosts  map[string]string
	owners map[netip.Addr][]string
}

// mostNICs is the most hardware addresses that a host has behind one address: the
// members of a bond.
const mostNICs = 16

// knownSenders reads the reports of all hosts. A report about another host's
// address does not count. About a control plane's addresses only reports of control
// planes count.
func knownSenders(v state.NetworkView) senders {
	owners := map[netip.Addr][]string{}
	out := senders{of: map[netip.Addr][]string{}, hosts: map[string]string{}, owners: owners}
	masters := map[netip.Addr]bool{}
	for _, n := range v.Nodes.Value {
		for _, a := range slices.Concat(n.Addresses, n.Also) {
			owners[a.Unmap()] = append(owners[a.Unmap()], n.Name)
		}
		if controlPlane(n) {
			for _, a := range known(n) {
				masters[a] = true
			}
		}
	}
	for _, n := range v.Nodes.Value {
		for a, list := range reportOf(n).Hardware {
			others := len(owners[a]) > 0 && !slices.Contains(owners[a], n.Name)
			if len(list) > mostNICs || masters[a] && !controlPlane(n) || others {
				continue
			}
			out.of[a] = append(out.of[a], list...)
			for _, mac := range list {
				if n.Name != v.Host.NodeName {
					out.hosts[mac] = n.Name
				}
			}
		}
		out.also(n)
	}
	return out
}

// also binds the addresses that a node has at the other place of a move, and does not report there, to
// all hardware addresses that it reports: a host that moves within one network keeps its NICs. For one
// with a new NIC the kernel's way counts, as for any other (foreign, Senders).
func (s senders) also(n state.Node) {
	report := reportOf(n).Hardware
	var all []string
	for _, a := range slices.SortedFunc(maps.Keys(report), netip.Addr.Compare) {
		if slices.Contains(s.owners[a], n.Name) {
			all = append(all, s.of[a]...)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, a := range n.Also {
		if len(s.of[a.Unmap()]) == 0 && len(all) <= mostNICs {
			s.of[a.Unmap()] = all
		}
	}
}

// host names the other host that has a hardware address, empty where none has.
func (s senders) host(mac string) string { return s.hosts[mac] }

// owner names the host that has an address as its own, empty where none has.
func (s senders) owner(a netip.Addr) string { return strings.Join(s.owners[a.Unmap()], ", ") }

// foreign reports whether a frame in the name of an address comes from a hardware
// address that its host does not have. Where the kernel itself reaches the host
// there, the host has a NIC that it could not report yet, or the network writes
// other addresses into its frames. Then nothing is foreign, unless frames from the
// host's reported hardware addresses arrive as well.
func (s senders) foreign(h Heard, a netip.Addr, mac string) bool {
	known := s.of[a]
	if len(known) == 0 || slices.Contains(known, mac) {
		return false
	}
	return h.Neighbours[a] != mac || slices.ContainsFunc(h.Frames, func(f Frame) bool {
		return (f.Source == a || f.Claims == a) && slices.Contains(known, f.MAC)
	})
}

// Says returns the hardware addresses that the host of an address reports.
func Says(v state.NetworkView, a netip.Addr) []string { return knownSenders(v).of[a] }

// Senders maps each peer to the hardware addresses from which its adverts are let
// in: those that the peer reports. It leaves out a peer that reports nothing, as
// one of an older version, and one that the kernel reaches elsewhere: without its
// adverts a VIP would get two holders, which is worse than what a foreign host on
// the wire can do (ADR 0037).
func Senders(v state.NetworkView, instances []Instance, neighbours map[netip.Addr]string) map[netip.Addr][]string {
	who := knownSenders(v)
	out := map[netip.Addr][]string{}
	for _, i := range instances {
		for _, p := range i.Peers {
			at, reached := neighbours[p]
			if list := who.of[p]; len(list) > 0 && (!reached || slices.Contains(list, at)) {
				out[p] = list
			}
		}
	}
	return out
}

// highest returns the highest priority with which any host asks for a VIP.
func highest(k Kind) int {
	if k == API {
		return APIPriority + bootstrapWeight
	}
	return IngressPriority + readyWeight + defaultWeight
}

// Forged returns the adverts in the name of a peer, or of this host itself, that it
// did not send: the source's hardware address shows that, or a priority that no
// host has.
func Forged(h Heard, v state.NetworkView, instances []Instance) []state.ForgedAdvert {
	var out []state.ForgedAdvert
	who := knownSenders(v)
	for _, i := range instances {
		own := slices.Concat(h.Own, v.Hardware[i.Interface])
		for _, f := range h.Frames {
			if !f.Advert || f.RouterID != i.RouterID || f.Source.Is4() != i.VIP.Is4() {
				continue
			}
			mine, peer := f.Source == i.Source, slices.Contains(i.Peers, f.Source)
			excess := int(f.Priority) > highest(i.Kind)
			foreign := mine && !slices.Contains(own, f.MAC) || peer && who.foreign(h, f.Source, f.MAC)
			forged := state.ForgedAdvert{VIP: i.VIP, As: f.Source, By: f.MAC, Excess: excess}
			if (mine || peer) && (excess || foreign) && !slices.Contains(out, forged) {
				out = append(out, forged)
			}
		}
	}
	slices.SortFunc(out, func(a, b state.ForgedAdvert) int {
		return cmp.Or(a.VIP.Compare(b.VIP), a.As.Compare(b.As), cmp.Compare(a.By, b.By))
	})
	return out
}

// ExplainForged says what a forged advert means, and what to do.
func ExplainForged(f state.ForgedAdvert) string {
	what := "which is not that host's"
	if f.Excess {
		what = "with a priority that no host has"
	}
	return fmt.Sprintf("adverts for VIP %s come in the name of %s from hardware address %s, %s: "+
		"a machine on the network tries to take the VIP; find its port on the switch, and shut it down", f.VIP, f.As, f.By, what)
}
