package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// nicsUp gives a host its links, addresses and default routes, as a site's
// switch and DHCP server would. Ports in cut stay down.
func nicsUp(l Layout, h Host, cut map[string]bool) error {
	ns := namespace(h.Namespace)
	if err := ns.sysctl(bootSettings); err != nil {
		return err
	}
	if l.Spec.RouterAdvertisements {
		if err := ns.sysctl(listeningSettings); err != nil {
			return err
		}
	}
	nl, err := ns.handle()
	if err != nil {
		return err
	}
	defer nl.Close()
	for _, nic := range h.nics() {
		if err := setPort(l, nic, !cut[nic.Port]); err != nil {
			return err
		}
		if err := nicUp(nl, nic); err != nil {
			return err
		}
	}
	return addDefaultRoutes(nl, l, h)
}

func nicUp(nl *netlink.Handle, nic NIC) error {
	link, err := nl.LinkByName(nic.Name)
	if err != nil {
		return err
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", nic.Name, err)
	}
	for _, a := range nic.Addresses {
		if err := addAddress(nl, link, a); err != nil {
			return err
		}
	}
	return nil
}

// addDefaultRoutes adds the default routes, without that of IPv6 if a router
// advertises itself.
func addDefaultRoutes(nl *netlink.Handle, l Layout, h Host) error {
	link, err := nl.LinkByName(machineNIC)
	if err != nil {
		return err
	}
	for _, gw := range l.networkOf(h).Gateways {
		if gw.Is6() && l.Spec.RouterAdvertisements {
			continue
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gw.AsSlice()}
		if err := nl.RouteReplace(route); err != nil {
			return fmt.Errorf("default route via %s: %w", gw, err)
		}
	}
	return nil
}

// setPort sets the switch's end of a NIC up or down. To the host, down looks
// like a pulled cable.
func setPort(l Layout, nic NIC, up bool) error {
	nl, err := namespace(l.Switch()).handle()
	if err != nil {
		return err
	}
	defer nl.Close()
	link, err := nl.LinkByName(nic.Port)
	if err != nil {
		return err
	}
	if up {
		return nl.LinkSetUp(link)
	}
	return nl.LinkSetDown(link)
}

// portsDown silences a host at once, even before its processes are dead.
func portsDown(l Layout, h Host) error {
	var err error
	for _, nic := range h.nics() {
		err = errors.Join(err, setPort(l, nic, false))
	}
	return err
}

// resetNetwork empties a dead host's namespace, because a machine without power
// has no network. The namespace itself outlives the host, and anything left in
// it would go on answering.
func resetNetwork(ctx context.Context, h Host) error {
	ns := namespace(h.Namespace)
	nl, err := ns.handle()
	if err != nil {
		return err
	}
	defer nl.Close()
	links, err := nl.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		err = errors.Join(err, resetLink(nl, link))
	}
	if err != nil {
		return fmt.Errorf("reset network of %s: %w", h.Name, err)
	}
	err = errors.Join(applyRules(ctx, ns, "flush ruleset\n"), flushNeighbours(nl))
	_, ctErr := inNamespace(ctx, ns, nil, "conntrack", "-F")
	return errors.Join(err, ctErr)
}

func resetLink(nl *netlink.Handle, link netlink.Link) error {
	switch link.Attrs().Name {
	case "lo":
		return flushAddresses(nl, link, netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback())
	case machineNIC, fencingNIC, secondNIC:
		if err := nl.LinkSetDown(link); err != nil {
			return err
		}
		return flushAddresses(nl, link)
	}
	// Fallback tunnel devices cannot be deleted. A peer that went with the
	// other end of its pair is gone already.
	_ = nl.LinkDel(link)
	return nil
}

func flushAddresses(nl *netlink.Handle, link netlink.Link, keep ...netip.Addr) error {
	list, err := nl.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range list {
		ip, _ := netip.AddrFromSlice(a.IP)
		if slices.Contains(keep, ip.Unmap()) {
			continue
		}
		// A secondary address disappears with its primary one, and those of
		// IPv6 with the link.
		if delErr := nl.AddrDel(link, &a); !errors.Is(delErr, unix.EADDRNOTAVAIL) {
			err = errors.Join(err, delErr)
		}
	}
	return err
}

func flushNeighbours(nl *netlink.Handle) error {
	list, err := nl.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, n := range list {
		_ = nl.NeighDel(&n) // a vanished entry is fine
	}
	return nil
}

// portUp reports whether a host's cable is connected and both ends are up.
func portUp(l Layout, nic NIC) bool {
	nl, err := namespace(l.Switch()).handle()
	if err != nil {
		return false
	}
	defer nl.Close()
	link, err := nl.LinkByName(nic.Port)
	return err == nil && link.Attrs().OperState == netlink.OperUp
}
