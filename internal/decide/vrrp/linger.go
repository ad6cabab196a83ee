package vrrp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The times for which a host keeps a VIP on its loopback interface. The kernel ends
// them, so nothing is left behind by an agent that is killed.
const (
	// LingerHeld is for a VIP that the host holds. It is renewed at least every 30 s.
	LingerHeld = 90 * time.Second
	// LingerLeft is for a VIP that has just left the host. A router that drains
	// serves for 10 s.
	LingerLeft = 15 * time.Second
)

// Linger says what is to be done with one VIP on the loopback interface: For is how
// long it stays, zero takes it away.
type Linger struct {
	VIP netip.Addr
	For time.Duration
}

// Lingering is the memory of Lingers: the VIPs that this host holds or held, by
// address.
type Lingering map[netip.Addr]lingering

type lingering struct {
	kind Kind
	left bool
}

// Lingers decides which VIPs the host has on its loopback interface. Nobody is told
// of an address there, and it answers no ARP and no neighbour solicitation. But a
// host that has just lost the VIP still answers the requests that it was sent, and
// those that come until all clients know the next holder. Without the address
// the kernel drops both.
//
// A VIP that has left lingers only while the server behind it works on this host:
// the host's own pods reach that one by the VIP meanwhile.
func Lingers(before Lingering, v state.NetworkView) (after Lingering, todo []Linger) {
	if len(v.Addresses) == 0 {
		return before, nil // the host does not know yet what it holds
	}
	after = Lingering{}
	for _, kind := range []Kind{API, Ingress} {
		for _, vip := range kind.vips(v.Settings) {
			if holds(v, vip) {
				after[vip] = lingering{kind: kind}
				todo = append(todo, Linger{vip, LingerHeld})
			}
		}
	}
	for vip, l := range before {
		_, held := after[vip]
		switch {
		case held:
		case !serves(v, l.kind):
			todo = append(todo, Linger{VIP: vip})
		case l.left:
			after[vip] = l
		default:
			after[vip] = lingering{kind: l.kind, left: true}
			todo = append(todo, Linger{vip, LingerLeft})
		}
	}
	slices.SortFunc(todo, func(a, b Linger) int { return a.VIP.Compare(b.VIP) })
	return after, todo
}

// vips returns the VIPs of a kind.
func (k Kind) vips(s state.NetworkSettings) []netip.Addr {
	if k == Ingress {
		return s.IngressVIPs
	}
	return s.APIVIPs
}

// serves reports whether a request to a VIP of a kind is answered on this host.
func serves(v state.NetworkView, kind Kind) bool {
	if kind == Ingress {
		return v.Router.Known && v.Router.Value.Healthy
	}
	return v.Balancer.Known && v.Balancer.Value.Live() > 0
}

func holds(v state.NetworkView, vip netip.Addr) bool {
	return slices.ContainsFunc(v.Addresses, func(a state.HostAddress) bool { return a.Prefix.Addr() == vip })
}
