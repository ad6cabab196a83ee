package netwatch

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Snapshot is the kernel's state.
type Snapshot struct {
	Addresses []state.HostAddress
	Routes    []state.HostRoute
	// Hardware holds, by interface with an address, the hardware addresses from
	// which its packets may come.
	Hardware map[string][]string
}

// Read returns the addresses and routes of a namespace, nil for this process's
// own, in an order that depends only on their values.
func Read(namespace *netns.NsHandle) (Snapshot, error) {
	h, err := open(namespace)
	if err != nil {
		return Snapshot{}, fmt.Errorf("ask the kernel: %w", err)
	}
	defer h.Close()
	links, err := whole(h.LinkList)
	if err != nil {
		return Snapshot{}, fmt.Errorf("list interfaces: %w", err)
	}
	names := linkNames(links)
	var s Snapshot
	if s.Addresses, err = addresses(h, names); err != nil {
		return Snapshot{}, err
	}
	s.Hardware = hardware(links, s.Addresses)
	s.Routes, err = routes(h, names)
	return s, err
}

func open(namespace *netns.NsHandle) (*netlink.Handle, error) {
	if namespace == nil {
		return netlink.NewHandle(unix.NETLINK_ROUTE)
	}
	return netlink.NewHandleAt(*namespace, unix.NETLINK_ROUTE)
}

// dumps bounds how often a list is read again because it changed during the
// read.
const dumps = 5

// whole reads a list until it did not change during the read. If the list never
// rests, it returns the last result: the next change brings another.
func whole[T any](list func() ([]T, error)) (out []T, err error) {
	for range dumps {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return out, nil
}

func linkNames(links []netlink.Link) map[int]string {
	names := make(map[int]string, len(links))
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	return names
}

func addresses(h *netlink.Handle, names map[int]string) ([]state.HostAddress, error) {
	list, err := whole(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var out []state.HostAddress
	for _, a := range list {
		if found, ok := address(a, names[a.LinkIndex]); ok {
			out = append(out, found)
		}
	}
	slices.SortFunc(out, func(a, b state.HostAddress) int {
		if a.Index != b.Index {
			return a.Index - b.Index
		}
		return a.Prefix.Compare(b.Prefix)
	})
	return out, nil
}

// unusable are the flags of an address that the kernel is still checking, has
// found in use elsewhere, or is phasing out.
const unusable = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED

// loopback is the interface on which VIPs linger that this host does not hold.
const loopback = "lo"

// address converts an address of a link, if it is valid beyond that link. A
// temporary address, which the host replaces for privacy, counts as one that is
// being phased out, since it will be.
func address(a netlink.Addr, name string) (state.HostAddress, bool) {
	if a.Scope != int(netlink.SCOPE_UNIVERSE) || a.IPNet == nil || name == loopback {
		return state.HostAddress{}, false
	}
	prefix, ok := prefixOf(a.IPNet)
	out := state.HostAddress{Interface: name, Index: a.LinkIndex, Prefix: prefix, Usable: usable(a.Flags, prefix.Addr().Is6())}
	if a.Label != name {
		out.Label = a.Label
	}
	return out, ok && name != ""
}

// usable evaluates the flags of an address. An optimistic address may be used
// while the kernel checks it. In IPv4 the flag of a temporary address means
// something else.
func usable(flags int, is6 bool) bool {
	if flags&unix.IFA_F_OPTIMISTIC != 0 {
		flags &^= unix.IFA_F_TENTATIVE
	}
	if is6 && flags&unix.IFA_F_TEMPORARY != 0 {
		return false
	}
	return flags&unusable == 0
}

// prefixOf keeps the family that the kernel has: the mask distinguishes a
// mapped address of IPv6 from one of IPv4.
func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	ones, bits := n.Mask.Size()
	addr, ok := netip.AddrFromSlice(n.IP)
	if ok && bits == 32 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, ones), ok && addr.BitLen() == bits
}

func routes(h *netlink.Handle, names map[int]string) ([]state.HostRoute, error) {
	var out []state.HostRoute
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := whole(func() ([]netlink.Route, error) {
			return h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN, Type: unix.RTN_UNICAST}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range list {
			out = append(out, hops(r, family, names)...)
		}
	}
	slices.SortFunc(out, compareRoutes)
	return out, nil
}

func compareRoutes(a, b state.HostRoute) int {
	if c := a.Destination.Compare(b.Destination); c != 0 {
		return c
	}
	if a.Metric != b.Metric {
		return a.Metric - b.Metric
	}
	if a.Index != b.Index {
		return a.Index - b.Index
	}
	return a.Gateway.Compare(b.Gateway)
}

// hops returns the next hops of a route, which may have several.
func hops(r netlink.Route, family int, names map[int]string) []state.HostRoute {
	base := state.HostRoute{Destination: destination(r.Dst, family), Metric: r.Priority, Advertised: r.Protocol == unix.RTPROT_RA}
	if base.Destination.Addr().IsLinkLocalUnicast() || base.Destination.Addr().IsMulticast() {
		return nil // each link has these
	}
	ways := []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
	if len(r.MultiPath) > 0 {
		ways = r.MultiPath
	}
	var out []state.HostRoute
	for _, way := range ways {
		hop := base
		hop.Index, hop.Interface, hop.Gateway = way.LinkIndex, names[way.LinkIndex], gateway(way)
		if hop.Interface != "" {
			out = append(out, hop)
		}
	}
	return out
}

// gateway returns the next hop of a way, which may be of the other family.
func gateway(way *netlink.NexthopInfo) netip.Addr {
	ip := way.Gw
	if via, ok := way.Via.(*netlink.Via); ok && ip == nil {
		ip = via.Addr
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// destination returns the destination of a route; it is the whole family if the
// kernel names none.
func destination(n *net.IPNet, family int) netip.Prefix {
	if n != nil {
		if prefix, ok := prefixOf(n); ok {
			return prefix
		}
	}
	if family == netlink.FAMILY_V6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}
