package vrrp

import "encoding/binary"

// Farewell returns the advert by which a holder gives its VIP up: a VRRPv3 header
// with the priority 0 and the VIP (RFC 9568, section 5.2). Another host then takes
// over without waiting for three missing adverts. The checksum covers the addresses
// between which the advert goes; to is the index of a peer.
func (i Instance) Farewell(to int, centiseconds uint16) []byte { return i.advert(to, 0, centiseconds) }

// greeting is the priority of a Greeting.
const greeting = 1

// Greeting returns the advert by which a host announces itself to a peer. Its
// priority is below any that asks for a VIP: a holder answers with its own advert,
// other hosts discard it. A firewall on this host that lets in answers to its own
// packets then lets in the holder's adverts. Without them this host would take the
// VIP from its holder.
func (i Instance) Greeting(to int, centiseconds uint16) []byte {
	return i.advert(to, greeting, centiseconds)
}

func (i Instance) advert(to int, priority byte, centiseconds uint16) []byte {
	b := []byte{3<<4 | advertType, i.RouterID, priority, 1, byte(centiseconds >> 8 & 0x0f), byte(centiseconds), 0, 0} //nolint:gosec // the lower eight bits
	b = append(b, i.VIP.AsSlice()...)
	pseudo := append(i.Source.AsSlice(), i.Peers[to].AsSlice()...)
	if i.VIP.Is4() {
		pseudo = append(pseudo, 0, protocolVRRP, 0, byte(len(b))) //nolint:gosec // a header and a few addresses
	} else {
		pseudo = append(pseudo, 0, 0, 0, byte(len(b)), 0, 0, 0, protocolVRRP) //nolint:gosec // a header and a few addresses
	}
	binary.BigEndian.PutUint16(b[6:], checksum(pseudo, b))
	return b
}

// checksum computes the internet checksum over parts of even length.
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, part := range parts {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(part[i])<<8 | uint32(part[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
