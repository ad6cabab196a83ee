package mdns

import (
	"context"
	"fmt"
	golog "log"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
)

var (
	start  = time.Unix(1000, 0)
	onLink = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64"), netip.MustParsePrefix("fe80::/64")}
)

// neighbour describes the announcements of a publisher.
type neighbour struct {
	host, cluster string
	addrs         []string
	ttl           uint32
}

func (n neighbour) records() []dns.RR {
	instance := escape(n.cluster+" Workstation-"+n.host) + "._workstation._tcp.local."
	out := []dns.RR{
		rr("_workstation._tcp.local. %d IN PTR %s", n.ttl, instance),
		rr("%s %d IN SRV 0 0 42424 %s.local.", instance, n.ttl, n.host),
		rr("%s %d IN TXT cluster=%s", instance, n.ttl, n.cluster),
	}
	for _, a := range n.addrs {
		kind := "A"
		if strings.Contains(a, ":") {
			kind = "AAAA"
		}
		out = append(out, rr("%s.local. %d IN %s %s", n.host, n.ttl, kind, a))
	}
	for _, r := range out[1:] {
		r.Header().Class |= 1 << 15 // as they are on the wire
	}
	return out
}

func rr(format string, args ...any) dns.RR {
	r, err := dns.NewRR(fmt.Sprintf(format, args...))
	if err != nil {
		panic(err)
	}
	return r
}

func from(addr string, records ...dns.RR) packet {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Answer: records, Compress: true}
	data, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return packet{data, netip.AddrPortFrom(netip.MustParseAddr(addr), port), 255}
}

// rig is a plugin without a network.
type rig struct {
	*MDNS
	t     *testing.T
	clock time.Time
	asked []string
}

func newRig(t *testing.T, change ...func(*config)) *rig {
	conf := config{zone: "demo.example.org.", filter: "demo", except: []string{"api", "api-int"}, services: map[string]int{}}
	for _, c := range change {
		c(&conf)
	}
	r := &rig{t: t, clock: start}
	r.MDNS = &MDNS{
		Next: test.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, q *dns.Msg) (int, error) {
			m := new(dns.Msg)
			return dns.RcodeNameError, w.WriteMsg(m.SetRcode(q, dns.RcodeNameError))
		}),
		conf: conf, browser: newBrowser(conf), now: func() time.Time { return r.clock },
	}
	return r
}

// hear takes packets in, and reports whether any changed anything.
func (r *rig) hear(packets ...packet) bool {
	did := false
	for _, p := range packets {
		did = r.browser.take(heard{p, &link{networks: onLink}}, r.clock) || did
	}
	r.browser.publish()
	for host := range r.browser.asked {
		r.asked = append(r.asked, host)
	}
	return did
}

func (r *rig) pass(d time.Duration) {
	r.clock = r.clock.Add(d)
	r.browser.forget(r.clock)
}

// ask returns the addresses in the answer, or its code if it has none.
func (r *rig) ask(name string, qtype uint16) string {
	r.t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name, qtype)
	rec := dnstest.NewRecorder(&test.ResponseWriter{})
	if _, err := r.ServeDNS(r.t.Context(), rec, q); err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, rr := range rec.Msg.Answer {
		out = append(out, strings.Join(strings.Fields(rr.String())[4:], " "))
	}
	if len(out) == 0 {
		return dns.RcodeToString[rec.Msg.Rcode]
	}
	return strings.Join(out, ", ")
}

func (r *rig) want(name string, qtype uint16, want string) {
	r.t.Helper()
	if got := r.ask(name, qtype); got != want {
		r.t.Errorf("%s %s: %s, want %s", name, dns.TypeToString[qtype], got, want)
	}
}

func host(n int) neighbour {
	return neighbour{fmt.Sprintf("host-%d", n), "demo", []string{fmt.Sprintf("192.0.2.%d", 20+n), fmt.Sprintf("2001:db8::%d", 20+n)}, 120}
}

// says returns the packets of a neighbour, one of each family.
func (n neighbour) says() []packet {
	var out []packet
	for _, a := range n.addrs {
		out = append(out, from(a, n.records()...))
	}
	return out
}

func TestANeighbourIsKnownByTheNameThatItSays(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
	r.want("host-0.demo.example.org.", dns.TypeAAAA, "2001:db8::20")
	r.want("HOST-0.Demo.example.ORG.", dns.TypeA, "192.0.2.20")
}

func TestWhatIsNotANeighboursAddressIsPassedOn(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	for _, name := range []string{"host-1.demo.example.org.", "host-0.example.org.", "host-0.", "x.host-0.demo.example.org.", "demo.example.org.", "host-0.demo.example.org.x."} {
		r.want(name, dns.TypeA, "NXDOMAIN")
	}
	r.want("_workstation._tcp.demo.example.org.", dns.TypeSRV, "NXDOMAIN")
}

// A resolver that gets a denial for one type believes it of the addresses, too.
func TestNobodyElseDeniesTheNameOfANeighbour(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	r.want("host-0.demo.example.org.", dns.TypeTXT, "NOERROR")
	r.want("host-0.demo.example.org.", dns.TypeSRV, "NOERROR")
	r.want("host-1.demo.example.org.", dns.TypeTXT, "NXDOMAIN")
	r.pass(120 * time.Second)
	r.want("host-0.demo.example.org.", dns.TypeTXT, "NXDOMAIN")
}

func TestHardCase30_B49_ANeighbourOfOneFamilyHasAnEmptyAnswerForTheOther(t *testing.T) {
	r := newRig(t)
	only := neighbour{"host-0", "demo", []string{"192.0.2.20"}, 120}
	r.hear(only.says()...)
	r.want("host-0.demo.example.org.", dns.TypeAAAA, "NOERROR")
	q := new(dns.Msg)
	q.SetQuestion("host-0.demo.example.org.", dns.TypeAAAA)
	rec := dnstest.NewRecorder(&test.ResponseWriter{})
	if _, err := r.ServeDNS(t.Context(), rec, q); err != nil || len(rec.Msg.Ns) != 1 || rec.Msg.Ns[0].Header().Rrtype != dns.TypeSOA {
		t.Errorf("%v %v", rec.Msg, err)
	}
}

func TestHardCase35_ANeighbourThatSaysNoMoreIsForgotten(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	r.pass(119 * time.Second)
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
	r.clock = start.Add(120 * time.Second) // before expired entries are removed
	r.want("host-0.demo.example.org.", dns.TypeA, "NXDOMAIN")
	r.pass(0)
	if len(r.browser.cache.entries) > 0 {
		t.Errorf("%+v", r.browser.cache.entries)
	}
}

func TestHardCase35_B73_AGoodbyeIsHeardAtOnce(t *testing.T) {
	r := newRig(t)
	r.hear(append(host(0).says(), host(1).says()...)...)
	bye := host(0)
	bye.ttl = 0
	r.hear(bye.says()...)
	r.want("host-0.demo.example.org.", dns.TypeA, "NXDOMAIN")
	r.want("host-1.demo.example.org.", dns.TypeA, "192.0.2.21")
}

func TestHardCase35_AGoodbyeOfThePointerAloneIsOneToo(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	bye := host(0)
	bye.ttl = 0
	r.hear(from("192.0.2.20", bye.records()[0]))
	r.want("host-0.demo.example.org.", dns.TypeA, "NOERROR") // its other address stays
	r.hear(from("2001:db8::20", bye.records()[0]))
	r.want("host-0.demo.example.org.", dns.TypeA, "NXDOMAIN")
}

// B73: answers come from a value that nobody changes, whatever packets arrive.
func TestB73_AQuestionIsAnsweredWhilePacketsAreTakenIn(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			n := host(1 + i%200)
			r.browser.take(heard{n.says()[0], &link{networks: onLink}}, start)
			r.browser.publish()
		}
	}()
	for {
		r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestHardCase35_SpoofedAndForeignPacketsChangeNothing(t *testing.T) {
	good := host(1)
	for why, p := range map[string]packet{
		"from another network":    from("198.51.100.7", good.records()...),
		"from another v6 network": from("2001:db9::7", good.records()...),
		"for itself from another": from("198.51.100.7", neighbour{"host-7", "demo", []string{"198.51.100.7"}, 120}.records()...),
		"through a router":        hop(from("192.0.2.21", good.records()...), 254),
		"hops unknown":            hop(from("192.0.2.21", good.records()...), 0),
		"from another port":       byPort(from("192.0.2.21", good.records()...), 53),
		"of another cluster":      from("192.0.2.21", neighbour{"host-1", "other", []string{"192.0.2.21"}, 120}.records()...),
		"for another's address":   from("192.0.2.66", good.records()...),
		"for an address outside":  from("192.0.2.66", neighbour{"host-1", "demo", []string{"203.0.113.9"}, 120}.records()...),
		"a question":              question(from("192.0.2.21", good.records()...)),
		"without an address":      from("192.0.2.21", good.records()[:3]...),
		"without a service":       from("192.0.2.21", good.records()[3:]...),
		"a name of the VIPs":      from("192.0.2.66", neighbour{"api-int", "demo", []string{"192.0.2.66"}, 120}.records()...),
		"a name with a dot":       from("192.0.2.66", neighbour{`x.apps`, "demo", []string{"192.0.2.66"}, 120}.records()...),
		"an escaped dot":          from("192.0.2.66", neighbour{`x\.apps`, "demo", []string{"192.0.2.66"}, 120}.records()...),
		"nothing":                 {nil, netip.MustParseAddrPort("192.0.2.21:5353"), 255},
		"noise":                   {[]byte(strings.Repeat("\xc0\x0c", 400)), netip.MustParseAddrPort("192.0.2.21:5353"), 255},
		"too much":                {make([]byte, 9001), netip.MustParseAddrPort("192.0.2.21:5353"), 255},
		"another service":         from("192.0.2.21", other(good.records(), "_http._tcp")...),
	} {
		r := newRig(t)
		r.hear(host(0).says()...)
		before := fmt.Sprint(r.browser.cache.known())
		if r.hear(p) || fmt.Sprint(r.browser.cache.known()) != before {
			t.Errorf("%s: %v became %v", why, before, r.browser.cache.known())
		}
	}
}

func hop(p packet, n int) packet { p.hops = n; return p }

func byPort(p packet, n uint16) packet {
	p.from = netip.AddrPortFrom(p.from.Addr(), n)
	return p
}

func question(p packet) packet {
	p.data = slices.Clone(p.data)
	p.data[2] &^= 0x80
	return p
}

func other(records []dns.RR, service string) []dns.RR {
	for _, r := range records {
		r.Header().Name = strings.Replace(r.Header().Name, workstation, service, 1)
	}
	return records
}

func TestHardCase35_NobodyTakesTheNameOfANeighbourThatIsStillThere(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	thief := neighbour{"host-0", "demo", []string{"192.0.2.66"}, 120}
	for range 20 {
		r.hear(thief.says()...)
		r.pass(time.Second)
		r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
		r.hear(host(0).says()...) // it is asked, and answers
	}
	if len(r.asked) == 0 {
		t.Error("nobody was asked")
	}
	thief.ttl = 0
	r.hear(thief.says()...)
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
}

func TestHardCase35_AnAddressThatNobodyAnswersForIsGivenUpForTheNewOne(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	moved := neighbour{"host-0", "demo", []string{"192.0.2.99", "2001:db8::20"}, 120}
	for _, at := range []time.Duration{0, time.Second, 2 * time.Second} { // times of the announcements
		r.pass(at)
		r.hear(moved.says()...)
	}
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.99")
	r.want("host-0.demo.example.org.", dns.TypeAAAA, "2001:db8::20")
}

func TestAnAddressToldAloneKeepsANeighbourKnown(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	r.pass(100 * time.Second)
	r.hear(from("192.0.2.20", host(0).records()[3]))
	r.pass(100 * time.Second)
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
	r.want("host-0.demo.example.org.", dns.TypeAAAA, "NOERROR")
}

func TestTheOneWhoHasANameHasTimeToSaySo(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	thief := neighbour{"host-0", "demo", []string{"192.0.2.66"}, 120}
	r.hear(thief.says()...)
	r.pass(challengeTime - time.Millisecond)
	r.hear(thief.says()...)
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
	r.pass(time.Millisecond)
	r.hear(thief.says()...)
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.66")
}

func TestAThiefFillsNoLog(t *testing.T) {
	var lines strings.Builder
	golog.SetOutput(&lines)
	defer golog.SetOutput(os.Stderr)
	r := newRig(t)
	r.hear(host(0).says()...)
	thief := neighbour{"host-0", "demo", []string{"192.0.2.66"}, 120}
	for range 100 {
		r.hear(thief.says()...)
	}
	if n := strings.Count(lines.String(), "192.0.2.66 claims the name host-0"); n != 1 {
		t.Errorf("a hundred claims within a second are told %d times", n)
	}
}

func TestHardCase35_AGoodbyeOfThePointerCountsWhateverStandsBesideIt(t *testing.T) {
	for _, gone := range []int{0, 1, 3} { // the pointer, the service, the address
		r := newRig(t)
		r.hear(host(0).says()[0])
		bye := host(0).records()
		bye[gone].Header().Ttl = 0
		r.hear(from("192.0.2.20", bye...))
		r.want("host-0.demo.example.org.", dns.TypeA, "NXDOMAIN")
	}
}

// A label is cut to 63 bytes and then lacks a part of the cluster's name; the
// text has the whole name.
func TestHardCase35_AnInstanceWhoseLabelWasShortenedIsKnownByItsText(t *testing.T) {
	r := newRig(t, func(c *config) { c.filter = "a-cluster-with-a-rather-long-name" })
	records := host(0).records()
	instance := "a-cluster-with-0123456789abcdef0123456789abcdefkstation-host-0x._workstation._tcp.local."
	records[0].(*dns.PTR).Ptr = instance
	records[1].Header().Name, records[2].Header().Name = instance, instance
	if r.hear(from("192.0.2.20", records...)) {
		t.Error("an instance of another text was taken")
	}
	records[2].(*dns.TXT).Txt = []string{"cluster=a-cluster-with-a-rather-long-name"}
	r.hear(from("192.0.2.20", records...))
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
}

func TestAServiceIsAnsweredForOnceEnoughHostsHaveIt(t *testing.T) {
	r := newRig(t, func(c *config) { c.services["_etcd-server-ssl._tcp"] = 3 })
	for i := range 3 {
		r.want("_etcd-server-ssl._tcp.demo.example.org.", dns.TypeSRV, "NXDOMAIN")
		n := host(i)
		r.hear(from(n.addrs[0], other(n.records(), "_etcd-server-ssl._tcp")...))
		r.hear(from(n.addrs[1], other(n.records(), "_etcd-server-ssl._tcp")...))
	}
	r.want("_etcd-server-ssl._tcp.demo.example.org.", dns.TypeSRV,
		"0 10 42424 host-0.demo.example.org., 0 10 42424 host-1.demo.example.org., 0 10 42424 host-2.demo.example.org.")
	r.want("host-2.demo.example.org.", dns.TypeA, "192.0.2.22")
	r.pass(121 * time.Second)
	r.want("_etcd-server-ssl._tcp.demo.example.org.", dns.TypeSRV, "NXDOMAIN")
}

func TestHardCase35_AFloodKeepsNobodyOutWhoIsKnownAndFillsNoMemory(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	for i := range 20 { // one address, many names
		r.hear(from("192.0.2.66", neighbour{fmt.Sprintf("x%d", i), "demo", []string{"192.0.2.66"}, 120}.records()...))
	}
	if n := r.browser.cache.of(netip.MustParseAddr("192.0.2.66")); n > maxEntriesPerAddr {
		t.Errorf("%d entries of one address", n)
	}
	for i := range maxEntries + 100 {
		a := fmt.Sprintf("2001:db8::1:%x", i)
		r.browser.take(heard{from(a, neighbour{fmt.Sprintf("y%d", i), "demo", []string{a}, 120}.records()...), &link{networks: onLink}}, r.clock)
	}
	r.browser.publish()
	if n := len(r.browser.cache.entries); n > maxEntries {
		t.Errorf("%d entries", n)
	}
	r.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
}

func TestHardCase35_TwoHundredNeighboursAreKnownAndAskedForInPacketsThatFit(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		r.hear(host(i).says()...)
	}
	if n := len(*r.browser.known.Load()); n != 200 {
		t.Fatalf("%d are known", n)
	}
	known := 0
	messages := questions(workstation, r.browser.cache.fresh(workstation, r.clock))
	for i, m := range messages {
		data, err := m.Pack()
		if err != nil || len(data) > 1400 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		if last := i == len(messages)-1; m.Truncated == last || (len(m.Question) == 1) != (i == 0) {
			t.Errorf("packet %d of %d: %v", i, len(messages), m)
		}
		known += len(m.Answer)
	}
	if known != 400 { // one of each family
		t.Errorf("%d answers are told", known)
	}
	if r.pass(61 * time.Second); len(r.browser.cache.fresh(workstation, r.clock)) != 0 {
		t.Error("an answer that is soon forgotten is told as known")
	}
}

func TestAReloadForgetsNobody(t *testing.T) {
	r := newRig(t)
	r.hear(host(0).says()...)
	next := newRig(t)
	next.browser.follow(r.browser)
	next.want("host-0.demo.example.org.", dns.TypeA, "192.0.2.20")
	elsewhere := newRig(t, func(c *config) { c.filter = "other" })
	elsewhere.browser.follow(r.browser)
	elsewhere.want("host-0.demo.example.org.", dns.TypeA, "NXDOMAIN")
}

func TestOnlyTheInterfacesOfTheOwnAddressesAreListenedTo(t *testing.T) {
	have := []netip.Prefix{netip.MustParsePrefix("192.0.2.20/24"), netip.MustParsePrefix("192.0.2.5/32"), netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("2001:db8::20/64")}
	for own, want := range map[string]string{
		"192.0.2.20":   "[192.0.2.0/24 192.0.2.5/32]",
		"2001:db8::20": "[fe80::/64 2001:db8::/64]",
		"192.0.2.21":   "[]",
	} {
		if got := fmt.Sprint(around(netip.MustParseAddr(own), have)); got != want {
			t.Errorf("B71 %s: %s, want %s", own, got, want)
		}
	}
}

// One request to the kernel gives what package net returns.
func TestTheKernelsAddressesAreAllThere(t *testing.T) {
	have, err := addresses()
	if err != nil {
		t.Fatal(err)
	}
	nics, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, nic := range nics {
		want, err := nic.Addrs()
		if err != nil {
			continue // it disappeared meanwhile
		}
		for _, a := range want {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !slices.Contains(have[nic.Index], p) {
				t.Errorf("%s is missing on %s: %v", p, nic.Name, have[nic.Index])
			}
		}
	}
}

func BenchmarkAddresses(b *testing.B) {
	for b.Loop() {
		if _, err := addresses(); err != nil {
			b.Fatal(err)
		}
	}
}

// B12 for names: an address from DHCPv6 has a prefix of 128 bits.
func TestANeighbourWithAnAddressOfDHCPv6IsOnTheLink(t *testing.T) {
	own := netip.MustParsePrefix("2001:db8::20/128")
	networks := around(own.Addr(), []netip.Prefix{own, netip.MustParsePrefix("fe80::1/64")})
	if got := fmt.Sprint(networks); got != "[2001:db8::/64 fe80::/64]" {
		t.Error(got)
	}
	if got := linkOf(netip.MustParsePrefix("192.0.2.5/32")).String(); got != "192.0.2.5/32" {
		t.Error(got)
	}
}

func FuzzPacket(f *testing.F) {
	for _, p := range append(host(0).says(), from("192.0.2.20", host(0).records()[3]), question(host(0).says()[0])) {
		f.Add(p.data, uint32(0xc0000214))
	}
	bye := host(0)
	bye.ttl = 0
	f.Add(bye.says()[0].data, uint32(0xc0000214))
	f.Add([]byte{}, uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, source uint32) {
		r := newRig(t, func(c *config) { c.services["_etcd-server-ssl._tcp"] = 1 })
		r.hear(host(1).says()...)
		at := netip.AddrFrom4([4]byte{byte(source >> 24), byte(source >> 16), byte(source >> 8), byte(source)})
		r.hear(packet{data, netip.AddrPortFrom(at, port), 255})
		for name, entries := range *r.browser.known.Load() {
			for _, e := range entries {
				if e.addr.Is4() && e.addr != at && e.addr.String() != "192.0.2.21" {
					t.Fatalf("a packet from %s says that %s is at %s", at, name, e.addr)
				}
				if !contains(onLink, e.addr) || strings.Contains(name, ".") || name == "api" {
					t.Fatalf("%s is known at %s", name, e.addr)
				}
			}
			r.ask(name+".demo.example.org.", dns.TypeA)
		}
		if at.String() != "192.0.2.21" {
			r.want("host-1.demo.example.org.", dns.TypeA, "192.0.2.21")
		}
		for _, m := range questions(workstation, r.browser.cache.fresh(workstation, r.clock)) {
			if _, err := m.Pack(); err != nil {
				t.Fatalf("%v cannot be asked for: %v", m.Answer, err)
			}
		}
	})
}
