package keepalived

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
)

// SendResignation tells the peers of an instance that its holder gives up the VIP, in
// place of a daemon that cannot do so any more.
func SendResignation(ctx context.Context, i vrrp.Instance, centiseconds uint16) error {
	return say(ctx, i, "farewell", func(to int) []byte { return i.Farewell(to, centiseconds) })
}

// SendAdvert tells the peers of an instance that this host is there.
func SendAdvert(ctx context.Context, i vrrp.Instance, centiseconds uint16) error {
	return say(ctx, i, "greeting", func(to int) []byte { return i.Greeting(to, centiseconds) })
}

// say sends an advert to each peer.
func say(ctx context.Context, i vrrp.Instance, what string, advert func(to int) []byte) error {
	network := "ip6:112"
	if i.Source.Is4() {
		network = "ip4:112"
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, network, i.Source.String())
	if err != nil {
		return fmt.Errorf("%s of %s: %w", what, i.VIP, err)
	}
	defer func() { _ = conn.Close() }()
	if err := farReaching(conn, i.Source.Is4()); err != nil {
		return fmt.Errorf("%s of %s: %w", what, i.VIP, err)
	}
	var errs []error
	for n, peer := range i.Peers {
		if _, err := conn.WriteTo(advert(n), &net.IPAddr{IP: peer.AsSlice()}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// farReaching sets the hop limit that the peers require.
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
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 255) })
	return errors.Join(err, failed)
}
