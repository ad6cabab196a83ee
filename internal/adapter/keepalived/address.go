package keepalived

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// HeldVIPs returns those of the given addresses that this host has on an interface
// to others.
func HeldVIPs(vips []netip.Addr) ([]netip.Addr, error) {
	var out []netip.Addr
	err := each(vips, func(ip netip.Addr, _ netlink.Addr) error {
		if !slices.Contains(out, ip) {
			out = append(out, ip)
		}
		return nil
	})
	return out, err
}

// RemoveVIPs removes addresses from every interface to others and returns those
// that it had.
func RemoveVIPs(vips []netip.Addr) ([]netip.Addr, error) {
	var out []netip.Addr
	var errs []error
	err := each(vips, func(ip netip.Addr, a netlink.Addr) error {
		link := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: a.LinkIndex}}
		bare := &netlink.Addr{IPNet: a.IPNet} // label and scope need not match
		err := netlink.AddrDel(link, bare)
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			errs = append(errs, fmt.Errorf("remove VIP %s: %w", ip, err))
			return nil
		}
		out = append(out, ip)
		return nil
	})
	return out, errors.Join(append(errs, err)...)
}

// each calls do with each of the host's addresses that is a VIP, but for those that
// linger on the loopback interface.
func each(vips []netip.Addr, do func(netip.Addr, netlink.Addr) error) error {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	for _, a := range list {
		if a.LinkIndex == lo.Attrs().Index {
			continue
		}
		ip, ok := netip.AddrFromSlice(a.IP)
		if ip = ip.Unmap(); ok && slices.Contains(vips, ip) {
			if err := do(ip, a); err != nil {
				return err
			}
		}
	}
	return nil
}
