package mdns

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// addresses returns the host's addresses by the number of their interface, with
// one request to the kernel. Package net makes one for each interface, and a
// host has an interface for every pod.
func addresses() (map[int][]netip.Prefix, error) {
	data, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return nil, err
	}
	out := map[int][]netip.Prefix{}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		// struct ifaddrmsg: family, prefix length, flags and scope, an octet each,
		// then the number of the link.
		bits, index := int(m.Data[1]), int(binary.NativeEndian.Uint32(m.Data[4:]))
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, err
		}
		if a, ok := local4or6(attributes); ok {
			out[index] = append(out[index], netip.PrefixFrom(a, bits))
		}
	}
	return out, nil
}

// local4or6 returns the host's own address. On a point-to-point link the other
// attribute is the address of the other end.
func local4or6(attributes []syscall.NetlinkRouteAttr) (found netip.Addr, ok bool) {
	for _, a := range attributes {
		if a.Attr.Type != syscall.IFA_LOCAL && (a.Attr.Type != syscall.IFA_ADDRESS || ok) {
			continue
		}
		if found, ok = netip.AddrFromSlice(a.Value); ok && a.Attr.Type == syscall.IFA_LOCAL {
			break
		}
	}
	return found, ok
}
