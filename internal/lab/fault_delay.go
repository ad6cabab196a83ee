package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// relay carries the frames between a host's switch port and the bridge, and
// delays each one. The kernel here has no netem: while a delay is in force, the
// port leaves the bridge, a TAP device takes its place and this process passes
// frames on. Both sides carry the header of a virtual NIC with each frame, so
// that unfinished checksums and large segments pass through unchanged.
type relay struct {
	layout Layout
	nic    NIC
	bridge string
	delay  time.Duration
	port   *os.File // packet socket on the switch port
	tap    *os.File
	ctx    context.Context // of the frames in transit
	end    context.CancelFunc
}

// delayDevice returns the name of the TAP device in place of a port.
func delayDevice(port string) string { return "d" + port }

// frameSize is the size of the longest frame: a large segment with its headers,
// in bytes.
const frameSize = 65536 + 256

// portPause is the wait before a port that is down is tried again.
const portPause = 10 * time.Millisecond

// queueLength bounds the frames in transit in each direction; more are lost, as
// in any queue.
const queueLength = 4096

func (f *faults) startRelay(nic NIC, fault Fault) error {
	if err := f.stopRelay(nic); err != nil {
		return err
	}
	h, _ := f.lab.Layout.Host(fault.Host)
	bridge := f.lab.Layout.networkOf(h).Bridge
	if fault.NIC == OnFencing {
		bridge = f.lab.Layout.Fencing.Bridge
	}
	r := &relay{layout: f.lab.Layout, nic: nic, bridge: bridge, delay: fault.Delay}
	r.ctx, r.end = context.WithCancel(context.Background())
	if err := r.open(); err != nil {
		return errors.Join(err, r.stop())
	}
	go r.carry(r.port, r.tap)
	go r.carry(r.tap, r.port)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.relays[nic.Port] = r
	return nil
}

func (f *faults) stopRelay(nic NIC) error {
	f.mu.Lock()
	r := f.relays[nic.Port]
	delete(f.relays, nic.Port)
	f.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.stop()
}

// open makes both ends and puts the TAP device in the port's place.
func (r *relay) open() error {
	sw := namespace(r.layout.Switch())
	if err := sw.do(r.openSockets); err != nil {
		return fmt.Errorf("delay on %s: %w", r.nic.Port, err)
	}
	nl, err := sw.handle()
	if err != nil {
		return err
	}
	defer nl.Close()
	port, err := nl.LinkByName(r.nic.Port)
	if err != nil {
		return err
	}
	tap, err := nl.LinkByName(delayDevice(r.nic.Port))
	if err != nil {
		return err
	}
	return errors.Join(nl.LinkSetNoMaster(port), enslave(nl, delayDevice(r.nic.Port), r.bridge), nl.LinkSetUp(tap))
}

func (r *relay) openSockets() error {
	tap, err := openTAP(delayDevice(r.nic.Port))
	if err != nil {
		return err
	}
	r.tap = tap
	link, err := netlink.LinkByName(r.nic.Port)
	if err != nil {
		return err
	}
	r.port, err = openPacket(link.Attrs().Index)
	return err
}

// openTAP makes a TAP device that lives as long as the file is open.
func openTAP(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open TAP device: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		// Accept unfinished checksums and large segments of both families.
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make TAP device %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openPacket opens a raw socket on a link. It receives every frame that arrives
// there, whatever its destination, but not the frames that it sends itself.
func openPacket(index int) (*os.File, error) {
	all := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
	)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "packet"), nil
}

// frame is one frame in transit.
type frame struct {
	due  time.Time
	data []byte
}

// carry reads frames on one side and passes each on when it is due.
func (r *relay) carry(from, to *os.File) {
	queue := make(chan frame, queueLength)
	go r.deliver(queue, to)
	defer close(queue)
	buf := make([]byte, frameSize)
	for {
		n, err := from.Read(buf)
		if err != nil {
			if host.Sleep(r.ctx, portPause) != nil {
				return
			}
			continue // the port was down and may be back
		}
		select {
		case queue <- frame{due: time.Now().Add(r.delay), data: append([]byte(nil), buf[:n]...)}:
		default: // the queue is full: the frame is lost
		}
	}
}

func (r *relay) deliver(queue <-chan frame, to *os.File) {
	for f := range queue {
		if host.Sleep(r.ctx, time.Until(f.due)) != nil {
			return
		}
		_, _ = to.Write(f.data) // a frame for a dead port is lost
	}
}

// stop puts the port back into the bridge.
func (r *relay) stop() error {
	r.end()
	var errs []error
	for _, f := range []*os.File{r.port, r.tap} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	nl, err := namespace(r.layout.Switch()).handle()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer nl.Close()
	return errors.Join(append(errs, enslave(nl, r.nic.Port, r.bridge))...)
}
