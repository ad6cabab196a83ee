package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// The groups of multicast DNS, and the requirements of RFC 6762 for its
// packets.
var (
	group4 = netip.MustParseAddr("224.0.0.251")
	group6 = netip.MustParseAddr("ff02::fb")
)

const (
	port       = 5353
	fullHops   = 255
	maxMessage = 9000
)

// place is one address on the interface that has it. If the interface is
// created anew, it is another place.
type place struct {
	addr  netip.Addr
	index int
	name  string
}

// places returns the places of the addresses; it leaves out those that no
// interface has. onLink holds the networks of each interface, by its number.
func places(addrs []netip.Addr) (at []place, onLink map[int][]netip.Prefix, err error) {
	have, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, nil, err
	}
	onLink = map[int][]netip.Prefix{}
	for _, a := range have {
		p, err := netip.ParsePrefix(a.IPNet.String())
		if err != nil {
			continue
		}
		onLink[a.LinkIndex] = append(onLink[a.LinkIndex], linkOf(p))
		if !slices.Contains(addrs, p.Addr()) {
			continue
		}
		if nic, err := net.InterfaceByIndex(a.LinkIndex); err == nil && nic.Flags&net.FlagUp != 0 && nic.Flags&net.FlagMulticast != 0 {
			at = append(at, place{p.Addr(), nic.Index, nic.Name})
		}
	}
	slices.SortFunc(at, func(a, b place) int { return a.addr.Compare(b.addr) })
	return at, onLink, nil
}

// linkOf returns the network of an address. DHCPv6 gives only an address and
// leaves it to routers to announce the network, which is then a /64.
func linkOf(p netip.Prefix) netip.Prefix {
	if p.Addr().Is6() && p.IsSingleIP() {
		return netip.PrefixFrom(p.Addr(), 64).Masked()
	}
	return p.Masked()
}

// link is an open place. It sends from the place's own address: receivers
// believe a host only if the packet comes from the address that it speaks of.
type link struct {
	place
	conn   net.PacketConn
	v4conn *ipv4.PacketConn
	v6conn *ipv6.PacketConn
}

// open joins the group at a place.
func open(at place) (*link, error) {
	nic := &net.Interface{Index: at.index, Name: at.name}
	network, group := "udp4", group4
	if at.addr.Is6() {
		network, group = "udp6", group6
	}
	listen := net.ListenConfig{Control: share}
	conn, err := listen.ListenPacket(context.Background(), network, net.JoinHostPort(group.String(), strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	l := &link{place: at, conn: conn}
	to := &net.UDPAddr{IP: group.AsSlice()}
	if at.addr.Is6() {
		l.v6conn = ipv6.NewPacketConn(conn)
		err = errors.Join(l.v6conn.JoinGroup(nic, to), l.v6conn.SetMulticastHopLimit(fullHops), l.v6conn.SetControlMessage(ipv6.FlagInterface, true))
	} else {
		l.v4conn = ipv4.NewPacketConn(conn)
		err = errors.Join(l.v4conn.JoinGroup(nic, to), l.v4conn.SetMulticastTTL(fullHops), l.v4conn.SetControlMessage(ipv4.FlagInterface, true))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("join %s on %s: %w", group, at.name, err), conn.Close())
	}
	return l, nil
}

// share lets other programs of the host use the port too, and keeps packets
// away of groups that they have joined on other interfaces.
func share(network, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if network == "udp4" {
			failed = errors.Join(failed, unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0))
		} else {
			failed = errors.Join(failed, unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0))
		}
	})
	return errors.Join(err, failed)
}

// send sends to one address, or to all on the link if the address is invalid.
func (l *link) send(data []byte, to netip.AddrPort) error {
	if !to.IsValid() {
		group := group4
		if l.addr.Is6() {
			group = group6
		}
		to = netip.AddrPortFrom(group, port)
	}
	var err error
	if l.addr.Is6() {
		_, err = l.v6conn.WriteTo(data, &ipv6.ControlMessage{Src: l.addr.AsSlice(), IfIndex: l.index}, net.UDPAddrFromAddrPort(to))
	} else {
		_, err = l.v4conn.WriteTo(data, &ipv4.ControlMessage{Src: l.addr.AsSlice(), IfIndex: l.index}, net.UDPAddrFromAddrPort(to))
	}
	if err != nil {
		return fmt.Errorf("send from %s on %s: %w", l.addr, l.name, err)
	}
	return nil
}

// receive waits until a packet comes in on this link, or until the given time.
func (l *link) receive(buffer []byte, until time.Time) (data []byte, from netip.AddrPort, err error) {
	if err := l.conn.SetReadDeadline(until); err != nil {
		return nil, from, err
	}
	for {
		n, index, source, err := l.read(buffer)
		if err != nil {
			return nil, from, err
		}
		if at, ok := source.(*net.UDPAddr); ok && index == l.index {
			return buffer[:n], at.AddrPort(), nil
		}
	}
}

func (l *link) read(buffer []byte) (n, index int, from net.Addr, err error) {
	if l.addr.Is6() {
		n, cm, from, err := l.v6conn.ReadFrom(buffer)
		if cm != nil {
			index = cm.IfIndex
		}
		return n, index, from, err
	}
	n, cm, from, err := l.v4conn.ReadFrom(buffer)
	if cm != nil {
		index = cm.IfIndex
	}
	return n, index, from, err
}
