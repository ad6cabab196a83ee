// Package reach asks the neighbours of a host whether packets reach them and come
// back. It uses ARP or neighbour discovery through the kernel's own table, so that
// it opens nothing and needs no other traffic.
package reach

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/reach"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// Patience is the time that a neighbour gets to answer: one on the same network
	// needs a millisecond.
	Patience = 200 * time.Millisecond
	// look is the pause between two looks at the answers.
	look = 10 * time.Millisecond
	// most bounds how many neighbours are asked, gateways first.
	most = 5
	// forget is the time for which a neighbour without an answer is still asked.
	forget = 10 * time.Minute
	// tired is the number of unanswered questions after which a neighbour is asked
	// only in every nowAndThen-th round: the kernel drops such an entry, and asks
	// the whole network when it is needed.
	tired, nowAndThen = 20, 30
)

// Prober asks the neighbours on the network of one of this host's addresses.
type Prober struct {
	// Own is this host's address on the machine network, Peer the other host's.
	Own, Peer netip.Addr
	// Uptime returns the time since boot.
	Uptime func() time.Duration
	// PeerAt is called with the hardware address at which the kernel reaches the
	// peer, once it is another one; nil for nobody.
	PeerAt func(net.HardwareAddr)

	known []*neighbour
	peer  net.HardwareAddr // its last known hardware address
	round int
}

type neighbour struct {
	reach.Neighbour
	mac  net.HardwareAddr
	seen time.Duration // when it was last in the kernel's table
}

// Round asks each neighbour once and returns what is known of them, and whether the
// NIC carries a signal.
func (p *Prober) Round(ctx context.Context) (state.Fact[bool], []reach.Neighbour, error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return state.Fact[bool]{}, nil, fmt.Errorf("ask neighbours: %w", err)
	}
	defer nl.Close()
	link, err := linkOf(nl, p.Own)
	if err != nil {
		return state.Fact[bool]{}, nil, err
	}
	p.round++
	signal := state.Known(carries(link))
	if err := p.gather(nl, link); err != nil {
		return signal, nil, err
	}
	if signal.Value {
		err = p.ask(ctx, nl, link)
	} else {
		p.note(map[netip.Addr]bool{}, p.known)
	}
	return signal, p.neighbours(), err
}

// linkOf returns the interface that has an address.
func linkOf(nl *netlink.Handle, own netip.Addr) (netlink.Link, error) {
	list, err := nl.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range list {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && ip.Unmap() == own {
			return nl.LinkByIndex(a.LinkIndex)
		}
	}
	return nil, fmt.Errorf("no interface has the address %s", own)
}

// carries reports whether a NIC has a signal, as the kernel sees it; for a bond or
// a VLAN that is the signal of the NICs below.
func carries(link netlink.Link) bool {
	a := link.Attrs()
	return a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_RUNNING != 0
}

// gather collects the gateways and those neighbours in the kernel's table that
// answered somebody. A neighbour with the peer's hardware address is the peer,
// whatever its address, virtual IPs included.
func (p *Prober) gather(nl *netlink.Handle, link netlink.Link) error {
	table, err := nl.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	gateways, err := gatewaysOf(nl, link)
	if err != nil {
		return err
	}
	now := p.Uptime()
	p.notePeer(macOf(table, p.Peer))
	for _, n := range table {
		ip, ok := netip.AddrFromSlice(n.IP)
		ip = ip.Unmap()
		if !ok || len(n.HardwareAddr) == 0 || n.State&(unix.NUD_NOARP|unix.NUD_PERMANENT|unix.NUD_FAILED) != 0 || ip.IsMulticast() {
			continue
		}
		p.take(ip, n.HardwareAddr, slices.Contains(gateways, ip), now)
	}
	p.known = slices.DeleteFunc(p.known, func(n *neighbour) bool {
		return n.Address == p.Peer || len(p.peer) > 0 && slices.Equal(n.mac, p.peer) || now-max(n.seen, n.Answered) > forget
	})
	slices.SortStableFunc(p.known, func(a, b *neighbour) int { return rank(a) - rank(b) })
	p.known = p.known[:min(len(p.known), most)]
	return p.resolve(nl, link, gateways)
}

// notePeer takes the peer's hardware address in the kernel's table, empty if it is not
// there.
func (p *Prober) notePeer(mac net.HardwareAddr) {
	if len(mac) == 0 || slices.Equal(mac, p.peer) {
		return
	}
	p.peer = mac
	if p.PeerAt != nil {
		p.PeerAt(mac)
	}
}

// rank puts gateways first, then neighbours that have answered before.
func rank(n *neighbour) int {
	switch {
	case n.Gateway:
		return 0
	case n.Answered != 0:
		return 1
	}
	return 2
}

func (p *Prober) find(ip netip.Addr) *neighbour {
	for _, n := range p.known {
		if n.Address == ip {
			return n
		}
	}
	return nil
}

func (p *Prober) take(ip netip.Addr, mac net.HardwareAddr, gateway bool, now time.Duration) {
	n := p.find(ip)
	if n == nil {
		n = &neighbour{Neighbour: reach.Neighbour{Address: ip}}
		p.known = append(p.known, n)
	}
	n.mac, n.Gateway, n.seen = mac, gateway, now
}

func macOf(table []netlink.Neigh, a netip.Addr) net.HardwareAddr {
	for _, n := range table {
		if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == a {
			return n.HardwareAddr
		}
	}
	return nil
}

func gatewaysOf(nl *netlink.Handle, link netlink.Link) ([]netip.Addr, error) {
	routes, err := nl.RouteList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var out []netip.Addr
	for _, r := range routes {
		if gw, ok := netip.AddrFromSlice(r.Gw); ok {
			out = append(out, gw.Unmap())
		}
	}
	return out, nil
}

// resolve makes the kernel look for gateways and the peer if they are not in its
// table yet: a host without traffic has never asked for them.
func (p *Prober) resolve(nl *netlink.Handle, link netlink.Link, gateways []netip.Addr) error {
	if p.round%nowAndThen != 1 {
		return nil
	}
	for _, a := range append(gateways, p.Peer) {
		if p.find(a) == nil {
			if err := lookFor(nl, link, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookFor makes the kernel look for an address, as if it had a packet to send
// there.
func lookFor(nl *netlink.Handle, link netlink.Link, ip netip.Addr) error {
	entry := entryOf(link, ip, nil, unix.NUD_NONE)
	entry.Flags = unix.NTF_USE
	if err := nl.NeighSet(entry); err != nil {
		return fmt.Errorf("look for neighbour %s: %w", ip, err)
	}
	return nil
}

// doubt makes the kernel itself ask a neighbour. It sets the entry to stale and
// then to probe, since an entry that is already in doubt has to be asked anew.
func doubt(nl *netlink.Handle, link netlink.Link, ip netip.Addr, mac net.HardwareAddr) error {
	for _, nud := range []int{unix.NUD_STALE, unix.NUD_PROBE} {
		if err := nl.NeighSet(entryOf(link, ip, mac, nud)); err != nil {
			return fmt.Errorf("ask neighbour %s: %w", ip, err)
		}
	}
	return nil
}

func entryOf(link netlink.Link, ip netip.Addr, mac net.HardwareAddr, nud int) *netlink.Neigh {
	family := netlink.FAMILY_V4
	if ip.Is6() {
		family = netlink.FAMILY_V6
	}
	return &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: family, IP: ip.AsSlice(), HardwareAddr: mac, State: nud}
}

// ask makes the kernel doubt each entry, so that it asks the neighbour itself,
// and waits for the answers.
func (p *Prober) ask(ctx context.Context, nl *netlink.Handle, link netlink.Link) error {
	asked := slices.DeleteFunc(slices.Clone(p.known), func(n *neighbour) bool { return n.Missed > tired && p.round%nowAndThen != 0 })
	for _, n := range asked {
		if err := doubt(nl, link, n.Address, n.mac); err != nil {
			return err
		}
	}
	answered := map[netip.Addr]bool{}
	for end := p.Uptime() + Patience; len(answered) < len(asked) && p.Uptime() < end; {
		if err := host.Sleep(ctx, look); err != nil {
			return err
		}
		table, err := nl.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("list neighbours: %w", err)
		}
		for _, n := range table {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && n.State&unix.NUD_REACHABLE != 0 && p.find(ip.Unmap()) != nil {
				answered[ip.Unmap()] = true
			}
		}
	}
	p.note(answered, asked)
	return nil
}

// note records who answered.
func (p *Prober) note(answered map[netip.Addr]bool, asked []*neighbour) {
	now := p.Uptime()
	for _, n := range asked {
		switch {
		case !answered[n.Address]:
			n.Missed++
			n.Steady = 0
		default:
			n.Answered, n.Missed = now, 0
			if n.Steady == 0 {
				n.Steady = now
			}
		}
	}
}

func (p *Prober) neighbours() []reach.Neighbour {
	out := make([]reach.Neighbour, 0, len(p.known))
	for _, n := range p.known {
		out = append(out, n.Neighbour)
	}
	return out
}
