package dns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"

	"github.com/holdfast/holdfast/internal/adapter/mdns"
	reconciler "github.com/holdfast/holdfast/internal/agent/network/mdns"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/net/promise"
)

// alone returns the view of a host without an API: it sees only itself.
func alone(self string, addrs []string) state.NetworkView {
	v := view(self, addrs)
	v.Nodes = state.Fact[[]state.Node]{}
	return v
}

// speaker is a host that announces itself as the agent does.
type speaker struct {
	*node
	mdns *reconciler.Reconciler
	view state.NetworkView
}

func (n *node) speaks(name string, addrs ...string) *speaker {
	n.t.Helper()
	s := &speaker{n, reconciler.New(&mdns.Publisher{Logf: n.t.Logf}), alone(name, addrs)}
	s.say()
	n.t.Cleanup(s.bye)
	return s
}

// say announces the current view.
func (s *speaker) say() {
	s.t.Helper()
	s.must(func() error {
		_, err := s.mdns.Reconcile(s.t.Context(), s.view)
		return err
	})
}

func (s *speaker) bye() {
	s.t.Helper()
	s.must(func() error { return s.mdns.Withdraw(s.t.Context()) })
}

const peer = "host-1.demo.example.com."

// first returns a host's address of a family, and the query type for it.
func first(kind string, last int) (addr string, qtype uint16) {
	if kind == "v6" {
		return fmt.Sprintf("fd09::%d", last), dns.TypeAAAA
	}
	return fmt.Sprintf("10.9.0.%d", last), dns.TypeA
}

func TestHardCase35_B73_AHostIsFoundWhenItComesAndForgottenWhenItSaysGoodbye(t *testing.T) {
	for kind, addrs := range kinds {
		t.Run(kind, func(t *testing.T) {
			site := newSite(t)
			n := site.host("10.9.0.21/24", "fd09::21/64")
			s := site.host("10.9.0.20/24", "fd09::20/64").serve(alone("host-0", addrs))
			own := netip.MustParseAddr(addrs[0])
			addr, qtype := first(kind, 21)
			var came, went []time.Duration
			for range 10 {
				sp := n.speaks("host-1", map[string][]string{"v4": {"10.9.0.21"}, "v6": {"fd09::21"}, "dual": {"10.9.0.21", "fd09::21"}}[kind]...)
				came = append(came, s.until(2*time.Second, own, peer, qtype, addr))
				if kind == "dual" {
					s.until(time.Second, own, peer, dns.TypeAAAA, "fd09::21")
				}
				sp.bye()
				went = append(went, s.until(time.Second, own, peer, qtype, "SERVFAIL"))
			}
			report(t, "found", came)
			report(t, "forgotten", went)
		})
	}
}

func TestHardCase35_AServerThatComesLaterFindsWhoWasThereBefore(t *testing.T) {
	site := newSite(t)
	site.host("10.9.0.21/24").speaks("host-1", "10.9.0.21")
	time.Sleep(200 * time.Millisecond)
	s := site.host("10.9.0.20/24").serve(alone("host-0", []string{"10.9.0.20"}))
	t.Logf("found %s after the server answered", s.until(3*time.Second, own4, peer, dns.TypeA, "10.9.0.21"))
	for range 20 { // a reload forgets nobody, not even for a moment
		if err := s.signalReload(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			s.want(own4, peer, dns.TypeA, "10.9.0.21")
		}
	}
}

// There are two links and one cluster: the second link is foreign.
func TestB71_OnlyTheLinkOfTheOwnAddressIsListenedToAndSpokenOn(t *testing.T) {
	site, foreign := newSite(t), newSite(t)
	server := site.host("10.9.0.20/24")
	(&node{site: foreign, ns: server.ns, space: server.space, number: 98}).nic("eth1", "10.8.0.20/24")
	s := server.serve(alone("host-0", []string{"10.9.0.20"}))

	both := site.host("10.9.0.21/24")
	(&node{site: foreign, ns: both.ns, space: both.space, number: 99}).nic("eth1", "10.8.0.21/24")
	stranger := foreign.host("10.8.0.66/24")
	heard := stranger.overhears("eth0")

	stranger.speaks("host-2", "10.8.0.66")
	both.speaks("host-1", "10.9.0.21")
	s.until(2*time.Second, own4, peer, dns.TypeA, "10.9.0.21")
	time.Sleep(1500 * time.Millisecond) // two announcements of the foreign host
	s.want(own4, "host-2.demo.example.com.", dns.TypeA, "SERVFAIL")
	for _, from := range heard() {
		if from != netip.MustParseAddr("10.8.0.66") {
			t.Errorf("%s was heard on another link", from)
		}
	}
}

// overhears returns a function that lists the senders on a link so far.
func (n *node) overhears(nic string) func() []netip.Addr {
	n.t.Helper()
	var conn *net.UDPConn
	n.must(func() error {
		at, err := net.InterfaceByName(nic)
		if err != nil {
			return err
		}
		conn, err = net.ListenMulticastUDP("udp4", at, &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353})
		return err
	})
	n.t.Cleanup(func() { _ = conn.Close() })
	return func() []netip.Addr {
		var out []netip.Addr
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for buffer := make([]byte, 9000); ; {
			_, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return out
			}
			out = append(out, from.Addr().Unmap())
		}
	}
}

// forge sends a claim from one address of a host.
func (n *node) forge(from, host, addr string, ttl uint32, hops int) {
	n.t.Helper()
	instance := `demo\ Workstation-` + host + "._workstation._tcp.local."
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}}
	for _, line := range []string{
		fmt.Sprintf("_workstation._tcp.local. %d IN PTR %s", ttl, instance),
		fmt.Sprintf("%s %d IN SRV 0 0 42424 %s.local.", instance, ttl, host),
		fmt.Sprintf("%s %d IN TXT cluster=demo", instance, ttl),
		fmt.Sprintf("%s.local. %d IN A %s", host, ttl, addr),
	} {
		rr, err := dns.NewRR(line)
		if err != nil {
			n.t.Fatal(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	data, err := m.Pack()
	if err != nil {
		n.t.Fatal(err)
	}
	n.must(func() error { return multicast(from, data, hops) })
}

func multicast(from string, data []byte, hops int) error {
	conn, err := net.ListenPacket("udp4", net.JoinHostPort(from, "5353"))
	if err != nil {
		return err
	}
	nic, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	p := ipv4.NewPacketConn(conn)
	if err := errors.Join(p.SetMulticastInterface(nic), p.SetMulticastTTL(hops)); err != nil {
		return err
	}
	_, err = conn.WriteTo(data, &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353})
	return errors.Join(err, conn.Close())
}

func TestHardCase35_SpoofedMDNSFromANonPeerChangesNothing(t *testing.T) {
	site := newSite(t)
	site.host("10.9.0.21/24").speaks("host-1", "10.9.0.21")
	s := site.host("10.9.0.20/24").serve(alone("host-0", []string{"10.9.0.20"}))
	s.until(3*time.Second, own4, peer, dns.TypeA, "10.9.0.21")
	thief := site.host("10.9.0.66/24", "172.16.0.66/24")
	for range 40 { // more time than a neighbour has that is gone
		thief.forge("172.16.0.66", "host-7", "172.16.0.66", 120, 255) // from another network
		thief.forge("172.16.0.66", "host-1", "10.9.0.21", 0, 255)     // a goodbye from there
		thief.forge("10.9.0.66", "host-7", "10.9.0.66", 120, 64)      // as through a router
		thief.forge("10.9.0.66", "host-7", "10.9.0.5", 120, 255)      // for another host's address
		thief.forge("10.9.0.66", "host-1", "10.9.0.66", 120, 255)     // for another host's name
		thief.forge("10.9.0.66", "host-1", "10.9.0.66", 0, 255)       // and its end
		thief.forge("10.9.0.66", "api", "10.9.0.66", 120, 255)        // for a VIP's name
		s.want(own4, peer, dns.TypeA, "10.9.0.21")
		s.want(own4, "host-7.demo.example.com.", dns.TypeA, "SERVFAIL")
		s.want(own4, "api.demo.example.com.", dns.TypeA, "10.9.0.5")
		time.Sleep(100 * time.Millisecond)
	}
	// The claims above were refused because of their origin, and not because
	// nobody listens.
	thief.forge("10.9.0.66", "host-7", "10.9.0.66", 120, 255)
	s.until(time.Second, own4, "host-7.demo.example.com.", dns.TypeA, "10.9.0.66")
}

// moves puts a host's NIC below a bridge, which takes its address over.
func (n *node) moves(addr, bridge string) {
	n.t.Helper()
	n.ip("-n", n.ns, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
	n.ip("-n", n.ns, "link", "set", bridge, "up")
	n.ip("-n", n.ns, "address", "delete", addr, "dev", "eth0")
	n.ip("-n", n.ns, "link", "set", "eth0", "master", bridge)
	n.ip("-n", n.ns, "address", "add", addr, "dev", bridge)
}

func TestHardCase35_NICChange_TheSpeakerMovesToABridge(t *testing.T) {
	site := newSite(t)
	sp := site.host("10.9.0.21/24").speaks("host-1", "10.9.0.21")
	s := site.host("10.9.0.20/24").serve(alone("host-0", []string{"10.9.0.20"}))
	s.until(3*time.Second, own4, peer, dns.TypeA, "10.9.0.21")
	sp.moves("10.9.0.21/24", "br-ex")
	sp.view.Host.Interface = "br-ex"
	sp.say()
	s.want(own4, peer, dns.TypeA, "10.9.0.21")
	sp.bye() // it speaks on the bridge now
	s.until(time.Second, own4, peer, dns.TypeA, "SERVFAIL")
}

func TestHardCase35_NICChange_TheListenerMovesToABridge(t *testing.T) {
	site := newSite(t)
	n := site.host("10.9.0.20/24")
	s := n.serve(alone("host-0", []string{"10.9.0.20"}))
	time.Sleep(500 * time.Millisecond)
	n.moves("10.9.0.20/24", "br-ex")
	site.host("10.9.0.21/24").speaks("host-1", "10.9.0.21")
	t.Logf("found after %s", s.until(4*time.Second, own4, peer, dns.TypeA, "10.9.0.21"))
}

func TestHardCase35_AHostWithANewAddressIsFoundThereThoughItCouldNotSayGoodbye(t *testing.T) {
	site := newSite(t)
	sp := site.host("10.9.0.21/24").speaks("host-1", "10.9.0.21")
	s := site.host("10.9.0.20/24").serve(alone("host-0", []string{"10.9.0.20"}))
	s.until(3*time.Second, own4, peer, dns.TypeA, "10.9.0.21")
	sp.ip("-n", sp.ns, "address", "delete", "10.9.0.21/24", "dev", "eth0")
	sp.address("eth0", "10.9.0.31/24")
	sp.view.Host.Addresses = []netip.Addr{netip.MustParseAddr("10.9.0.31")}
	sp.say()
	t.Logf("found after %s", s.until(5*time.Second, own4, peer, dns.TypeA, "10.9.0.31"))
}

func TestHardCase35_TwoHundredHosts(t *testing.T) {
	site := newSite(t)
	n := site.host()
	s := site.host("10.9.0.20/16").serve(alone("host-0", []string{"10.9.0.20"}))
	start := time.Now()
	for i := range 200 {
		addr := fmt.Sprintf("10.9.%d.%d", 1+i/100, 1+i%100)
		n.address("eth0", addr+"/16")
		n.speaks(fmt.Sprintf("w-%d", i), addr)
	}
	for i := range 200 {
		s.until(10*time.Second, own4, fmt.Sprintf("w-%d.demo.example.com.", i), dns.TypeA, fmt.Sprintf("10.9.%d.%d", 1+i/100, 1+i%100))
	}
	t.Logf("all are known %s after the first came", time.Since(start))
	late := site.host("10.9.0.30/16")
	l := late.serve(alone("host-9", []string{"10.9.0.30"}))
	start = time.Now()
	for i := range 200 {
		l.until(10*time.Second, netip.MustParseAddr("10.9.0.30"), fmt.Sprintf("w-%d.demo.example.com.", i), dns.TypeA, fmt.Sprintf("10.9.%d.%d", 1+i/100, 1+i%100))
	}
	t.Logf("a server that comes later knows all after %s", time.Since(start))
}

func TestHardCase35_LongNamesOfClusterAndHostAreFound(t *testing.T) {
	const cluster, host = "a-cluster-with-a-rather-long-name", "a-host-with-a-name-of-sixty-three-bytes-which-is-all-a-label-has"
	site := newSite(t)
	long := func(v state.NetworkView) state.NetworkView {
		v.Settings.Cluster, v.Settings.Domain = cluster, cluster+".example.com"
		return v
	}
	sp := &speaker{site.host("10.9.0.21/24"), reconciler.New(&mdns.Publisher{Logf: t.Logf}), long(alone(host[:63], []string{"10.9.0.21"}))}
	sp.say()
	t.Cleanup(sp.bye)
	other := site.host("10.9.0.22/24")
	stranger := &speaker{other, reconciler.New(&mdns.Publisher{Logf: t.Logf}), long(alone(host[:62]+"x", []string{"10.9.0.22"}))}
	stranger.view.Settings.Cluster = cluster[:20] + "-of-somebody-else"
	stranger.say()
	t.Cleanup(stranger.bye)
	s := site.host("10.9.0.20/24").serve(long(alone("host-0", []string{"10.9.0.20"})))
	s.until(3*time.Second, own4, host[:63]+"."+cluster+".example.com.", dns.TypeA, "10.9.0.21")
	s.want(own4, host[:62]+"x."+cluster+".example.com.", dns.TypeA, "SERVFAIL")
}

func TestHardCase35_WhoSaysNoMoreIsForgottenWhenItsTimeIsOver(t *testing.T) {
	site := newSite(t)
	s := site.host("10.9.0.20/24").serve(alone("host-0", []string{"10.9.0.20"}))
	n := site.host("10.9.0.21/24")
	time.Sleep(100 * time.Millisecond)
	n.forge("10.9.0.21", "host-1", "10.9.0.21", 2, 255)
	start := time.Now()
	s.until(time.Second, own4, peer, dns.TypeA, "10.9.0.21")
	s.until(3*time.Second, own4, peer, dns.TypeA, "SERVFAIL")
	if lived := time.Since(start); lived < 1900*time.Millisecond || lived > promise.Allowed(2500*time.Millisecond) {
		t.Errorf("it was known for %s, and said 2 s", lived)
	}
}

func TestHardCase35_HostsWithAddressesOfDHCPv6FindEachOther(t *testing.T) {
	site := newSite(t)
	site.host("fd09::21/128").speaks("host-1", "fd09::21")
	s := site.host("fd09::20/128").serve(alone("host-0", []string{"fd09::20"}))
	s.until(3*time.Second, own6, peer, dns.TypeAAAA, "fd09::21")
}
