package dns

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/test/net/promise"
)

func TestHardCase29_B48_WithoutUpstreamsTheClusterIsServedAndTheRestFailsAtOnce(t *testing.T) {
	s := newSite(t).host("10.9.0.20/24").serve(view("host-0", []string{"10.9.0.20"}))
	s.want(own4, "api.demo.example.com.", dns.TypeA, "10.9.0.5")
	start := time.Now()
	s.want(own4, "www.example.org.", dns.TypeA, "SERVFAIL")
	if took := time.Since(start); took > promise.Allowed(100*time.Millisecond) {
		t.Errorf("the failure took %s", took)
	}
	s.lives()
}

func TestHardCase29_OneUpstreamAndTheHostsOwnAddressAmongThem(t *testing.T) {
	site := newSite(t)
	up := site.host("10.9.0.1/24").upstream("10.9.0.1")
	v := view("host-0", []string{"10.9.0.20"}, up)
	v.Upstreams = append([]netip.AddrPort{netip.AddrPortFrom(own4, 53), netip.MustParseAddrPort("127.0.0.1:53")}, v.Upstreams...)
	s := site.host("10.9.0.20/24").serve(v)
	s.want(own4, "www.example.org.", dns.TypeA, "198.51.100.1")
	if n := up.asked.Load(); n != 1 {
		t.Errorf("the upstream was asked %d times", n)
	}
}

// The server refuses more than 15 upstreams, and would not start at all.
func TestHardCase29_H2_MoreThanFifteenUpstreamsAreServedByTheFirstOfThem(t *testing.T) {
	site := newSite(t)
	up := site.host("10.9.0.1/24").upstream("10.9.0.1")
	v := view("host-0", []string{"10.9.0.20"}, up)
	for i := range 16 {
		v.Upstreams = append(v.Upstreams, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 0, byte(100 + i)}), 53))
	}
	n := site.host("10.9.0.20/24")
	s := n.serve(v)
	s.want(own4, "www.example.org.", dns.TypeA, "198.51.100.1")

	all := make([]string, len(v.Upstreams))
	for i, u := range v.Upstreams {
		all[i] = u.String()
	}
	other := site.host("10.9.0.30/24")
	other.write(coredns.ConfigPath, fmt.Sprintf(". {\n bind 10.9.0.30\n forward . %s\n}\n", strings.Join(all, " ")))
	bad := other.launch()
	select {
	case <-bad.ended:
	case <-time.After(10 * time.Second):
		t.Error("CoreDNS takes more than 15 now: the limit can go")
	}
}

func TestHardCase29_UpstreamsAreAskedInOrder(t *testing.T) {
	site := newSite(t)
	n := site.host("10.9.0.1/24", "10.9.0.2/24")
	first, second := n.upstream("10.9.0.1"), n.upstream("10.9.0.2")
	s := site.host("10.9.0.20/24").serve(view("host-0", []string{"10.9.0.20"}, first, second))
	for i := range 20 {
		s.want(own4, fmt.Sprintf("w%d.example.org.", i), dns.TypeA, "198.51.100.1")
	}
	if first.asked.Load() != 20 || second.asked.Load() != 0 {
		t.Errorf("asked %d and %d times", first.asked.Load(), second.asked.Load())
	}
}

func TestHardCase29_ASilentUpstreamCostsASecondAndIsThenPassedOverAndComesBack(t *testing.T) {
	site := newSite(t)
	n := site.host("10.9.0.1/24", "10.9.0.2/24")
	first, second := n.upstream("10.9.0.1"), n.upstream("10.9.0.2")
	first.does(silent)
	second.does(says("198.51.100.2"))
	s := site.host("10.9.0.20/24").serve(view("host-0", []string{"10.9.0.20"}, first, second))
	for i, took := 0, time.Hour; took > 500*time.Millisecond; i++ {
		start := time.Now()
		s.want(own4, fmt.Sprintf("a%d.example.org.", i), dns.TypeA, "198.51.100.2")
		if took = time.Since(start); took > promise.Allowed(1500*time.Millisecond) || i > 5 {
			t.Fatalf("question %d took %s", i, took)
		}
		t.Logf("question %d took %s", i, took)
	}
	first.does(says("198.51.100.1"))
	for start, i := time.Now(), 0; ; i++ {
		m, err := s.ask(own4, fmt.Sprintf("b%d.example.org.", i), dns.TypeA)
		if err == nil && addresses(m) == "198.51.100.1" {
			t.Logf("the first was asked again after %s", time.Since(start))
			break
		}
		if time.Since(start) > promise.Allowed(5*time.Second) {
			t.Fatal("the first was not asked again within 5 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestHardCase29_AnUpstreamThatFailsOrRefusesLeavesTheQuestionToTheNext(t *testing.T) {
	site := newSite(t)
	n := site.host("10.9.0.1/24", "10.9.0.2/24")
	first, second := n.upstream("10.9.0.1"), n.upstream("10.9.0.2")
	s := site.host("10.9.0.20/24").serve(view("host-0", []string{"10.9.0.20"}, first, second))
	for i, rcode := range []int{dns.RcodeServerFailure, dns.RcodeRefused} {
		first.does(code(rcode))
		s.want(own4, fmt.Sprintf("w%d.example.org.", i), dns.TypeA, "198.51.100.1")
	}
	first.does(code(dns.RcodeNameError))
	s.want(own4, "nowhere.example.org.", dns.TypeA, "NXDOMAIN")
}

// big answers with TXT records of the given size, truncated as a server must do
// it.
func big(bytes int) func(dns.ResponseWriter, *dns.Msg) {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		for len(m.Answer)*200 < bytes {
			m.Answer = append(m.Answer, &dns.TXT{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60},
				Txt: []string{strings.Repeat(string(rune('a'+len(m.Answer)%26)), 180)},
			})
		}
		size := dns.MinMsgSize
		if opt := q.IsEdns0(); opt != nil {
			size = int(opt.UDPSize())
			m.SetEdns0(4096, false)
		}
		if _, stream := w.RemoteAddr().(*net.TCPAddr); stream {
			size = dns.MaxMsgSize
		}
		m.Truncate(size)
		_ = w.WriteMsg(m)
	}
}

func TestHardCase29_B51_LongAnswersArriveByEDNSOrByTCP(t *testing.T) {
	site := newSite(t)
	up := site.host("10.9.0.1/24").upstream("10.9.0.1")
	s := site.host("10.9.0.20/24").serve(view("host-0", []string{"10.9.0.20"}, up))
	for _, tc := range []struct {
		bytes, edns int
		network     string
		truncated   bool
	}{
		{400, 0, "udp", false},
		{1000, 0, "udp", true},
		{1000, 0, "tcp", false},
		{1000, 1232, "udp", false},
		{1000, 4096, "udp", false},
		{3000, 1232, "udp", true},
		{3000, 4096, "udp", true}, // fragments get lost: 1232 bytes fit anywhere
		{3000, 4096, "tcp", false},
		{30000, 0, "tcp", false},
	} {
		name := fmt.Sprintf("t%d-%d-%s.example.org.", tc.bytes, tc.edns, tc.network)
		up.does(big(tc.bytes))
		q := new(dns.Msg)
		q.SetQuestion(name, dns.TypeTXT)
		if tc.edns > 0 {
			q.SetEdns0(uint16(tc.edns), false)
		}
		m, err := s.exchange(tc.network, own4, q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.Truncated != tc.truncated || !tc.truncated && len(m.Answer) != (tc.bytes+199)/200 {
			t.Errorf("%s: truncated is %v, %d answers", name, m.Truncated, len(m.Answer))
		}
	}
}

func TestHardCase34_WithoutAnAgentAndItsFilesEveryNameStillResolves(t *testing.T) {
	site := newSite(t)
	up := site.host("10.9.0.1/24").upstream("10.9.0.1")
	n := site.host("10.9.0.20/24")
	s := n.serve(view("host-0", []string{"10.9.0.20"}, up))
	n.write(coredns.ZonePath, "") // the disk is full, or the agent was killed at the worst time
	n.write(coredns.ConfigPath, "nonsense {")
	time.Sleep(time.Second)
	if err := s.signalReload(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	s.want(own4, "www.example.org.", dns.TypeA, "198.51.100.1")
	s.want(own4, "host-1.demo.example.com.", dns.TypeA, "10.9.0.21")
	s.lives()
}

func TestHardCase33_AHostThatBootsWithNothingButItsDiskServesTheCluster(t *testing.T) {
	n := newSite(t).host("10.9.0.20/24")
	v := view("host-0", []string{"10.9.0.20"})
	v.Upstreams = []netip.AddrPort{netip.MustParseAddrPort("10.9.0.1:53")} // nobody listens there
	n.config(v)
	start := time.Now()
	s := n.launch()
	s.until(10*time.Second, own4, "api-int.demo.example.com.", dns.TypeA, "10.9.0.5")
	t.Logf("answers %s after its start", time.Since(start))
	s.want(own4, "host-1.", dns.TypeA, "10.9.0.21")
}

// systemd-resolved, dnsmasq and podman answer on other addresses of a host.
func TestTheServerStartsBesideOthersThatHaveThePortOnOtherAddresses(t *testing.T) {
	n := newSite(t).host("10.9.0.20/24", "fd09::20/64")
	n.address("lo", "127.0.0.53/32")
	for _, at := range []string{"127.0.0.53:53", "127.0.0.1:53", "[::1]:53"} {
		n.must(func() error {
			conn, err := net.ListenPacket("udp", at)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = conn.Close() })
			l, err := net.Listen("tcp", at)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		})
	}
	s := n.serve(view("host-0", []string{"10.9.0.20", "fd09::20"}))
	s.want(own6, "api.demo.example.com.", dns.TypeAAAA, "fd09::5")
}
