package keepalived

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// arpIgnore is the setting by which a host answers ARP only for addresses of the
// interface that is asked. Doctor tells a host without it.
const arpIgnore = "/proc/sys/net/ipv4/conf/all/arp_ignore"

// Linger keeps a VIP on the loopback interface for a while from now on; the kernel
// then removes it. The host's own connections never begin at it. Where the host
// would answer ARP for it, Linger does nothing.
func Linger(vip netip.Addr, d time.Duration) error {
	if vip.Is4() {
		setting, err := os.ReadFile(arpIgnore)
		if err != nil || strings.TrimSpace(string(setting)) == "0" {
			return err
		}
	}
	return onLoopback(vip, func(lo netlink.Link, a *netlink.Addr) error {
		a.ValidLft, a.PreferedLft = int(d/time.Second), 0 // no connection begins at an address that is not preferred
		if a.Scope = int(netlink.SCOPE_HOST); vip.Is6() {
			a.Scope, a.Flags = int(netlink.SCOPE_UNIVERSE), unix.IFA_F_NODAD
		}
		return netlink.AddrReplace(lo, a)
	})
}

// EndLinger removes a VIP from the loopback interface, if it is there.
func EndLinger(vip netip.Addr) error {
	return onLoopback(vip, func(lo netlink.Link, a *netlink.Addr) error {
		if err := netlink.AddrDel(lo, a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return err
		}
		return nil
	})
}

func onLoopback(vip netip.Addr, do func(netlink.Link, *netlink.Addr) error) error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = do(lo, &netlink.Addr{IPNet: &net.IPNet{IP: vip.AsSlice(), Mask: net.CIDRMask(vip.BitLen(), vip.BitLen())}})
	}
	if err != nil {
		return fmt.Errorf("VIP %s on the loopback interface: %w", vip, err)
	}
	return nil
}
