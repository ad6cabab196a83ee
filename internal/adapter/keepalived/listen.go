package keepalived

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
)

// Listen asks on one interface who has the given addresses. Until the window
// ends it collects all frames about addresses and all adverts that others send
// there. It returns these and the interface's own hardware address. A host that
// has one of the addresses itself hears of others that have it too.
func Listen(ctx context.Context, nic string, ask []netip.Addr, window time.Duration) (own string, heard []vrrp.Frame, err error) {
	link, err := net.InterfaceByName(nic)
	if err != nil {
		return "", nil, fmt.Errorf("interface %s: %w", nic, err)
	}
	fd, err := openPacket(link.Index)
	if err != nil {
		return "", nil, fmt.Errorf("listen on %s: %w", nic, err)
	}
	defer func() { _ = unix.Close(fd) }()
	began := time.Now()
	for _, half := range []time.Time{began.Add(window / 2), began.Add(window)} { // a question may get lost
		for _, a := range ask {
			if err := send(fd, link, question(link.HardwareAddr, a)); err != nil {
				return "", nil, fmt.Errorf("ask on %s who has %s: %w", nic, a, err)
			}
		}
		if heard, err = receiveUntil(ctx, fd, half, heard); err != nil {
			return "", nil, fmt.Errorf("listen on %s: %w", nic, err)
		}
	}
	return link.HardwareAddr.String(), heard, nil
}

// receiveUntil adds the frames that arrive until a time.
func receiveUntil(ctx context.Context, fd int, end time.Time, heard []vrrp.Frame) ([]vrrp.Frame, error) {
	for ctx.Err() == nil && time.Now().Before(end) {
		f, ok, err := receive(fd, time.Until(end))
		if err != nil {
			return nil, err
		}
		if ok && len(heard) < maxHeard {
			heard = append(heard, f)
		}
	}
	return heard, nil
}

// maxHeard bounds how many frames of one window are kept, if somebody floods
// the network.
const maxHeard = 4096

// groups are the multicast addresses to which adverts of other clusters may go,
// as hardware addresses: 224.0.0.18 and ff02::12.
var groups = [][6]byte{{0x01, 0x00, 0x5e, 0, 0, 0x12}, {0x33, 0x33, 0, 0, 0, 0x12}}

// openPacket opens a socket that receives what others send on an interface.
func openPacket(index int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	if err := setUp(fd, index); err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func setUp(fd, index int) error {
	filter, err := interesting()
	if err != nil {
		return err
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, filter); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap(unix.ETH_P_ALL), Ifindex: index}); err != nil {
		return err
	}
	for _, g := range groups {
		m := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_MULTICAST, Alen: 6} //nolint:gosec // the kernel's numbers are small
		copy(m.Address[:], g[:])
		if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m); err != nil {
			return err
		}
	}
	return nil
}

// swap converts a number to the network's byte order.
func swap(n uint16) uint16 { return n<<8 | n>>8 }

// interesting returns a filter that passes ARP, VRRP and neighbour
// advertisements.
func interesting() (*unix.SockFprog, error) {
	const ether, protocol4, next6, icmp6 = 12, 14 + 9, 14 + 6, 14 + 40
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: ether, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_ARP, SkipTrue: 8},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IPV6, SkipTrue: 2},
		bpf.LoadAbsolute{Off: protocol4, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: vrrpProtocol, SkipTrue: 5, SkipFalse: 4},
		bpf.LoadAbsolute{Off: next6, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: vrrpProtocol, SkipTrue: 3},
		bpf.LoadAbsolute{Off: icmp6, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 136, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 256},
	})
	if err != nil {
		return nil, err
	}
	filters := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filters[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return &unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}, nil //nolint:gosec // eleven
}

func send(fd int, link *net.Interface, frame []byte) error {
	to := unix.SockaddrLinklayer{Ifindex: link.Index, Halen: 6}
	copy(to.Addr[:], frame[:6])
	return unix.Sendto(fd, frame, 0, &to)
}

// receive waits for one frame.
func receive(fd int, atMost time.Duration) (f vrrp.Frame, ok bool, err error) {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor is small
	n, err := unix.Poll(poll, min(int(atMost.Milliseconds())+1, 200))
	if errors.Is(err, unix.EINTR) || (err == nil && n == 0) {
		return vrrp.Frame{}, false, nil
	}
	if err != nil {
		return vrrp.Frame{}, false, err
	}
	buffer := make([]byte, 256)
	n, _, err = unix.Recvfrom(fd, buffer, 0)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return vrrp.Frame{}, false, nil
	}
	if err != nil {
		return vrrp.Frame{}, false, err
	}
	f, ok = vrrp.ParseFrame(buffer[:n])
	return f, ok, nil
}

// question asks who has an address without claiming one for the asker: an ARP
// probe (RFC 5227), or the solicitation that precedes the use of an address
// (RFC 4862).
func question(own net.HardwareAddr, a netip.Addr) []byte {
	if a.Is4() {
		return arpProbe(own, a)
	}
	return solicitation(own, a)
}

func arpProbe(own net.HardwareAddr, a netip.Addr) []byte {
	b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, own...)
	b = append(b, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1)
	b = append(b, own...)
	b = append(b, make([]byte, 4+6)...) // no sender's address, no target's hardware address
	return append(b, a.AsSlice()...)
}

func solicitation(own net.HardwareAddr, a netip.Addr) []byte {
	target := a.As16()
	group := [16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: target[13], 14: target[14], 15: target[15]}
	message := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, target[:]...)
	binary.BigEndian.PutUint16(message[2:], checksum6(make([]byte, 16), group[:], message))
	b := append([]byte{0x33, 0x33, group[12], group[13], group[14], group[15]}, own...)
	b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(message)), 58, 255) //nolint:gosec // 32 octets
	b = append(b, make([]byte, 16)...)
	b = append(b, group[:]...)
	return append(b, message...)
}

// checksum6 returns the checksum of an ICMPv6 message: RFC 8200, section 8.1.
func checksum6(from, to, message []byte) uint16 {
	pseudo := append(append([]byte{}, from...), to...)
	pseudo = append(pseudo, 0, 0, 0, byte(len(message)), 0, 0, 0, 58) //nolint:gosec // 32 octets
	var sum uint32
	for _, part := range [][]byte{pseudo, message} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(part[i])<<8 | uint32(part[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
