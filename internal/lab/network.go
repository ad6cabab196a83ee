package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// switchSettings make the lab's switch answer for an address only on the
// network it belongs to, and forward nothing between the two networks. A BMC
// can thus be reached over the fencing network alone.
var switchSettings = map[string]string{
	"ipv4/ip_forward":                        "0",
	"ipv4/conf/all/arp_ignore":               "1",
	"ipv4/conf/all/arp_announce":             "2",
	"ipv6/conf/all/accept_dad":               "0",
	"ipv6/conf/default/accept_dad":           "0",
	"ipv6/conf/all/disable_ipv6":             "0",
	"ipv6/conf/default/disable_ipv6":         "0",
	"bridge/bridge-nf-call-iptables":         "0",
	"bridge/bridge-nf-call-ip6tables":        "0",
	"bridge/bridge-nf-call-arptables":        "0",
	"ipv4/conf/default/accept_redirects":     "0",
	"ipv4/conf/default/send_redirects":       "0",
	"ipv6/conf/default/accept_ra":            "0",
	"ipv6/conf/default/autoconf":             "0",
	"ipv6/conf/default/router_solicitations": "0",
}

// routedSettings make the switch forward, between two machine networks alone.
var routedSettings = map[string]string{"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"}

// hostSettings are the settings of a machine that has just got its addresses
// from the site. A lab host shares the machine's kernel, so no boot sets them.
var hostSettings = map[string]string{
	"ipv4/ip_forward":                "1",
	"ipv6/conf/all/forwarding":       "1",
	"ipv6/conf/default/forwarding":   "1",
	"ipv6/conf/all/disable_ipv6":     "0",
	"ipv6/conf/default/disable_ipv6": "0",
	"ipv6/conf/default/accept_dad":   "0",
	"ipv6/conf/all/accept_dad":       "0",
	"ipv6/conf/default/accept_ra":    "0",
}

// bootSettings restore the kernel's defaults that a machine has after power-on.
// An earlier boot of the host may have left others.
var bootSettings = map[string]string{"ipv4/conf/all/arp_ignore": "0", "ipv4/conf/all/arp_announce": "0"}

// listeningSettings are set besides those where a router advertises itself.
// They turn forwarding off, as the kernel does by default, because a host that
// forwards ignores advertisements.
var listeningSettings = map[string]string{
	"ipv6/conf/all/forwarding": "0", "ipv6/conf/default/forwarding": "0",
	"ipv6/conf/default/accept_ra": "1", "ipv6/conf/" + machineNIC + "/accept_ra": "1",
}

// switchRules keep packets for a BMC out of the machine networks and the other
// way round, whatever routes a host may set. Forwarded packets pass only
// between two machine networks.
const switchRules = `table inet holdfast
delete table inet holdfast
table inet holdfast {
	chain input {
		type filter hook input priority filter; policy accept;
		iifname { "machine0", "machine1" } ip daddr 10.99.0.0/24 drop
		iifname { "machine0", "machine1" } ip6 daddr fd99::/64 drop
		iifname "fencing0" ip daddr { 10.77.0.0/24, 10.97.0.0/24, 10.98.0.0/24 } drop
		iifname "fencing0" ip6 daddr { fd77::/64, fd97::/64, fd98::/64 } drop
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
		iifname "machine0" oifname "machine1" accept
		iifname "machine1" oifname "machine0" accept
	}
}
`

// createNetwork makes the switch, every host's namespace and the wires between
// them. It leaves existing parts alone. All NICs of the hosts stay down,
// because the hosts are off.
func createNetwork(ctx context.Context, l Layout) error {
	sw := namespace(l.Switch())
	if err := sw.create(); err != nil {
		return err
	}
	if err := sw.sysctl(switchSettings); err != nil {
		return err
	}
	if l.Far.Bridge != "" {
		if err := sw.sysctl(routedSettings); err != nil {
			return err
		}
	}
	if err := createBridges(sw, l); err != nil {
		return fmt.Errorf("lab switch: %w", err)
	}
	if err := applyRules(ctx, sw, switchRules); err != nil {
		return err
	}
	for _, h := range l.Hosts {
		if err := wireHost(sw, h, l); err != nil {
			return fmt.Errorf("wire host %s: %w", h.Name, err)
		}
	}
	return nil
}

func createBridges(sw namespace, l Layout) error {
	nl, err := sw.handle()
	if err != nil {
		return err
	}
	defer nl.Close()
	for i, n := range l.networks() {
		snooping := false
		attrs := netlink.NewLinkAttrs()
		attrs.Name = n.Bridge
		attrs.HardwareAddr = net.HardwareAddr{0x52, 0x54, 0x90, byte(i), 0, 1}
		link, err := ensureLink(nl, &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping})
		if err != nil {
			return err
		}
		for j, gw := range n.Gateways {
			if err := addAddress(nl, link, netip.PrefixFrom(gw, n.Prefixes[j].Bits())); err != nil {
				return err
			}
		}
	}
	return unplug(nl, l.elsewhere())
}

// ensureLink adds a link unless one of its name exists, and sets it up.
func ensureLink(nl *netlink.Handle, want netlink.Link) (netlink.Link, error) {
	name := want.Attrs().Name
	if link, err := nl.LinkByName(name); err == nil {
		return link, nl.LinkSetUp(link)
	}
	if err := nl.LinkAdd(want); err != nil {
		return nil, fmt.Errorf("add link %s: %w", name, err)
	}
	link, err := nl.LinkByName(name)
	if err != nil {
		return nil, err
	}
	return link, nl.LinkSetUp(link)
}

func addAddress(nl *netlink.Handle, link netlink.Link, p netip.Prefix) error {
	addr := &netlink.Addr{IPNet: &net.IPNet{
		IP:   p.Addr().AsSlice(),
		Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
	}}
	if p.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD // usable at once
	}
	if err := nl.AddrReplace(link, addr); err != nil {
		return fmt.Errorf("add address %s to %s: %w", p, link.Attrs().Name, err)
	}
	return nil
}

// setBMCAddresses puts a BMC on the fencing network, or takes it off: without
// power it does not even answer ARP.
func setBMCAddresses(l Layout, h Host, present bool) error {
	nl, err := namespace(l.Switch()).handle()
	if err != nil {
		return err
	}
	defer nl.Close()
	link, err := nl.LinkByName(l.Fencing.Bridge)
	if err != nil {
		return err
	}
	for i, a := range h.BMC.Addresses {
		p := netip.PrefixFrom(a, l.Fencing.Prefixes[i].Bits())
		if present {
			err = errors.Join(err, addAddress(nl, link, p))
			continue
		}
		err = errors.Join(err, dropAddress(nl, link, p))
	}
	return err
}

func dropAddress(nl *netlink.Handle, link netlink.Link, p netip.Prefix) error {
	list, err := nl.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range list {
		if got, ok := netip.AddrFromSlice(a.IP); ok && got.Unmap() == p.Addr() {
			return nl.AddrDel(link, &a)
		}
	}
	return nil
}

func wireHost(sw namespace, h Host, l Layout) error {
	ns := namespace(h.Namespace)
	if err := ns.create(); err != nil {
		return err
	}
	if err := ns.sysctl(hostSettings); err != nil {
		return err
	}
	if l.Spec.RouterAdvertisements {
		if err := ns.sysctl(listeningSettings); err != nil { // before its NICs exist, which take the default
			return err
		}
	}
	err := errors.Join(
		plug(sw, ns, h.Machine, l.networkOf(h).Bridge),
		plug(sw, ns, h.Fencing, l.Fencing.Bridge),
	)
	if h.Second.Name != "" {
		err = errors.Join(err, plug(sw, ns, h.Second, l.networkOf(h).Bridge))
	}
	return err
}

// plug connects a host's NIC with its switch port by a veth pair. Both ends
// stay down. A port that a killed command has left outside of its bridge gets there,
// and one whose other end is in a namespace that has gone is made anew.
func plug(sw, hostNS namespace, nic NIC, bridge string) error {
	nl, err := sw.handle()
	if err != nil {
		return err
	}
	defer nl.Close()
	if port, err := nl.LinkByName(nic.Port); err == nil {
		whole, err := hostNS.hasLink(nic.Name)
		if err != nil {
			return err
		}
		_, delayed := nl.LinkByName(delayDevice(nic.Port))
		switch {
		case whole && delayed == nil:
			return nil // a fault has it
		case whole:
			return enslave(nl, nic.Port, bridge)
		}
		if err := nl.LinkDel(port); err != nil {
			return fmt.Errorf("remove port %s: %w", nic.Port, err)
		}
	}
	ns, err := netns.GetFromName(string(hostNS))
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	mac, err := net.ParseMAC(nic.MAC)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = nic.Port
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: nic.Name, PeerHardwareAddr: mac, PeerNamespace: netlink.NsFd(int(ns))}
	if err := nl.LinkAdd(pair); err != nil {
		return fmt.Errorf("add veth %s: %w", nic.Port, err)
	}
	return enslave(nl, nic.Port, bridge)
}

func enslave(nl *netlink.Handle, port, bridge string) error {
	p, err := nl.LinkByName(port)
	if err != nil {
		return err
	}
	b, err := nl.LinkByName(bridge)
	if err != nil {
		return err
	}
	if p.Attrs().MasterIndex == b.Attrs().Index {
		return nil
	}
	return nl.LinkSetMaster(p, b)
}

// applyRules loads an nftables script in a namespace, as one transaction.
func applyRules(ctx context.Context, ns namespace, script string) error {
	_, err := inNamespace(ctx, ns, strings.NewReader(script), "nft", "-f", "-")
	return err
}

// inNamespace runs a command in a network namespace.
func inNamespace(ctx context.Context, ns namespace, stdin *strings.Reader, name string, args ...string) ([]byte, error) {
	line := ns.command(name, args...)
	cmd := host.Command(line[0], line[1:]...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	return host.Run(ctx, cmd)
}
