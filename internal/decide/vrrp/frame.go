package vrrp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Frame holds what an Ethernet frame states about virtual IPs.
type Frame struct {
	// MAC is the sender's hardware address, as people write it.
	MAC string
	// Advert is set on a VRRP advert, Source and RouterID with it.
	Advert   bool
	Source   netip.Addr
	RouterID uint8
	Priority uint8
	// Announces are the addresses that an advert is about.
	Announces []netip.Addr
	// Claims is the address that the sender claims as its own, by ARP or neighbour
	// discovery; invalid where it claims none.
	Claims netip.Addr
}

// Numbers of the protocols that ParseFrame reads: IEEE 802.3, RFC 826, RFC 9568,
// RFC 4861.
const (
	etherIPv4, etherIPv6, etherARP = 0x0800, 0x86dd, 0x0806
	protocolVRRP, protocolICMP6    = 112, 58
	neighbourAdvertisement         = 136
	advertType                     = 1
)

// ParseFrame reads an Ethernet frame; ok is false where the frame states nothing
// about an address or is truncated. It trusts nothing that it reads.
func ParseFrame(b []byte) (f Frame, ok bool) {
	if len(b) < 14 {
		return Frame{}, false
	}
	f.MAC = hardware(b[6:12])
	rest := b[14:]
	switch binary.BigEndian.Uint16(b[12:14]) {
	case etherARP:
		return parseARP(f, rest)
	case etherIPv4:
		return parseIPv4(f, rest)
	case etherIPv6:
		return parseIPv6(f, rest)
	}
	return Frame{}, false
}

func hardware(b []byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
}

// parseARP reads the sender's claim to an IPv4 address, from a question as well as
// from an answer.
func parseARP(f Frame, b []byte) (Frame, bool) {
	if len(b) < 28 || binary.BigEndian.Uint16(b[2:4]) != etherIPv4 || b[4] != 6 || b[5] != 4 {
		return Frame{}, false
	}
	f.MAC = hardware(b[8:14])
	f.Claims = netip.AddrFrom4([4]byte(b[14:18]))
	return f, !f.Claims.IsUnspecified()
}

func parseIPv4(f Frame, b []byte) (Frame, bool) {
	if len(b) < 20 || b[0]>>4 != 4 || b[9] != protocolVRRP {
		return Frame{}, false
	}
	header := int(b[0]&0x0f) * 4
	if header < 20 || len(b) < header {
		return Frame{}, false
	}
	f.Source = netip.AddrFrom4([4]byte(b[12:16]))
	return parseAdvert(f, b[header:])
}

func parseIPv6(f Frame, b []byte) (Frame, bool) {
	if len(b) < 40 || b[0]>>4 != 6 {
		return Frame{}, false
	}
	f.Source = netip.AddrFrom16([16]byte(b[8:24]))
	switch b[6] {
	case protocolVRRP:
		return parseAdvert(f, b[40:])
	case protocolICMP6:
		return parseNeighbour(f, b[40:])
	}
	return Frame{}, false
}

// parseAdvert reads a VRRP header of version 2 or 3.
func parseAdvert(f Frame, b []byte) (Frame, bool) {
	if len(b) < 8 || b[0]&0x0f != advertType || (b[0]>>4 != 2 && b[0]>>4 != 3) {
		return Frame{}, false
	}
	f.Advert, f.RouterID, f.Priority = true, b[1], b[2]
	size := f.Source.BitLen() / 8
	for list := b[8:]; len(f.Announces) < int(b[3]) && len(list) >= size; list = list[size:] {
		a, _ := netip.AddrFromSlice(list[:size])
		f.Announces = append(f.Announces, a)
	}
	return f, true
}

// parseNeighbour reads a neighbour advertisement and, if it is there, the
// hardware address in its option.
func parseNeighbour(f Frame, b []byte) (Frame, bool) {
	if len(b) < 24 || b[0] != neighbourAdvertisement {
		return Frame{}, false
	}
	f.Claims = netip.AddrFrom16([16]byte(b[8:24]))
	if o := b[24:]; len(o) >= 8 && o[0] == 2 && o[1] == 1 {
		f.MAC = hardware(o[2:8])
	}
	return f, true
}
