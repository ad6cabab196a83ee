package reach

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// heard asks until the answer is the wanted one: the kernel needs a moment to
// find a neighbour.
func heard(t *testing.T, want state.Fact[bool], addresses ...string) {
	t.Helper()
	var list []netip.Addr
	for _, a := range addresses {
		list = append(list, netip.MustParseAddr(a))
	}
	var got state.Fact[bool]
	for range 50 {
		var err error
		if got, err = Answers(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if got == want {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%v: %+v, want %+v", addresses, got, want)
}

func TestAHostIsHeardOnAnyNetworkThatItShares(t *testing.T) {
	for _, address := range []string{"10.98.0.1", "fd98::1"} {
		t.Run(address, func(t *testing.T) {
			there := netnstest.Pair(t, []string{"10.98.0.11/24", "fd98::11/64"}, []string{"10.98.0.1/24", "fd98::1/64"})
			heard(t, state.Known(true), "192.0.2.1", address)
			drop(t, there)
			heard(t, state.Known(false), "192.0.2.1", address)
			restore(t, there)
			heard(t, state.Known(true), address)
			netnstest.In(t, there, func() { down(t) }) // without a signal, silence says nothing
			heard(t, state.Fact[bool]{}, address)
		})
	}
}

// TestAnAddressThatNobodyKnewHidesNoOther asks at two addresses of a host; the
// first has no known hardware address.
func TestAnAddressThatNobodyKnewHidesNoOther(t *testing.T) {
	netnstest.Pair(t, []string{"10.98.0.11/24"}, []string{"10.98.0.1/24", "10.98.0.2/24"})
	heard(t, state.Known(true), "10.98.0.2")
	list := []netip.Addr{netip.MustParseAddr("10.98.0.1"), netip.MustParseAddr("10.98.0.2")}
	if got, err := Answers(t.Context(), list); err != nil || got != state.Known(true) {
		t.Errorf("heard at one of two addresses: %+v, %v", got, err)
	}
}

func TestWhoSharesNoNetworkIsNotHeardNorSilent(t *testing.T) {
	netnstest.Pair(t, []string{"10.98.0.11/24"}, []string{"10.98.0.1/24"})
	heard(t, state.Fact[bool]{}, "192.0.2.1", "2001:db8::1")
	heard(t, state.Fact[bool]{})
}

// TestWhoAnswersForAnotherIsNotHeard lets another machine answer for the
// address, as a router with proxy ARP does.
func TestWhoAnswersForAnotherIsNotHeard(t *testing.T) {
	netnstest.Pair(t, []string{"10.98.0.11/24"}, []string{"10.98.0.1/24"})
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	mac, err := net.ParseMAC("02:00:00:00:00:99")
	if err != nil {
		t.Fatal(err)
	}
	a := asked{link: link, ip: netip.MustParseAddr("10.98.0.1"), mac: mac}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	if err := lookFor(nl, link, a.ip); err != nil {
		t.Fatal(err)
	}
	unknownMAC := asked{link: link, ip: a.ip}
	for range 100 {
		if found, err := unknownMAC.answered(nl); err != nil {
			t.Fatal(err)
		} else if found {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if found, err := unknownMAC.answered(nl); err != nil || !found {
		t.Errorf("nobody answers: %v, %v", found, err)
	}
	if found, err := a.answered(nl); err != nil || found {
		t.Errorf("another machine passes for the host: %v, %v", found, err)
	}
}
