// Package router is a router of a lab's network, as far as hosts notice it. It
// advertises itself and the network's prefix (RFC 4861), at intervals and to
// every host that asks.
package router

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

// Router describes the advertisement.
type Router struct {
	// NIC is the interface that the hosts are on.
	NIC string
	// Prefix is the hosts' network, from which they make addresses of their own.
	Prefix netip.Prefix
	// Lifetime is the time for which a host may rely on an advertisement, Every
	// the interval between two. Both are shorter than on a real router, so that
	// the loss of advertisements soon shows.
	Lifetime, Every time.Duration
}

// Conn is a socket on the hosts' network.
type Conn struct {
	link *net.Interface
	conn *ipv6.PacketConn
	raw  net.PacketConn
}

// The groups of a network's nodes and of its routers, and the hop limit by
// which both know that a packet comes from their own link.
var (
	allNodes   = net.ParseIP("ff02::1")
	allRouters = net.ParseIP("ff02::2")
)

const farthest = 255

// Open opens the socket, in the network namespace of the calling thread.
func (r Router) Open(ctx context.Context) (*Conn, error) {
	link, err := net.InterfaceByName(r.NIC)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", r.NIC, err)
	}
	raw, err := (&net.ListenConfig{}).ListenPacket(ctx, "ip6:ipv6-icmp", "::")
	if err != nil {
		return nil, err
	}
	c := &Conn{link: link, conn: ipv6.NewPacketConn(raw), raw: raw}
	var questions ipv6.ICMPFilter
	questions.SetAll(true)
	questions.Accept(ipv6.ICMPTypeRouterSolicitation)
	err = errors.Join(
		c.conn.SetICMPFilter(&questions), c.conn.SetControlMessage(ipv6.FlagInterface, true),
		c.conn.SetMulticastInterface(link), c.conn.SetMulticastHopLimit(farthest),
		c.conn.JoinGroup(link, &net.IPAddr{IP: allRouters}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("router on %s: %w", r.NIC, err), raw.Close())
	}
	return c, nil
}

// Run advertises until the context ends, then closes the socket.
func (r Router) Run(ctx context.Context, c *Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	defer stop()
	asked := make(chan struct{}, 1)
	go c.listen(asked)
	every := time.NewTicker(r.Every)
	defer every.Stop()
	for {
		if err := r.say(c); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-asked:
		case <-every.C:
		}
	}
}

// listen passes on that a host asked; it ends with the socket.
func (c *Conn) listen(asked chan<- struct{}) {
	buffer := make([]byte, 1500)
	for {
		_, at, _, err := c.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if at != nil && at.IfIndex != c.link.Index {
			continue // from another network
		}
		select {
		case asked <- struct{}{}:
		default:
		}
	}
}

// say advertises once, to all. If nobody is there yet or the link is down, it
// goes on.
func (r Router) say(c *Conn) error {
	data, err := r.message(c.link.HardwareAddr)
	if err != nil {
		return err
	}
	// The zone is a number, because a name would be looked up in the network
	// namespace of whichever thread this runs on.
	_, _ = c.conn.WriteTo(data, nil, &net.IPAddr{IP: allNodes, Zone: strconv.Itoa(c.link.Index)})
	return nil
}

// The numbers of RFC 4861, section 4.6.
const (
	optionSource, optionPrefix = 1, 3
	onLink, autonomous         = 0x80, 0x40
	hopLimit                   = 64
)

// message returns a router advertisement; the kernel fills in its checksum.
func (r Router) message(own net.HardwareAddr) ([]byte, error) {
	seconds := uint32(r.Lifetime / time.Second)
	b := []byte{hopLimit, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(seconds))
	b = append(b, make([]byte, 8)...) // hosts use their own defaults to query their neighbours
	b = append(b, optionSource, 1)
	b = append(b, own...)
	b = append(b, optionPrefix, 4, byte(r.Prefix.Bits()), onLink|autonomous)
	b = binary.BigEndian.AppendUint32(b, seconds)
	b = binary.BigEndian.AppendUint32(b, seconds)
	b = append(b, make([]byte, 4)...)
	b = append(b, r.Prefix.Masked().Addr().AsSlice()...)
	return (&icmp.Message{Type: ipv6.ICMPTypeRouterAdvertisement, Body: &icmp.RawBody{Data: b}}).Marshal(nil)
}
