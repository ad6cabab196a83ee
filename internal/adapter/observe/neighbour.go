package observe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// neighbourPatience is the time that a neighbour gets to answer for an address.
// One on the same network needs milliseconds; the kernel asks again after a
// second, in case a packet was lost.
const neighbourPatience = 1500 * time.Millisecond

// neighbourEvery is the pause between two looks at the answers.
const neighbourEvery = 20 * time.Millisecond

// discardPort is the port to which a datagram for an address is sent; RFC 863.
const discardPort = 9

// Holders returns, for each address, the hardware address that answers for it
// on the network of an interface, by ARP or neighbour discovery. It leaves out
// an address for which nobody answers in time, which is this host's own, or to
// which it has no route.
func Holders(ctx context.Context, iface string, addresses []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
	link, err := netlink.LinkByName(iface)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", iface, err)
	}
	for _, a := range addresses {
		// The kernel's entry may be outdated.
		_ = netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: a.AsSlice(), Family: family(a)})
		if err := ask(ctx, a); err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) {
			return nil, fmt.Errorf("ask for %s on %s: %w", a, iface, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, neighbourPatience)
	defer cancel()
	again := time.NewTicker(neighbourEvery)
	defer again.Stop()
	for {
		found, err := answers(link.Attrs().Index, addresses)
		if err != nil || len(found) == len(addresses) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, nil
		case <-again.C:
		}
	}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// ask sends a datagram, so that the kernel has to find the neighbour.
func ask(ctx context.Context, a netip.Addr) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", netip.AddrPortFrom(a, discardPort).String())
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte{0})
	_ = conn.Close()
	return err
}

// answered are the states of a neighbour that has answered.
const answered = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE

func answers(link int, addresses []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
	list, err := netlink.NeighList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	found := map[netip.Addr]net.HardwareAddr{}
	for _, n := range list {
		ip, _ := netip.AddrFromSlice(n.IP)
		for _, a := range addresses {
			if ip.Unmap() == a && n.State&answered != 0 && len(n.HardwareAddr) > 0 {
				found[a] = n.HardwareAddr
			}
		}
	}
	return found, nil
}
