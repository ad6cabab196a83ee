package vrrp

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Heard holds what arrived on the networks of a host for a while.
type Heard struct {
	// Own are the hardware addresses of this host.
	Own []string
	// Frames are the frames of other hosts.
	Frames []Frame
	// Neighbours maps an address to the hardware address at which the kernel
	// reaches it.
	Neighbours map[netip.Addr]string
}

// Claims returns who else claims a VIP. One kind sends adverts about a VIP with its
// router id and is no peer. The other answers for a VIP but does not send adverts
// as a peer does. A VIP that a peer announces is the peer's, whatever hardware
// address answers. Where another host's hardware address answers for a VIP that
// nobody announces, that host left the VIP behind, or a switch answers for it: that
// keeps no host from the VIP.
//
// namesakes use a router id of this cluster for addresses of their own, as the
// gateways of many networks do permanently. They change nothing: hosts listen to
// their peers alone.
func Claims(h Heard, v state.NetworkView, instances []Instance) (out, namesakes []state.VIPClaim) {
	add := func(to *[]state.VIPClaim, c state.VIPClaim) {
		if !slices.Contains(*to, c) {
			*to = append(*to, c)
		}
	}
	ours := func(a netip.Addr) bool {
		return slices.ContainsFunc(instances, func(i Instance) bool { return i.VIP == a })
	}
	who := knownSenders(v)
	for _, i := range instances {
		friends, announced := friends(h, who, i)
		for _, f := range h.Frames {
			switch {
			case f.Advert && f.RouterID == i.RouterID && f.Source.Is4() == i.VIP.Is4() && !slices.Contains(i.Peers, f.Source) && f.Source != i.Source:
				of := &namesakes
				if slices.ContainsFunc(f.Announces, ours) {
					of = &out
				}
				add(of, state.VIPClaim{By: f.Source.String(), RouterID: f.RouterID, Host: who.owner(f.Source)})
			case f.Claims == i.VIP && !announced && !slices.Contains(h.Own, f.MAC) && !slices.Contains(friends, f.MAC):
				add(&out, state.VIPClaim{VIP: i.VIP, By: f.MAC, Host: who.host(f.MAC)})
			}
		}
	}
	for _, list := range [][]state.VIPClaim{out, namesakes} {
		slices.SortFunc(list, func(a, b state.VIPClaim) int {
			return cmp.Or(a.VIP.Compare(b.VIP), cmp.Compare(a.By, b.By), cmp.Compare(a.RouterID, b.RouterID))
		})
	}
	return out, namesakes
}

// Shared reports whether another control plane holds a virtual IP that this host holds, too: they do not
// hear each other. It counts if that host says so itself. What anybody on the network can cause is not among
// it: adverts that change nothing, and an answer with whatever hardware address. Nor is a worker that left
// an ingress VIP behind.
func Shared(v state.NetworkView) bool {
	return slices.ContainsFunc(v.Claims, func(c state.VIPClaim) bool {
		return slices.Contains(v.Settings.VIPs(), c.VIP) && holds(v, c.VIP) && slices.ContainsFunc(controlPlanes(v.Nodes.Value), func(n state.Node) bool {
			return n.Name == c.Host && slices.Contains(reportOf(n).Holds, c.VIP)
		})
	})
}

// Claimant returns the hardware address of a machine that claims or announces a VIP and has none
// of the own hardware addresses; empty for none. It is for a host that has no peers yet.
func Claimant(heard []Frame, vip netip.Addr, own []string) string {
	for _, f := range heard {
		if (f.Claims == vip || slices.Contains(f.Announces, vip)) && !slices.Contains(own, f.MAC) {
			return f.MAC
		}
	}
	return ""
}

// friends returns the hardware addresses of those peers of an instance that have
// reported none, and whether a peer announces the VIP. A greeting or a farewell is
// no announcement. A frame in a peer's name from a foreign hardware address does
// not count.
func friends(h Heard, who senders, i Instance) (macs []string, announced bool) {
	for _, f := range h.Frames {
		a := f.Source
		if !slices.Contains(i.Peers, a) {
			a = f.Claims
		}
		if !slices.Contains(i.Peers, a) || who.foreign(h, a, f.MAC) {
			continue
		}
		if len(who.of[a]) == 0 {
			macs = append(macs, f.MAC)
		}
		announced = announced || f.Advert && f.RouterID == i.RouterID && f.Priority > greeting
	}
	return macs, announced
}

// Doubted returns the control planes that haproxy does not find live, with an
// address, by node name. This host has to ask those whether they answer at all:
// otherwise it could not tell an overloaded API from a network that is cut. It
// returns none where that does not matter.
func Doubted(v state.NetworkView) map[string]netip.Addr {
	self, listed := v.Self()
	if !listed || !controlPlane(self) || v.Settings.Fencing {
		return nil
	}
	out := map[string]netip.Addr{}
	for _, n := range controlPlanes(v.Nodes.Value) {
		if n.Name != self.Name && len(n.Addresses) > 0 && !v.Balancer.Value.Backends[n.Name] {
			out[n.Name] = n.Addresses[0]
		}
	}
	return out
}

// Explain says what a claim means, and what to do.
func Explain(c state.VIPClaim) string {
	switch {
	case c.Host != "" && !c.VIP.IsValid():
		return fmt.Sprintf("%s (%s) sends VRRP adverts with router id %d for a virtual IP that this host may never hold; they change nothing here: "+
			"look for a second keepalived on %s, or for another process there that runs as root", c.Host, c.By, c.RouterID, c.Host)
	case c.Host != "":
		return fmt.Sprintf("VIP %s is also answered for by %s (%s), which does not announce it: its keepalived and its agent are gone, "+
			"or a switch answers for it; other hosts can still take the VIP", c.VIP, c.Host, c.By)
	case c.VIP.IsValid():
		return fmt.Sprintf("VIP %s is also held by the machine with hardware address %s, which is not a host of this cluster: remove the address from that machine", c.VIP, c.By)
	}
	return fmt.Sprintf("%s, which is not a host of this cluster, sends VRRP adverts with our router id %d for one of our VIPs; they change nothing here, but their sender is about to take the VIP: "+
		"give one of the two clusters another VIP, and another id (annotation %svrrp-router-ids of infrastructures.config.openshift.io/cluster)", c.By, c.RouterID, state.AnnotationDomain)
}

// ExplainNamesake says what a foreign host's use of our router id means.
func ExplainNamesake(c state.VIPClaim) string {
	return fmt.Sprintf("%s, which is not a host of this cluster, sends VRRP adverts with our router id %d for other addresses: they have no effect", c.By, c.RouterID)
}
