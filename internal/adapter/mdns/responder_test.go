package mdns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/internal/decide/names"
)

var (
	start = time.Unix(1000, 0)
	asker = netip.MustParseAddrPort("192.0.2.99:5353")
	plain = netip.MustParseAddrPort("192.0.2.99:40000")
)

func responderOf(t *testing.T) *responder {
	t.Helper()
	a := names.Advert{Instance: "demo Workstation-host-0", Host: "host-0", Text: []string{"cluster=demo"}}
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.20"), netip.MustParseAddr("2001:db8::20")}
	onLink := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fe80::/64")}
	return newResponder(a, addrs, onLink, func(d time.Duration) time.Duration { return d / 2 }, start)
}

// quiet returns a responder that has made all its announcements.
func quiet(t *testing.T) (*responder, time.Time) {
	r := responderOf(t)
	now := start
	for r.announced < len(announcements) {
		now = r.next()
		r.tick(now)
	}
	return r, now.Add(time.Minute)
}

func query(name string, qtype uint16, known ...dns.RR) []byte {
	m := &dns.Msg{Question: []dns.Question{{Name: name, Qtype: qtype, Qclass: dns.ClassINET}}, Answer: known}
	return packed(m)
}

func packed(m *dns.Msg) []byte {
	data, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return data
}

// words returns a message's answers as text.
func words(m *dns.Msg) string {
	var out []string
	for _, rr := range m.Answer {
		h := *rr.Header()
		out = append(out, fmt.Sprintf("%s %d", dns.TypeToString[h.Rrtype], h.Ttl))
	}
	return strings.Join(out, ", ")
}

func TestAHostMakesItselfKnownFourTimesWithGrowingPauses(t *testing.T) {
	r := responderOf(t)
	var at []time.Duration
	for !r.next().IsZero() {
		now := r.next()
		out := r.tick(now)
		if len(out) != 1 || out[0].to.IsValid() || words(out[0].msg) != "PTR 120, SRV 120, TXT 120, A 120, AAAA 120" {
			t.Fatalf("%v", out)
		}
		at = append(at, now.Sub(start))
	}
	if fmt.Sprint(at) != "[0s 1s 3s 7s]" {
		t.Errorf("%v", at)
	}
}

func TestWhatOnlyOneHostCanSayReplacesWhatWasKnownAndAPointerDoesNot(t *testing.T) {
	for _, rr := range responderOf(t).all(ttl).Answer {
		if flushes := rr.Header().Class&flush != 0; flushes == (rr.Header().Rrtype == dns.TypePTR) {
			t.Errorf("%v: flushes is %v", rr, flushes)
		}
	}
}

func TestAGoodbyeTakesEverythingBack(t *testing.T) {
	if got := words(responderOf(t).all(0)); got != "PTR 0, SRV 0, TXT 0, A 0, AAAA 0" {
		t.Error(got)
	}
}

func TestAQuestionIsAnsweredToAllAndOnlyTheOneForManyAfterAPause(t *testing.T) {
	for name, pause := range map[string]time.Duration{
		Service + "/PTR":                               70 * time.Millisecond,
		"_WORKSTATION._tcp.Local./PTR":                 70 * time.Millisecond,
		enumeration + "/PTR":                           70 * time.Millisecond,
		"host-0.local./A":                              0,
		"HOST-0.local./AAAA":                           0,
		"host-0.local./ANY":                            0,
		`demo\ Workstation-host-0.` + Service + "/SRV": 0,
		`demo\ workstation-host-0.` + Service + "/TXT": 0,
		"host-1.local./A":                              -1,
		"host-0.local./TXT":                            -1,
		"host-0.example.org./A":                        -1,
		Service + "/SRV":                               -1,
		"x." + Service + "/SRV":                        -1,
	} {
		r, now := quiet(t)
		q, kind, _ := strings.Cut(name, "/")
		if out := r.hear(query(q, dns.StringToType[kind]), asker, now); len(out) != 0 {
			t.Errorf("%s: answered at once, to one: %v", name, out)
		}
		switch next := r.next(); {
		case pause < 0 && !next.IsZero():
			t.Errorf("%s is answered", name)
		case pause >= 0 && next.Sub(now) != pause:
			t.Errorf("%s is answered after %s, want %s", name, next.Sub(now), pause)
		case pause >= 0 && len(r.tick(next)) != 1:
			t.Errorf("%s: nothing was said when it was due", name)
		}
	}
}

func TestTheSameIsSaidOnceASecondAtMostAndNothingIsLost(t *testing.T) {
	r, now := quiet(t)
	said := 0
	var last time.Time
	for i := range 1000 { // 100 questions a second
		at := now.Add(time.Duration(i) * 10 * time.Millisecond)
		r.hear(query("host-0.local.", dns.TypeA), asker, at)
		if next := r.next(); !next.IsZero() && !next.After(at) && len(r.tick(at)) > 0 {
			if said++; !last.IsZero() && at.Sub(last) < time.Second {
				t.Fatalf("said again after %s", at.Sub(last))
			}
			last = at
		}
	}
	if said != 10 {
		t.Errorf("said %d times in 10 s", said)
	}
}

func TestHardCase35_OneOfTwoHundredIsSilentForAnAskerThatKnowsIt(t *testing.T) {
	r, now := quiet(t)
	known := r.pointer(ttl / 2)
	r.hear(query(Service, dns.TypePTR, known), asker, now)
	if !r.next().IsZero() {
		t.Error("what is known was to be told again")
	}
	old := r.pointer(ttl/2 - 1)
	r.hear(query(Service, dns.TypePTR, old), asker, now)
	if r.next().IsZero() {
		t.Error("what is soon forgotten was not to be told")
	}
}

func TestHardCase35_AnAskerThatKnowsManyIsHeardToTheEnd(t *testing.T) {
	r, now := quiet(t)
	first := &dns.Msg{MsgHdr: dns.MsgHdr{Truncated: true}, Question: []dns.Question{{Name: Service, Qtype: dns.TypePTR, Qclass: dns.ClassINET}}}
	r.hear(packed(first), asker, now)
	if wait := r.next().Sub(now); wait != moreComes {
		t.Errorf("waits for %s", wait)
	}
	r.hear(packed(&dns.Msg{Answer: []dns.RR{r.pointer(ttl)}}), asker, now.Add(10*time.Millisecond))
	if out := r.tick(r.next()); len(out) != 0 {
		t.Errorf("said what is known: %v", out)
	}
	r.hear(packed(first), asker, now.Add(time.Minute))
	if out := r.tick(r.next()); len(out) != 1 {
		t.Error("said nothing to one who does not know it")
	}
}

func TestAnOrdinaryClientIsAnsweredAloneAndForAShortTime(t *testing.T) {
	r, now := quiet(t)
	for name, want := range map[string]string{
		"host-0.local./A":    "A 10",
		Service + "/PTR":     "PTR 10",
		enumeration + "/PTR": "PTR 10",
		"host-0.local./ANY":  "A 10, AAAA 10",
		"host-1.local./A":    "",
	} {
		q, kind, _ := strings.Cut(name, "/")
		out := r.hear(query(q, dns.StringToType[kind]), plain, now)
		if want == "" {
			if len(out) != 0 {
				t.Errorf("%s: %v", name, out)
			}
			continue
		}
		if len(out) != 1 || out[0].to != plain || words(out[0].msg) != want || len(out[0].msg.Question) != 1 {
			t.Errorf("%s: %v", name, out)
		}
	}
	if !r.next().IsZero() {
		t.Error("all are told too")
	}
}

func TestWhoIsNotOnTheLinkIsNotAnswered(t *testing.T) {
	r, now := quiet(t)
	for _, from := range []string{"198.51.100.1:5353", "198.51.100.1:40000", "[2001:db8::1]:5353"} {
		if out := r.hear(query("host-0.local.", dns.TypeA), netip.MustParseAddrPort(from), now); len(out) > 0 || !r.next().IsZero() {
			t.Errorf("%s was answered", from)
		}
	}
	if r.hear(query("host-0.local.", dns.TypeA), netip.MustParseAddrPort("[fe80::9%eth0]:5353"), now); r.next().IsZero() {
		t.Error("a neighbour of the link was not answered")
	}
}

func TestAnAnswerThatRepeatsItsQuestionIsNotAnswered(t *testing.T) {
	r, now := quiet(t)
	data := query("host-0.local.", dns.TypeA)
	data[2] |= 0x80
	if out := r.hear(data, plain, now); len(out) > 0 || !r.next().IsZero() {
		t.Errorf("%v", out)
	}
}

func TestHardCase35_AClaimOfItsNamesDoesNotDriveAHostAway(t *testing.T) {
	r, now := quiet(t)
	before := words(r.all(ttl))
	thief := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true}, Answer: []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "host-0.local.", Rrtype: dns.TypeA, Class: dns.ClassINET | flush, Ttl: 120}, A: []byte{192, 0, 2, 66}}}}
	for range 50 {
		if out := r.hear(packed(thief), asker, now); len(out) > 0 {
			t.Errorf("%v", out)
		}
	}
	if words(r.all(ttl)) != before || r.host() != "host-0.local." {
		t.Errorf("%s is %s", r.host(), words(r.all(ttl)))
	}
}

func FuzzHear(f *testing.F) {
	f.Add(query(Service, dns.TypePTR), uint16(5353))
	f.Add(query("host-0.local.", dns.TypeANY), uint16(40000))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, from uint16) {
		r, now := quiet(t)
		for _, o := range r.hear(data, netip.AddrPortFrom(asker.Addr(), from), now) {
			if _, err := o.msg.Pack(); err != nil {
				t.Fatal(err)
			}
			if len(o.msg.Answer) == 0 && len(o.msg.Question) != 1 {
				t.Fatalf("%v", o.msg)
			}
		}
		if next := r.next(); !next.IsZero() && (next.Before(now) || next.Sub(now) > time.Second) {
			t.Fatalf("the next word is due at %s", next.Sub(now))
		}
	})
}
