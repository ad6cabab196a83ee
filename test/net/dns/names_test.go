package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/internal/adapter/host"
	names "github.com/holdfast/holdfast/internal/agent/network/names"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/test/net/promise"
)

func (s *server) signalReload() error {
	return host.SignalPIDFile(s.path(coredns.PIDFile), syscall.SIGUSR1)
}

// kinds holds the addresses of a host of each family.
var kinds = map[string][]string{"v4": {"10.9.0.20"}, "v6": {"fd09::20"}, "dual": {"10.9.0.20", "fd09::20"}}

func TestHardCase30_EveryNameOfEveryFamilyAndOnlyThose(t *testing.T) {
	for kind, addrs := range kinds {
		t.Run(kind, func(t *testing.T) {
			site := newSite(t)
			up := site.host("10.9.0.1/24", "fd09::1/64")
			at := map[string]string{"v4": "10.9.0.1", "v6": "fd09::1", "dual": "10.9.0.1"}[kind]
			other := up.upstream(at)
			other.does(code(dns.RcodeNameError))
			s := site.host("10.9.0.20/24", "fd09::20/64").serve(view("host-0", addrs, other))
			has4, has6 := kind != "v6", kind != "v4"
			for _, own := range addrs {
				expectNames(s, netip.MustParseAddr(own), has4, has6)
			}
		})
	}
}

func expectNames(s *server, at netip.Addr, has4, has6 bool) {
	s.t.Helper()
	either := func(has bool, addr string) string {
		if has {
			return addr
		}
		return "NOERROR"
	}
	for name, last := range map[string]string{
		"api.demo.example.com.": "5", "aPi.DEMO.example.COM.": "5", "api-int.demo.example.com.": "5",
		"console.apps.demo.example.com.": "6", "a.b.apps.demo.example.com.": "6", "A.b.ApPs.demo.example.com.": "6",
		"host-0.demo.example.com.": "20", "host-0.": "20",
	} {
		s.want(at, name, dns.TypeA, either(has4, "10.9.0."+last))
		s.want(at, name, dns.TypeAAAA, either(has6, "fd09::"+last))
	}
	for _, name := range []string{"xapi.demo.example.com.", "apiX.demo.example.com.", "fooapps.demo.example.com.", "x.fooapps.demo.example.com.", "nobody.demo.example.com."} {
		s.want(at, name, dns.TypeA, "NXDOMAIN")
	}
	for _, name := range []string{"apps.demo.example.com.", "demo.example.com."} { // names below them exist
		s.want(at, name, dns.TypeA, "NOERROR")
	}
	for _, name := range []string{"x.apps.demo.example.com.", "api.demo.example.com.", "host-0.demo.example.com."} { // the site denies all
		s.want(at, name, dns.TypeTXT, "NOERROR")
	}
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m, err := s.ask(at, "api.demo.example.com.", qtype)
		if err != nil || len(m.Answer) == 0 && (len(m.Ns) != 1 || m.Ns[0].Header().Rrtype != dns.TypeSOA) {
			s.t.Errorf("%v %v: an empty answer comes with its SOA record", m, err)
		}
	}
}

func (s *server) reconcile(p *names.Reconciler, v state.NetworkView) {
	s.t.Helper()
	if _, err := p.Reconcile(s.t.Context(), v); err != nil {
		s.t.Fatal(err)
	}
}

// pieceOf returns the agent's reconciler of names, for a host that is only a
// folder.
func pieceOf(n *node) *names.Reconciler {
	return names.New(names.Options{Root: n.root, Zone: n.path(coredns.ZonePath), Image: "unused", Now: time.Now})
}

// H1: 20 changes of an address, each seen within a second and without a reload.
func TestH1_AChangedNodeAddressIsServedWithinASecond(t *testing.T) {
	n := newSite(t).host("10.9.0.20/24")
	v := view("host-0", []string{"10.9.0.20"})
	s := n.serve(v)
	p := pieceOf(n)
	s.reconcile(p, v)
	var took []time.Duration
	for i := range 20 {
		a := netip.AddrFrom4([4]byte{10, 9, 0, byte(100 + i)})
		v.Nodes = state.Known([]state.Node{v.Nodes.Value[0], {Name: "host-1", Addresses: []netip.Addr{a}}})
		s.reconcile(p, v)
		took = append(took, s.until(time.Second, own4, "host-1.demo.example.com.", dns.TypeA, a.String()))
	}
	report(t, "a changed node address is served", took)
}

// report logs a distribution.
func report(t *testing.T, what string, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	t.Logf("%s: n=%d min %s median %s max %s", what, len(took), took[0].Round(time.Microsecond), took[len(took)/2].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond))
}

// The upstreams change 20 times, while a client that sends 200 queries a second
// must not lose one answer.
func TestChangedUpstreamsAreAskedWithinASecondAndNoAnswerIsLost(t *testing.T) {
	site := newSite(t)
	sn := site.host("10.9.0.1/24", "10.9.0.2/24")
	ups := []*upstream{sn.upstream("10.9.0.1"), sn.upstream("10.9.0.2")}
	ups[1].does(says("198.51.100.2"))
	n := site.host("10.9.0.20/24")
	v := view("host-0", []string{"10.9.0.20"}, ups[0])
	s := n.serve(v)
	p := pieceOf(n)
	s.reconcile(p, v)
	stop, lost := s.traffic(own4, 5*time.Millisecond)
	var took []time.Duration
	for i := range 20 {
		v.Upstreams = []netip.AddrPort{ups[(i+1)%2].addr}
		start := time.Now()
		s.reconcile(p, v)
		want := fmt.Sprintf("198.51.100.%d", (i+1)%2+1)
		for j := 0; ; j++ {
			m, err := s.ask(own4, fmt.Sprintf("c%d-%d.example.org.", i, j), dns.TypeA)
			if err == nil && addresses(m) == want {
				break
			}
			if time.Since(start) > promise.Allowed(time.Second) {
				t.Fatalf("change %d: not asked within a second", i)
			}
			time.Sleep(2 * time.Millisecond)
		}
		took = append(took, time.Since(start))
		time.Sleep(100 * time.Millisecond)
	}
	close(stop)
	if n := <-lost; n > 0 {
		t.Errorf("%d answers were lost", n)
	}
	report(t, "changed upstreams are asked", took)
}

// traffic queries a name of the cluster over and over, and counts the queries
// without an answer. It repeats none.
func (s *server) traffic(at netip.Addr, pause time.Duration) (stop chan struct{}, lost chan int) {
	stop, lost = make(chan struct{}), make(chan int, 1)
	go func() {
		var wait sync.WaitGroup
		var mu sync.Mutex
		n, asked := 0, 0
		for tick := time.NewTicker(pause); ; {
			select {
			case <-stop:
				wait.Wait()
				s.t.Logf("%d questions besides, %d without an answer", asked, n)
				lost <- n
				return
			case <-tick.C:
			}
			asked++
			wait.Go(func() {
				conn, err := s.dial("udp", at)
				if err == nil {
					q := new(dns.Msg)
					q.SetQuestion("api-int.demo.example.com.", dns.TypeA)
					_, _, err = (&dns.Client{Timeout: patience}).ExchangeWithConn(q, conn)
					_ = conn.Close()
				}
				if err != nil {
					mu.Lock()
					n++
					mu.Unlock()
				}
			})
		}
	}()
	return stop, lost
}

// A reload that fails must leave the server and the health probe as they were:
// kubelet would restart the server with a configuration with which it cannot
// start.
func TestAReloadThatFailsLeavesTheServerAndItsHealthAsTheyWere(t *testing.T) {
	n := newSite(t).host("10.9.0.20/24", "10.9.0.22/24")
	v := view("host-0", []string{"10.9.0.20"})
	s := n.serve(v)
	away := view("host-0", []string{"10.9.0.99"}) // an address that the host does not have
	for _, spoil := range []func(){
		func() { n.write(coredns.ConfigPath, "nonsense {") },
		func() { n.config(away) },
	} {
		spoil()
		if err := s.signalReload(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.lives()
		s.want(own4, "api.demo.example.com.", dns.TypeA, "10.9.0.5")
		eventually(t, 5*time.Second, "the server says that it is healthy", n.healthy)
	}
	n.config(view("host-0", []string{"10.9.0.22"}))
	if err := s.signalReload(); err != nil {
		t.Fatal(err)
	}
	s.until(2*time.Second, netip.MustParseAddr("10.9.0.22"), "host-0.", dns.TypeA, "10.9.0.22")
	eventually(t, 5*time.Second, "the server says that it is healthy", n.healthy)
}

func TestAServerFollowsItsHostToAnotherAddress(t *testing.T) {
	n := newSite(t).host("10.9.0.20/24")
	v := view("host-0", []string{"10.9.0.20"})
	s := n.serve(v)
	p := pieceOf(n)
	s.reconcile(p, v)
	var took []time.Duration
	for i := range 10 {
		a := netip.AddrFrom4([4]byte{10, 9, 0, byte(30 + i)})
		n.address("eth0", a.String()+"/24")
		v.Host.Addresses = []netip.Addr{a}
		start := time.Now()
		s.reconcile(p, v)
		s.until(time.Second, a, "host-0.demo.example.com.", dns.TypeA, a.String())
		took = append(took, time.Since(start))
	}
	report(t, "the server answers at the host's new address", took)
}

// A host of another network is refused until an administrator names that
// network.
func TestAStrangerIsRefusedUntilItsNetworkIsNamed(t *testing.T) {
	site := newSite(t)
	up := site.host("10.9.0.1/24").upstream("10.9.0.1")
	n := site.host("10.9.0.20/24", "10.66.0.20/24")
	stranger := site.host("10.66.0.66/24")
	v := view("host-0", []string{"10.66.0.20"}, up)
	s := n.serve(v)
	at := netip.MustParseAddr("10.66.0.20")
	asks := func(name string) string {
		t.Helper()
		q := new(dns.Msg)
		q.SetQuestion(name, dns.TypeA)
		m, err := stranger.exchange("udp", at, q)
		if err != nil {
			t.Fatal(err)
		}
		return addresses(m)
	}
	for _, name := range []string{"api-int.demo.example.com.", "host-0.", "www.example.org."} {
		if got := asks(name); got != "REFUSED" {
			t.Errorf("%s: %s", name, got)
		}
	}
	p := pieceOf(n)
	v.Settings.NameClients = []netip.Prefix{netip.MustParsePrefix("10.66.0.0/24")}
	s.reconcile(p, v)
	eventually(t, 5*time.Second, "the network that was named may ask", func() bool { return asks("www.example.org.") == "198.51.100.1" })
}
