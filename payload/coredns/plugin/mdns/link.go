package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// The groups of multicast DNS.
var (
	group4 = netip.MustParseAddr("224.0.0.251")
	group6 = netip.MustParseAddr("ff02::fb")
)

// place is a place to listen for neighbours: one family on one interface. When
// the interface or its networks change, it is another place.
type place struct {
	index    int
	v6       bool
	networks string // the prefixes on the link, in words
}

// places returns the places of the addresses, with the networks of each. An
// open place needs no further check, because its interface has the address.
func places(bind []netip.Addr, open map[place]*link) (map[place][]netip.Prefix, error) {
	have, err := addresses()
	if err != nil {
		return nil, err
	}
	out := map[place][]netip.Prefix{}
	for index, prefixes := range have {
		for _, own := range bind {
			networks := around(own, prefixes)
			at := place{index, own.Is6(), fmt.Sprint(networks)}
			if len(networks) > 0 && (open[at] != nil || hears(index)) {
				out[at] = networks
			}
		}
	}
	return out, nil
}

// hears reports whether an interface is up and has multicast.
func hears(index int) bool {
	nic, err := net.InterfaceByIndex(index)
	return err == nil && nic.Flags&net.FlagUp != 0 && nic.Flags&net.FlagMulticast != 0
}

// around returns the networks of own's family if own is among the addresses.
func around(own netip.Addr, have []netip.Prefix) []netip.Prefix {
	found := false
	var out []netip.Prefix
	for _, p := range have {
		found = found || p.Addr() == own
		if p.Addr().Is6() == own.Is6() {
			out = append(out, linkOf(p))
		}
	}
	if !found {
		return nil
	}
	return out
}

// linkOf returns the network of an address. DHCPv6 gives a single address and
// leaves it to routers to announce the network, which is then a /64.
func linkOf(p netip.Prefix) netip.Prefix {
	if p.Addr().Is6() && p.IsSingleIP() {
		return netip.PrefixFrom(p.Addr(), 64).Masked()
	}
	return p.Masked()
}

// link is an open place.
type link struct {
	place
	name     string
	networks []netip.Prefix
	conn     net.PacketConn
	v4conn   *ipv4.PacketConn
	v6conn   *ipv6.PacketConn
}

// open joins the group at a place.
func open(at place, networks []netip.Prefix) (*link, error) {
	nic, err := net.InterfaceByIndex(at.index)
	if err != nil {
		return nil, err
	}
	network, group := "udp4", group4
	if at.v6 {
		network, group = "udp6", group6
	}
	listen := net.ListenConfig{Control: share}
	conn, err := listen.ListenPacket(context.Background(), network, net.JoinHostPort(group.String(), strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	l := &link{place: at, name: nic.Name, networks: networks, conn: conn}
	to := &net.UDPAddr{IP: group.AsSlice()}
	if at.v6 {
		l.v6conn = ipv6.NewPacketConn(conn)
		err = errors.Join(l.v6conn.JoinGroup(nic, to), l.v6conn.SetMulticastInterface(nic), l.v6conn.SetMulticastHopLimit(fullHops),
			l.v6conn.SetControlMessage(ipv6.FlagHopLimit|ipv6.FlagInterface, true))
	} else {
		l.v4conn = ipv4.NewPacketConn(conn)
		err = errors.Join(l.v4conn.JoinGroup(nic, to), l.v4conn.SetMulticastInterface(nic), l.v4conn.SetMulticastTTL(fullHops),
			l.v4conn.SetControlMessage(ipv4.FlagTTL|ipv4.FlagInterface, true))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("join %s on %s: %w", group, nic.Name, err), conn.Close())
	}
	return l, nil
}

// share lets other programs on the host use the port too, and keeps away
// packets for groups that they have joined on other interfaces.
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

// send sends to all on the link.
func (l *link) send(data []byte) error {
	group := group4
	if l.v6 {
		group = group6.WithZone(l.name)
	}
	_, err := l.conn.WriteTo(data, net.UDPAddrFromAddrPort(netip.AddrPortFrom(group, port)))
	return err
}

// receive waits for a packet that arrives on this link.
func (l *link) receive(buffer []byte) (packet, error) {
	for {
		n, index, hops, from, err := l.read(buffer)
		if err != nil {
			return packet{}, err
		}
		if at, ok := from.(*net.UDPAddr); ok && index == l.index {
			return packet{append([]byte(nil), buffer[:n]...), at.AddrPort(), hops}, nil
		}
	}
}

func (l *link) read(buffer []byte) (n, index, hops int, from net.Addr, err error) {
	if l.v6 {
		n, cm, from, err := l.v6conn.ReadFrom(buffer)
		if err != nil || cm == nil {
			return n, 0, 0, from, err
		}
		return n, cm.IfIndex, cm.HopLimit, from, nil
	}
	n, cm, from, err := l.v4conn.ReadFrom(buffer)
	if err != nil || cm == nil {
		return n, 0, 0, from, err
	}
	return n, cm.IfIndex, cm.TTL, from, nil
}
