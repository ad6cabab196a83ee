package mdns

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/internal/decide/names"
)

// The names of service discovery (RFC 6763), and the advertised service.
const (
	Service     = "_workstation._tcp.local."
	enumeration = "_services._dns-sd._udp.local."
	// servicePort is the port of every workstation: nobody connects to it.
	servicePort = 42424
	// ttl is the time in seconds for which others may keep a record after its last
	// announcement. legacyTTL is the same for askers that do not get later changes.
	ttl       = 120
	legacyTTL = 10
)

// flush tells others to forget their older knowledge of a record.
const flush = 1 << 15

// The times of a responder (RFC 6762, 6 and 8.3).
const (
	// sharedDelay and sharedSpread let many hosts answer one question, but not
	// all at once; moreComes is the wait for the rest of what the asker already
	// knows.
	sharedDelay  = 20 * time.Millisecond
	sharedSpread = 100 * time.Millisecond
	moreComes    = 450 * time.Millisecond
	// leastPause is the shortest time between two multicasts of the same
	// records.
	leastPause = time.Second
)

// announcements are the pauses before the announcements on a link. A host that
// takes over another's name is found by it after the third: receivers ask the
// other host first.
var announcements = []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second}

// outgoing is a message to send: to one address, or to all on the link.
type outgoing struct {
	msg *dns.Msg
	to  netip.AddrPort
}

// responder decides what is sent on one link, and when. It never changes its
// names: a neighbour that claims them must not drive the host away.
type responder struct {
	advert names.Advert
	// addrs are those addresses of the advert that the link's interface has.
	addrs []netip.Addr
	// onLink are the networks from which questions are answered.
	onLink []netip.Prefix
	// spread returns a random part of a pause.
	spread func(time.Duration) time.Duration
	// due is the time of the next multicast, zero for none. asked holds those
	// who wait for it; a question that already contains the answer removes its
	// sender.
	due   time.Time
	asked map[netip.AddrPort]bool
	last  time.Time
	// announced counts the announcements; nextWord is the time of the next.
	announced int
	nextWord  time.Time
}

func newResponder(a names.Advert, addrs []netip.Addr, onLink []netip.Prefix, spread func(time.Duration) time.Duration, now time.Time) *responder {
	return &responder{advert: a, addrs: addrs, onLink: onLink, spread: spread, asked: map[netip.AddrPort]bool{}, nextWord: now}
}

// next returns the time at which tick has something to do, zero for never.
func (r *responder) next() time.Time {
	switch {
	case r.nextWord.IsZero():
		return r.due
	case r.due.IsZero() || r.nextWord.Before(r.due):
		return r.nextWord
	}
	return r.due
}

// tick returns the multicast that is due, if any.
func (r *responder) tick(now time.Time) []outgoing {
	say := false
	if !r.nextWord.IsZero() && !now.Before(r.nextWord) {
		say = true
		r.nextWord = time.Time{}
		if r.announced++; r.announced < len(announcements) {
			r.nextWord = now.Add(announcements[r.announced])
		}
	}
	if !r.due.IsZero() && !now.Before(r.due) {
		say = say || len(r.asked) > 0
		r.due = time.Time{}
	}
	if !say {
		return nil
	}
	clear(r.asked)
	r.last, r.due = now, time.Time{}
	return []outgoing{{msg: r.all(ttl)}}
}

// hear takes a packet, and returns the answers that are sent at once.
func (r *responder) hear(data []byte, from netip.AddrPort, now time.Time) []outgoing {
	var m dns.Msg
	source := from.Addr().Unmap().WithZone("")
	near := slices.ContainsFunc(r.onLink, func(p netip.Prefix) bool { return p.Contains(source) })
	if !near || len(data) > maxMessage || m.Unpack(data) != nil || m.Response || m.Opcode != dns.OpcodeQuery {
		return nil
	}
	if r.knows(m.Answer) {
		delete(r.asked, from)
		return nil
	}
	var legacy []outgoing
	for _, q := range m.Question {
		shared, ok := r.matches(q)
		switch {
		case !ok:
		case from.Port() != port:
			legacy = append(legacy, outgoing{r.legacy(&m, q), from})
		default:
			r.schedule(from, now, shared, m.Truncated)
		}
	}
	return legacy
}

// schedule sets the time at which all get the answer to one asker's question.
func (r *responder) schedule(from netip.AddrPort, now time.Time, shared, truncated bool) {
	at := now
	switch {
	case truncated:
		at = now.Add(moreComes)
	case shared:
		at = now.Add(sharedDelay + r.spread(sharedSpread))
	}
	if soonest := r.last.Add(leastPause); at.Before(soonest) {
		at = soonest
	}
	r.asked[from] = true
	if r.due.IsZero() || at.Before(r.due) && !truncated {
		r.due = at
	}
}

// matches reports whether a question is for this host, and whether other hosts
// answer it too.
func (r *responder) matches(q dns.Question) (shared, ok bool) {
	if q.Qclass&^flush != dns.ClassINET && q.Qclass&^flush != dns.ClassANY {
		return false, false
	}
	of := func(types ...uint16) bool { return q.Qtype == dns.TypeANY || slices.Contains(types, q.Qtype) }
	switch strings.ToLower(q.Name) {
	case Service, enumeration:
		return true, of(dns.TypePTR)
	case strings.ToLower(r.instance()):
		return false, of(dns.TypeSRV, dns.TypeTXT)
	case r.host():
		return false, of(dns.TypeA, dns.TypeAAAA)
	}
	return false, false
}

// knows reports whether the answers that an asker already has contain this
// host's, at least for half of its lifetime.
func (r *responder) knows(answers []dns.RR) bool {
	return slices.ContainsFunc(answers, func(rr dns.RR) bool {
		ptr, ok := rr.(*dns.PTR)
		return ok && strings.EqualFold(ptr.Hdr.Name, Service) && strings.EqualFold(ptr.Ptr, r.instance()) && ptr.Hdr.Ttl >= ttl/2
	})
}

func (r *responder) host() string     { return r.advert.Host + ".local." }
func (r *responder) instance() string { return escape(r.advert.Instance) + "." + Service }

// escape writes a label's bytes in the form in which the library expects names.
func escape(label string) string {
	return strings.NewReplacer(`\`, `\\`, ".", `\.`, " ", `\ `, `"`, `\"`, "(", `\(`, ")", `\)`, ";", `\;`, "@", `\@`, "$", `\$`).Replace(label)
}

// all returns all records; a lifetime of zero seconds withdraws them.
func (r *responder) all(seconds uint32) *dns.Msg {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true}
	m.Answer = append([]dns.RR{r.pointer(seconds)}, r.own(seconds, dns.ClassINET|flush)...)
	return m
}

func (r *responder) pointer(seconds uint32) dns.RR {
	return &dns.PTR{Hdr: dns.RR_Header{Name: Service, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: seconds}, Ptr: r.instance()}
}

// own returns the records that no other host has.
func (r *responder) own(seconds uint32, class uint16) []dns.RR {
	header := func(name string, kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: class, Ttl: seconds}
	}
	out := []dns.RR{
		&dns.SRV{Hdr: header(r.instance(), dns.TypeSRV), Port: servicePort, Target: r.host()},
		&dns.TXT{Hdr: header(r.instance(), dns.TypeTXT), Txt: r.advert.Text},
	}
	for _, a := range r.addrs {
		if a.Is4() {
			out = append(out, &dns.A{Hdr: header(r.host(), dns.TypeA), A: a.AsSlice()})
		} else {
			out = append(out, &dns.AAAA{Hdr: header(r.host(), dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	return out
}

// legacy answers an asker that speaks only ordinary DNS: it repeats the
// question, and puts the answers to it before all other records.
func (r *responder) legacy(query *dns.Msg, q dns.Question) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(query)
	m.Question, m.Authoritative, m.Compress = []dns.Question{q}, true, true
	records := append([]dns.RR{r.pointer(legacyTTL)}, r.own(legacyTTL, dns.ClassINET)...)
	if strings.EqualFold(q.Name, enumeration) {
		records = []dns.RR{&dns.PTR{Hdr: dns.RR_Header{Name: enumeration, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: legacyTTL}, Ptr: Service}}
	}
	for _, rr := range records {
		h := rr.Header()
		if strings.EqualFold(h.Name, q.Name) && (q.Qtype == dns.TypeANY || q.Qtype == h.Rrtype) {
			m.Answer = append(m.Answer, rr)
		} else {
			m.Extra = append(m.Extra, rr)
		}
	}
	return m
}
