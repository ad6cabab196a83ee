package vrrp

import "encoding/binary"

// Farewell is the advert by which a holder gives its VIP up: a VRRPv3 header
// with the priority 0 and the VIP (RFC 9568, section 5.2), upon which another
// host takes over without waiting for three adverts to be missed. The checksum
// covers the addresses between which it goes; to is one of the peers.
func (i Instance) Farewell(to int, centiseconds uint16) []byte { return i.advert(to, 0, centiseconds) }

// greeting is the priority of a Greeting.
const greeting = 1

// Greeting is the advert by which a host says to a peer that it is there, with a
// priority below any that asks for a VIP: a holder answers with its own, others
// discard it. A firewall on this host that lets in what belongs to packets of
// its own lets the holder's adverts in from then on; without it the host would
// hear nobody, and take the VIP from its holder.
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

// checksum is that of the internet protocols, over parts of even length.
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
