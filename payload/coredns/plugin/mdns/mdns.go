// Package mdns is a CoreDNS plugin that answers for the hosts that announce
// themselves on the local network by multicast DNS (RFC 6762, 6763).
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

// The times to live of answers, in seconds. Clients need not remember an answer
// for long, because they can ask here again.
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

// config is the configuration from a Corefile.
type config struct {
	// zone is the domain in which hosts appear, with its final dot.
	zone string
	// bind holds the own addresses on whose interfaces the browser listens.
	bind []netip.Addr
	// filter is the group that a service instance must belong to, empty for
	// any.
	filter string
	// except lists names of the zone that no neighbour may take.
	except []string
	// services holds further service types, each with the number of hosts from
	// which on it is answered.
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

// hosts reports whether a question is about a neighbour, whatever its type.
func (m *MDNS) hosts(state request.Request) bool {
	name, ok := strings.CutSuffix(state.Name(), "."+m.conf.zone)
	if !ok || state.QClass() != dns.ClassINET {
		return false
	}
	_, known := m.browser.known.Load().addresses(name, "", dns.TypeNone, m.now())
	return known
}

// answer returns the records for a question, and reports whether the question
// is for this plugin.
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

// authority returns the SOA record of an empty answer.
func (m *MDNS) authority() dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: m.conf.zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: negativeTTL},
		Ns:  "mdns." + m.conf.zone, Mbox: "hostmaster." + m.conf.zone,
		Refresh: 60, Retry: 60, Expire: 3600, Minttl: negativeTTL,
	}
}

// neighbours are the neighbours to serve at one time. They never change.
type neighbours map[string][]entry

// addresses returns the address records of a host, and reports whether the host
// is known at all, if only by the other family.
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
