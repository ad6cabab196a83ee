package vrrp

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/state"
)

// Heard gathers what was heard on the networks of a host for a while.
type Heard struct {
	// Own are the hardware addresses of this host.
	Own []string
	// Frames are those of others.
	Frames []Frame
}

// Claims are the strangers among those that were heard: who sends adverts about a
// VIP with its router id and is no peer, and who answers for a VIP though it does
// not send adverts as a peer does. A VIP that a peer announces is the peer's, with
// whatever hardware address it answers.
//
// namesakes use a router id of this cluster for addresses of their own, as the
// gateways of many networks do for good. Nothing comes of it: hosts listen to
// their peers alone.
func Claims(h Heard, instances []Instance) (out, namesakes []state.VIPClaim) {
	add := func(to *[]state.VIPClaim, c state.VIPClaim) {
		if !slices.Contains(*to, c) {
			*to = append(*to, c)
		}
	}
	ours := func(a netip.Addr) bool {
		return slices.ContainsFunc(instances, func(i Instance) bool { return i.VIP == a })
	}
	for _, i := range instances {
		friends, announced := friends(h, i)
		for _, f := range h.Frames {
			switch {
			case f.Advert && f.RouterID == i.RouterID && f.Source.Is4() == i.VIP.Is4() && !slices.Contains(i.Peers, f.Source) && f.Source != i.Source:
				of := &namesakes
				if slices.ContainsFunc(f.Announces, ours) {
					of = &out
				}
				add(of, state.VIPClaim{By: f.Source.String(), RouterID: f.RouterID})
			case f.Claims == i.VIP && !announced && !slices.Contains(h.Own, f.MAC) && !slices.Contains(friends, f.MAC):
				add(&out, state.VIPClaim{VIP: i.VIP, By: f.MAC})
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

// friends are the hardware addresses of an instance's peers, and whether one of
// them announces its VIP.
func friends(h Heard, i Instance) (macs []string, announced bool) {
	for _, f := range h.Frames {
		peer := slices.Contains(i.Peers, f.Source) || slices.Contains(i.Peers, f.Claims)
		if peer {
			macs = append(macs, f.MAC)
		}
		announced = announced || peer && f.Advert && f.RouterID == i.RouterID
	}
	return macs, announced
}

// Doubted are the control planes, by node name, that haproxy does not find
// live: those have to be asked whether they answer at all, or an API that is
// overloaded could not be told from a network that is split. There are none
// where it does not matter.
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
	if c.VIP.IsValid() {
		return fmt.Sprintf("VIP %s is also held by the machine with hardware address %s, which is no host of this cluster: take the address off that machine", c.VIP, c.By)
	}
	return fmt.Sprintf("%s, which is no host of this cluster, sends VRRP adverts with our router id %d for one of our VIPs; they change nothing here, but whoever sends them is about to take it: give one of the two another VIP", c.By, c.RouterID)
}

// ExplainNamesake says what a stranger's use of our router id means.
func ExplainNamesake(c state.VIPClaim) string {
	return fmt.Sprintf("%s, which is no host of this cluster, sends VRRP adverts with our router id %d for other addresses: nothing comes of it", c.By, c.RouterID)
}
