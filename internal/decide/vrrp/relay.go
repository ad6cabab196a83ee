package vrrp

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// HoldsAnnotation of a node lists the virtual IPs that its host holds and does not give
// away, in the cluster's order, separated by commas; it is empty where there is none. A host
// that gives one away says so before it does: the next holder has to know the former one
// with its first packet.
const HoldsAnnotation = state.AnnotationDomain + "vips"

// Announced reports whether the node of this host says of no VIP that is given away that the
// host keeps it, as far as this host knows from the API.
func Announced(v state.NetworkView) bool {
	self, _ := v.Self()
	kept := strings.Split(self.Annotations[HoldsAnnotation], ",")
	return !slices.ContainsFunc(v.Settings.VIPs(), func(vip netip.Addr) bool { return GivesAway(v, vip) && slices.Contains(kept, vip.String()) })
}

// The times of a hand-over in order.
const (
	// RelayFor is how long packets are passed on to the former holder. A router that
	// drains ends its kept connections after 10 s; the VIP lingers there for longer.
	RelayFor = 12 * time.Second
	// relayWithin bounds the time after which the former holder says that it has let a
	// VIP go that this host has taken.
	relayWithin = 3 * time.Second
)

// Relay says to which host a holder passes packets of TCP connections on that it does
// not know.
type Relay struct {
	VIP, Former netip.Addr
}

// Relays is the memory of NextRelays, by VIP.
type Relays map[netip.Addr]handed

type handed struct {
	// known is false before the first look; held is what it saw.
	known, held bool
	// took is when this host was seen to have taken the VIP, zero if it had it before.
	took time.Time
	// former is the address of the other host that says that it holds the VIP.
	former netip.Addr
}

// NextRelays decides for which VIPs this host passes packets on, from now on: those
// that another host lets go in order. It says so itself, so it lives, and its VIP
// lingers. It says so before this host takes the VIP, or right after that where the API is
// slow. A host that was lost says nothing, and its connections are reset: their
// clients then know.
func NextRelays(before Relays, v state.NetworkView, now time.Time) (after Relays, todo []Relay) {
	if len(v.Addresses) == 0 || !v.Nodes.Known {
		return before, nil
	}
	after = Relays{}
	for _, vip := range v.Settings.VIPs() {
		h := before[vip]
		if held := holds(v, vip); held != h.held || !h.known {
			if h.took = (time.Time{}); held && h.known {
				h.took = now
			}
			h.known, h.held = true, held
		}
		other := holder(v, vip)
		if h.former.IsValid() && !other.IsValid() && (!h.held || recent(h.took, now)) {
			todo = append(todo, Relay{vip, h.former})
		}
		h.former = other
		after[vip] = h
	}
	return after, todo
}

func recent(at, now time.Time) bool {
	since := now.Sub(at)
	return !at.IsZero() && since >= 0 && since <= relayWithin
}

// holder returns the address of the other host that says that it has a VIP, invalid
// for none. A worker that says that it has one of the API is not believed.
func holder(v state.NetworkView, vip netip.Addr) netip.Addr {
	api := slices.Contains(v.Settings.APIVIPs, vip)
	for _, n := range v.Nodes.Value {
		if n.Name == v.Host.NodeName || api && !controlPlane(n) || !slices.Contains(strings.Split(n.Annotations[HoldsAnnotation], ","), vip.String()) {
			continue
		}
		for _, a := range n.Addresses {
			if a.Is4() == vip.Is4() {
				return a
			}
		}
	}
	return netip.Addr{}
}
