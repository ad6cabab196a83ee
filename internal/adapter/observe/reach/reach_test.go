package reach

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/decide/reach"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// newProber returns a prober of a host with the address own, whose peer has the
// address peer.
func newProber(own, peer string) *Prober {
	begin := time.Now().Add(-time.Hour)
	return &Prober{Own: netip.MustParseAddr(own), Peer: netip.MustParseAddr(peer), Uptime: func() time.Duration { return time.Since(begin) }}
}

// rounds asks until fits returns true.
func rounds(t *testing.T, p *Prober, fits func(state.Fact[bool], []reach.Neighbour) bool) []reach.Neighbour {
	t.Helper()
	var signal state.Fact[bool]
	var list []reach.Neighbour
	for range 200 {
		var err error
		if signal, list, err = p.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if fits(signal, list) {
			return list
		}
		time.Sleep(20 * time.Millisecond) // the kernel needs a moment to find a neighbour, and a second after a cable came in
	}
	t.Fatalf("signal %v, neighbours %+v", signal, list)
	return nil
}

func answers(_ state.Fact[bool], list []reach.Neighbour) bool {
	return len(list) > 0 && list[0].Answered > 0 && list[0].Missed == 0
}

func TestAGatewayThatAnswersIsFoundWithoutOtherTraffic(t *testing.T) {
	for own, other := range map[string]string{"10.98.0.11": "10.98.0.1", "fd98::11": "fd98::1"} {
		t.Run(own, func(t *testing.T) {
			there := netnstest.Pair(t, []string{"10.98.0.11/24", "fd98::11/64"}, []string{"10.98.0.1/24", "fd98::1/64"})
			route(t, other)
			p := newProber(own, "10.98.0.12")
			list := rounds(t, p, answers)
			if !list[0].Gateway || list[0].Address.String() != other {
				t.Errorf("%+v", list)
			}
			drop(t, there) // it still carries a signal, but answers nothing
			rounds(t, p, func(signal state.Fact[bool], list []reach.Neighbour) bool {
				return signal.Value && list[0].Missed >= reach.Missed
			})
			restore(t, there)
			rounds(t, p, answers)
		})
	}
}

func TestThePeerIsNoNeighbourWhateverItsAddress(t *testing.T) {
	there := netnstest.Pair(t, []string{"10.98.0.11/24"}, []string{"10.98.0.12/24", "10.98.0.5/32"})
	route(t, "10.98.0.12") // it is left out even if it were the gateway
	p := newProber("10.98.0.11", "10.98.0.12")
	var told []string
	p.PeerAt = func(mac net.HardwareAddr) { told = append(told, mac.String()) }
	rounds(t, p, func(state.Fact[bool], []reach.Neighbour) bool { return len(p.peer) > 0 })
	for range 3 {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		entry := entryOf(link, netip.MustParseAddr("10.98.0.5"), nil, 0)
		entry.Flags = 1 // NTF_USE: the kernel finds the virtual IP at the peer
		_ = netlink.NeighSet(entry)
		if _, list, err := p.Round(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if want := []string{hardwareOf(t, there).String()}; !slices.Equal(told, want) {
		t.Errorf("the peer was reached at %v, and not once at %v", told, want)
	}
}

func TestACableThatIsOutIsNoticedAtOnce(t *testing.T) {
	there := netnstest.Pair(t, []string{"10.98.0.11/24"}, []string{"10.98.0.1/24"})
	p := newProber("10.98.0.11", "10.98.0.12")
	if signal, _, err := p.Round(t.Context()); err != nil || !state.Is(signal, true) {
		t.Fatalf("%v, %v", signal, err)
	}
	netnstest.In(t, there, func() { down(t) })
	if signal, _, err := p.Round(t.Context()); err != nil || !state.Is(signal, false) {
		t.Errorf("%v, %v", signal, err)
	}
}

func TestAnAddressThatNoInterfaceHasIsNamed(t *testing.T) {
	netnstest.Pair(t, []string{"10.98.0.11/24"}, nil)
	if _, _, err := newProber("10.98.0.77", "10.98.0.12").Round(t.Context()); err == nil {
		t.Error("no error")
	}
}

// route makes an address the gateway of the test's host.
func route(t *testing.T, gateway string) {
	t.Helper()
	link, err := netlink.LinkByName("eth0")
	if err == nil {
		err = netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: netip.MustParseAddr(gateway).AsSlice()})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func down(t *testing.T) {
	t.Helper()
	link, err := netlink.LinkByName("eth0")
	if err == nil {
		err = netlink.LinkSetDown(link)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// drop makes the other host stop answering, while its cable stays in.
func drop(t *testing.T, there netns.NsHandle) {
	t.Helper()
	netnstest.In(t, there, func() {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		for _, a := range list {
			if err == nil {
				err = netlink.AddrDel(link, &a)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

func restore(t *testing.T, there netns.NsHandle) {
	t.Helper()
	netnstest.Give(t, there, "eth0", "10.98.0.1/24", "fd98::1/64")
}
