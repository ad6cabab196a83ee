package keepalived

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
)

// Farewell tells the peers of an instance that its holder gives the VIP up, in
// the place of a daemon that cannot any more.
func Farewell(ctx context.Context, i vrrp.Instance, centiseconds uint16) error {
	network := "ip6:112"
	if i.Source.Is4() {
		network = "ip4:112"
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, network, i.Source.String())
	if err != nil {
		return fmt.Errorf("farewell of %s: %w", i.VIP, err)
	}
	defer func() { _ = conn.Close() }()
	if err := farReaching(conn, i.Source.Is4()); err != nil {
		return fmt.Errorf("farewell of %s: %w", i.VIP, err)
	}
	var errs []error
	for n, peer := range i.Peers {
		if _, err := conn.WriteTo(i.Farewell(n, centiseconds), &net.IPAddr{IP: peer.AsSlice()}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// farReaching sets the number of hops that peers insist on.
func farReaching(conn net.PacketConn, v4 bool) error {
	ip, ok := conn.(*net.IPConn)
	if !ok {
		return errors.New("no IP socket")
	}
	raw, err := ip.SyscallConn()
	if err != nil {
		return err
	}
	level, option := unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	if v4 {
		level, option = unix.IPPROTO_IP, unix.IP_TTL
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 255) }) //nolint:gosec // a descriptor is small
	return errors.Join(err, failed)
}
