package reach

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
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
		if got, err = Answers(t.Context(), list, nil); err != nil {
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
	if got, err := Answers(t.Context(), list, nil); err != nil || got != state.Known(true) {
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
		if found, err := unknownMAC.answer(nl, nil); err != nil {
			t.Fatal(err)
		} else if found == somebody {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if found, err := unknownMAC.answer(nl, nil); err != nil || found != somebody {
		t.Errorf("nobody answers: %v, %v", found, err)
	}
	if found, err := a.answer(nl, nil); err != nil || found != nobody {
		t.Errorf("another machine passes for the host: %v, %v", found, err)
	}
}

// TestAMachineThatTookTheAddressIsNotHeardForTheHost plays a host that was replaced, and
// wakes up with the address of the new one: it gets into the kernel's table, and goes on to
// answer after the new host is off.
func TestAMachineThatTookTheAddressIsNotHeardForTheHost(t *testing.T) {
	for _, address := range []string{"10.98.0.1", "fd98::1"} {
		t.Run(address, func(t *testing.T) {
			ip := netip.MustParseAddr(address)
			sw, here, there, former := netnstest.New(t, ""), netnstest.New(t, ""), netnstest.New(t, ""), netnstest.New(t, "")
			netnstest.Switch(t, sw)
			for port, ns := range map[string]netns.NsHandle{"p1": here, "p2": there, "p3": former} {
				netnstest.Plug(t, sw, port, ns, "eth0")
			}
			netnstest.Give(t, here, "eth0", "10.98.0.11/24", "fd98::11/64")
			for _, ns := range []netns.NsHandle{there, former} {
				netnstest.Give(t, ns, "eth0", "10.98.0.1/24", "fd98::1/64")
			}
			netnstest.Enter(t, here)
			own, other := []string{"02:00:00:00:00:98", hardwareOf(t, there).String()}, hardwareOf(t, former)
			heard(t, state.Known(true), address)
			ask := func(own []string, at net.HardwareAddr) state.Fact[bool] {
				enters(t, ip, at)
				got, err := Answers(t.Context(), []netip.Addr{ip}, own)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}

			if got := ask(own, hardwareOf(t, there)); got != state.Known(true) {
				t.Errorf("the host stands in the table: it is heard %+v", got)
			}
			if got := ask(own, other); got != (state.Fact[bool]{}) {
				t.Errorf("the other one stands in the table: the host is heard %+v", got)
			}
			if now := macOf(table(t), ip); !slices.Equal(now, other) {
				t.Errorf("the table has %s afterwards, had %s", now, other)
			}
			netnstest.In(t, there, func() { down(t) })
			if got := ask(own, other); got != (state.Fact[bool]{}) {
				t.Errorf("only the other one answers: the host is heard %+v", got)
			}
			if got := ask(nil, other); got != state.Known(true) {
				t.Errorf("nobody knows which of the two is the host: %+v", got)
			}
			netnstest.In(t, former, func() { down(t) })
			if got := ask(own, other); got != (state.Fact[bool]{}) {
				t.Errorf("the other one is silent, and the host was not asked: %+v", got)
			}
		})
	}
}

// table returns the kernel's table of neighbours.
func table(t *testing.T) []netlink.Neigh {
	t.Helper()
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	list, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestAnotherMachineInTheTableHidesWhetherTheHostAnswered reads the kernel's entries while a
// question is open.
func TestAnotherMachineInTheTableHidesWhetherTheHostAnswered(t *testing.T) {
	mac := func(text string) net.HardwareAddr {
		m, err := net.ParseMAC(text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	host, member, other := mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"), mac("02:00:00:00:00:03")
	own := []string{host.String(), member.String()}
	for _, c := range []struct {
		name  string
		own   []string
		asked net.HardwareAddr
		at    net.HardwareAddr
		nud   int
		want  answer
	}{
		{"the host answered", own, host, host, unix.NUD_REACHABLE, itself},
		{"it answered from another of its NICs", own, host, member, unix.NUD_REACHABLE, itself},
		{"it owes the answer", own, host, host, unix.NUD_PROBE, nobody},
		{"another machine answered", own, host, other, unix.NUD_REACHABLE, somebody},
		{"another machine was noted, before or after an answer of the host", own, host, other, unix.NUD_STALE, somebody},
		{"nobody is in the table", own, nil, nil, unix.NUD_INCOMPLETE, nobody},
		{"the host answered a question to all", own, nil, host, unix.NUD_REACHABLE, itself},
		{"who answers counts by the table alone", nil, host, host, unix.NUD_REACHABLE, itself},
		{"another one does not count", nil, host, other, unix.NUD_REACHABLE, nobody},
		{"of a question to all nobody knows whose answer it is", nil, nil, other, unix.NUD_REACHABLE, somebody},
	} {
		if got := (asked{mac: c.asked}).judge(netlink.Neigh{HardwareAddr: c.at, State: c.nud}, c.own); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// hardwareOf returns the hardware address of the NIC of a namespace.
func hardwareOf(t *testing.T, ns netns.NsHandle) (mac net.HardwareAddr) {
	t.Helper()
	netnstest.In(t, ns, func() {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		mac = link.Attrs().HardwareAddr
	})
	return mac
}

// enters notes a machine in the kernel's table, as its announcement of an address does.
func enters(t *testing.T, ip netip.Addr, mac net.HardwareAddr) {
	t.Helper()
	link, err := netlink.LinkByName("eth0")
	if err == nil {
		err = netlink.NeighSet(entryOf(link, ip, mac, unix.NUD_STALE))
	}
	if err != nil {
		t.Fatal(err)
	}
}
