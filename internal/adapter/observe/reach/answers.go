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

// asked is an address of a host that was asked on one of this host's networks.
type asked struct {
	link netlink.Link
	ip   netip.Addr
	mac  net.HardwareAddr // the one that is asked, nil if none was known
}

// Answers reports whether a host answers, at one of its addresses and within
// Patience, a question that is asked after the call. The result is unknown if
// none of the addresses is on a network of this host whose NIC carries a
// signal. It is also unknown if answers come only for addresses without a
// hardware address known before. An answer from another hardware address is not
// the host's: somebody took its address, or answers for others. own has all hardware
// addresses of the host; empty if they are not known. Where another machine with the
// host's address stands in the kernel's table, the host itself cannot be asked, so
// the result is unknown. The table is left as it is: the other machine may be one
// that has to hear from this host that it is out of its site.
func Answers(ctx context.Context, addresses []netip.Addr, own []string) (state.Fact[bool], error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return state.Fact[bool]{}, fmt.Errorf("ask a host: %w", err)
	}
	defer nl.Close()
	var list []asked
	for _, ip := range addresses {
		a, err := askAt(nl, ip)
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
	// Something answered, or was asked, and it is not certain that it is the host.
	someone := slices.ContainsFunc(list, func(a asked) bool { return foreign(own, a.mac) })
	for end := time.Now().Add(Patience); time.Now().Before(end); {
		if err := host.Sleep(ctx, look); err != nil {
			return state.Fact[bool]{}, err
		}
		for _, a := range list {
			answer, err := a.answer(nl, own)
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
// has no signal.
func askAt(nl *netlink.Handle, ip netip.Addr) (asked, error) {
	link, err := linkTo(nl, ip)
	if err != nil || link == nil || !carries(link) {
		return asked{}, err
	}
	table, err := nl.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		return asked{}, fmt.Errorf("list neighbours: %w", err)
	}
	a := asked{link: link, ip: ip, mac: macOf(table, ip)}
	if len(a.mac) == 0 {
		return a, lookFor(nl, link, ip)
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

// foreign reports whether a hardware address is known to be another machine's.
func foreign(own []string, mac net.HardwareAddr) bool {
	return len(own) > 0 && len(mac) > 0 && !slices.Contains(own, mac.String())
}

// answer returns who has answered.
func (a asked) answer(nl *netlink.Handle, own []string) (answer, error) {
	table, err := nl.NeighList(a.link.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		return nobody, fmt.Errorf("list neighbours: %w", err)
	}
	for _, n := range table {
		if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == a.ip {
			return a.judge(n, own), nil
		}
	}
	return nobody, nil
}

// judge reads the kernel's entry of the address. Another machine that gets in there hides
// whether the host answered: the kernel takes no second answer for a second.
func (a asked) judge(n netlink.Neigh, own []string) answer {
	switch {
	case foreign(own, n.HardwareAddr):
		return somebody
	case n.State&unix.NUD_REACHABLE == 0:
		return nobody
	case len(own) > 0, slices.Equal(a.mac, n.HardwareAddr):
		return itself
	case len(a.mac) == 0:
		return somebody
	}
	return nobody
}
