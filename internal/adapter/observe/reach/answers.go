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
	"github.com/holdfast/holdfast/internal/model/state"
)

// Hardware says which hardware addresses a host has behind one of its addresses.
type Hardware struct {
	// Told are those that the host itself reports. Where two machines claim one
	// address, they tell which of the two is the host.
	Told []string
	// Seen is the one of them at which the kernel reached the host last.
	Seen net.HardwareAddr
}

// has reports whether a hardware address is the host's, as far as it is known.
func (h Hardware) has(mac net.HardwareAddr) bool {
	return len(h.Seen) == 0 || slices.Contains(h.Told, mac.String())
}

// asked is an address of a host that was asked on one of this host's networks.
type asked struct {
	link netlink.Link
	ip   netip.Addr
	own  Hardware
	mac  net.HardwareAddr // the one that was asked, nil if none was known
}

// Answers reports whether a host answers, at one of its addresses and within
// Patience, a question that is asked after the call. The result is unknown if
// none of the addresses is on a network of this host whose NIC carries a
// signal. It is also unknown if answers come only for addresses without a
// hardware address known before. An answer from another hardware address is not
// the host's: somebody took its address, or answers for others. known tells of
// some addresses which hardware addresses are the host's. Without it, that is the
// one in the kernel's table, which another machine with the address may have
// written there.
func Answers(ctx context.Context, addresses []netip.Addr, known map[netip.Addr]Hardware) (state.Fact[bool], error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return state.Fact[bool]{}, fmt.Errorf("ask a host: %w", err)
	}
	defer nl.Close()
	var list []asked
	for _, ip := range addresses {
		a, err := askAt(nl, ip, known[ip])
		if err != nil {
			return state.Fact[bool]{}, err
		}
		if a.link != nil {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return state.Fact[bool]{}, nil
	}
	someone := false // something answered, and it is not certain that it is the host
	for end := time.Now().Add(Patience); time.Now().Before(end); {
		if err := host.Sleep(ctx, look); err != nil {
			return state.Fact[bool]{}, err
		}
		for _, a := range list {
			answer, err := a.answer(nl)
			switch {
			case err != nil:
				return state.Fact[bool]{}, err
			case answer == itself:
				return state.Known(true), nil
			case answer == somebody:
				someone = true // the host may still answer at another of its addresses
			}
		}
	}
	if someone {
		return state.Fact[bool]{}, nil
	}
	return state.Known(false), nil
}

// askAt makes the kernel ask an address, on the interface whose network
// contains it. The result has no link if there is no such interface, or its NIC
// has no signal. If another machine stands in the kernel's table, the host is asked
// at its own hardware address.
func askAt(nl *netlink.Handle, ip netip.Addr, own Hardware) (asked, error) {
	link, err := linkTo(nl, ip)
	if err != nil || link == nil || !carries(link) {
		return asked{}, err
	}
	table, err := nl.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		return asked{}, fmt.Errorf("list neighbours: %w", err)
	}
	a := asked{link: link, ip: ip, own: own, mac: macOf(table, ip)}
	switch {
	case len(a.mac) == 0:
		return a, lookFor(nl, link, ip)
	case !own.has(a.mac):
		a.mac = own.Seen
	}
	return a, doubt(nl, link, ip, a.mac)
}

// linkTo returns the interface on whose network an address is, nil for none.
func linkTo(nl *netlink.Handle, ip netip.Addr) (netlink.Link, error) {
	list, err := nl.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range list {
		own, ok := netip.AddrFromSlice(a.IP)
		bits, _ := a.Mask.Size()
		if !ok || own.Unmap().BitLen() != ip.BitLen() || bits == ip.BitLen() || own.IsLinkLocalUnicast() ||
			!netip.PrefixFrom(own.Unmap(), bits).Contains(ip) {
			continue
		}
		link, err := nl.LinkByIndex(a.LinkIndex)
		if err != nil {
			return nil, fmt.Errorf("interface of %s: %w", own, err)
		}
		if joinsHosts(link.Attrs().Name) {
			return link, nil
		}
	}
	return nil, nil //nolint:nilnil // no interface is an answer
}

// answer says who has answered a question.
type answer int

// The answers.
const (
	nobody   answer = iota
	somebody        // it may be the host, or not
	itself          // the host
)

// answer returns who has answered. Where the host's own hardware addresses are known,
// another machine that gets into the kernel's table hides whether the host answered:
// the kernel takes no second answer for a second.
func (a asked) answer(nl *netlink.Handle) (answer, error) {
	table, err := nl.NeighList(a.link.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		return nobody, fmt.Errorf("list neighbours: %w", err)
	}
	for _, n := range table {
		if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == a.ip {
			return a.judge(n), nil
		}
	}
	return nobody, nil
}

// judge reads the kernel's entry of the address.
func (a asked) judge(n netlink.Neigh) answer {
	reachable := n.State&unix.NUD_REACHABLE != 0
	switch {
	case len(n.HardwareAddr) > 0 && !a.own.has(n.HardwareAddr):
		return somebody
	case !reachable:
		return nobody
	case len(a.own.Seen) > 0, slices.Equal(a.mac, n.HardwareAddr):
		return itself
	case len(a.mac) == 0:
		return somebody
	}
	return nobody
}
