// Package mdns is a CoreDNS plugin that answers for the hosts that make
// themselves known on the local network by multicast DNS (RFC 6762, 6763).
package mdns

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/payload/coredns/plugin/exists"
)

// The times to live of answers, in seconds: what is known is known here, so
// clients need not remember it for long.
const (
	answerTTL   = 5
	negativeTTL = 1
)

// MDNS answers for the neighbours that its browser has found.
type MDNS struct {
	Next    plugin.Handler
	conf    config
	browser *browser
	now     func() time.Time
}

// config is what a Corefile says.
type config struct {
	// zone is the domain in which hosts appear, with its final dot.
	zone string
	// bind are the own addresses on whose interfaces neighbours are listened to.
	bind []netip.Addr
	// filter is what a service instance has to be of, empty for any.
	filter string
	// except are names of the zone that no neighbour may take.
	except []string
	// services are further service types, and the number of hosts from which on
	// each is answered for.
	services map[string]int
}

// Name implements plugin.Handler.
func (m *MDNS) Name() string { return "mdns" }

// ServeDNS implements plugin.Handler.
func (m *MDNS) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	answer, known := m.answer(state)
	if !known && m.hosts(state) {
		return exists.Ask(ctx, m.Name(), m.Next, w, r, m.authority())
	}
	if !known {
		return plugin.NextOrFailure(m.Name(), m.Next, ctx, w, r)
	}
	reply := exists.Empty(r, m.authority())
	if reply.Answer = answer; len(answer) > 0 {
		reply.Ns = nil
	}
	if err := w.WriteMsg(reply); err != nil {
		return dns.RcodeServerFailure, plugin.Error(m.Name(), err)
	}
	return dns.RcodeSuccess, nil
}

// hosts reports whether a question is about a neighbour, whatever it asks.
func (m *MDNS) hosts(state request.Request) bool {
	name, ok := strings.CutSuffix(state.Name(), "."+m.conf.zone)
	if !ok || state.QClass() != dns.ClassINET {
		return false
	}
	_, known := m.browser.known.Load().addresses(name, "", dns.TypeNone, m.now())
	return known
}

// answer returns the records for a question, and whether it is one for here.
func (m *MDNS) answer(state request.Request) ([]dns.RR, bool) {
	name, ok := strings.CutSuffix(state.Name(), "."+m.conf.zone)
	if !ok || state.QClass() != dns.ClassINET {
		return nil, false
	}
	neighbours := m.browser.known.Load()
	switch state.QType() {
	case dns.TypeA, dns.TypeAAAA:
		return neighbours.addresses(name, state.QName(), state.QType(), m.now())
	case dns.TypeSRV:
		least, ok := m.conf.services[name]
		if !ok {
			return nil, false
		}
		srv := neighbours.servers(name, state.QName(), m.conf.zone, m.now())
		return srv, len(srv) >= least && len(srv) > 0
	}
	return nil, false
}

// authority goes with an empty answer.
func (m *MDNS) authority() dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: m.conf.zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: negativeTTL},
		Ns:  "mdns." + m.conf.zone, Mbox: "hostmaster." + m.conf.zone,
		Refresh: 60, Retry: 60, Expire: 3600, Minttl: negativeTTL,
	}
}

// neighbours are what serves at one time. They are never changed.
type neighbours map[string][]entry

// addresses returns the address records of a host, and whether it is known at
// all: one of the other family is.
func (n neighbours) addresses(host, name string, qtype uint16, now time.Time) (answer []dns.RR, known bool) {
	var seen []netip.Addr
	for _, e := range n[host] {
		if !now.Before(e.expires) || slices.Contains(seen, e.addr) {
			continue
		}
		known = true
		seen = append(seen, e.addr)
		if rr := address(name, e.addr); rr.Header().Rrtype == qtype {
			answer = append(answer, rr)
		}
	}
	return answer, known
}

func address(name string, a netip.Addr) dns.RR {
	h := dns.RR_Header{Name: name, Class: dns.ClassINET, Ttl: answerTTL}
	if a.Is4() {
		h.Rrtype = dns.TypeA
		return &dns.A{Hdr: h, A: a.AsSlice()}
	}
	h.Rrtype = dns.TypeAAAA
	return &dns.AAAA{Hdr: h, AAAA: a.AsSlice()}
}

// servers returns one SRV record for each host that has a service.
func (n neighbours) servers(service, name, zone string, now time.Time) []dns.RR {
	var out []dns.RR
	for host, entries := range n {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.service == service && now.Before(e.expires) })
		if i < 0 {
			continue
		}
		out = append(out, &dns.SRV{
			Hdr:    dns.RR_Header{Name: name, Rrtype: dns.TypeSRV, Class: dns.ClassINET},
			Weight: 10, Port: entries[i].port, Target: host + "." + zone,
		})
	}
	slices.SortFunc(out, func(a, b dns.RR) int { return strings.Compare(a.String(), b.String()) })
	return out
}
