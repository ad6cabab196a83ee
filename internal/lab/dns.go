package lab

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// zone holds the records of the site's own name server: the few that an
// administrator makes for a cluster. The server answers nothing else.
type zone struct {
	names map[string][]netip.Addr
	// wildcards match any name below them.
	wildcards map[string][]netip.Addr
}

// newZone returns the records of a lab. On platform none they include api-int;
// on platform baremetal the hosts answer for that name themselves.
func newZone(l Layout) zone {
	domain := l.ClusterDomain() + "."
	z := zone{
		names:     map[string][]netip.Addr{"api." + domain: l.APIAddresses()},
		wildcards: map[string][]netip.Addr{"apps." + domain: l.IngressAddresses()},
	}
	if l.Spec.Platform == PlatformNone {
		z.names["api-int."+domain] = l.APIAddresses()
	}
	return z
}

// lookup returns the addresses of a name, and reports whether the name exists.
func (z zone) lookup(name string) ([]netip.Addr, bool) {
	name = strings.ToLower(name)
	if addrs, ok := z.names[name]; ok {
		return addrs, true
	}
	for suffix, addrs := range z.wildcards {
		if strings.HasSuffix(name, "."+suffix) {
			return addrs, true
		}
	}
	return nil, false
}

// zoneTTL is short, because a lab's addresses change with every lab, within
// seconds.
const zoneTTL = 5

// ServeDNS answers one query.
func (z zone) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	_ = w.WriteMsg(z.answer(query)) // if it is lost, the client asks again
}

func (z zone) answer(query *dns.Msg) *dns.Msg {
	reply := new(dns.Msg)
	reply.SetReply(query)
	reply.Authoritative = true
	if len(query.Question) != 1 {
		reply.Rcode = dns.RcodeFormatError
		return reply
	}
	q := query.Question[0]
	addrs, ok := z.lookup(q.Name)
	if !ok {
		reply.Rcode = dns.RcodeNameError
		return reply
	}
	for _, a := range addrs {
		if rr := record(q, a); rr != nil {
			reply.Answer = append(reply.Answer, rr)
		}
	}
	return reply
}

// record returns the address as an answer to the question, or nil if it is of
// the other family.
func record(q dns.Question, a netip.Addr) dns.RR {
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: zoneTTL}
	switch {
	case q.Qtype == dns.TypeA && a.Is4():
		return &dns.A{Hdr: header, A: a.AsSlice()}
	case q.Qtype == dns.TypeAAAA && a.Is6():
		return &dns.AAAA{Hdr: header, AAAA: a.AsSlice()}
	}
	return nil
}

// startDNS serves DNS on the gateways' addresses, over UDP and TCP.
func (d *daemon) startDNS(ctx context.Context) error {
	z := newZone(d.lab.Layout)
	ns := namespace(d.lab.Layout.Switch())
	var gateways []netip.Addr
	for _, n := range d.lab.Layout.machineNetworks() {
		gateways = append(gateways, n.Gateways...)
	}
	for _, gw := range gateways {
		at := net.JoinHostPort(gw.String(), "53")
		packets, err := ns.listenPacket(ctx, at)
		if err != nil {
			return err
		}
		streams, err := ns.listen(ctx, at)
		if err != nil {
			return errors.Join(err, packets.Close())
		}
		d.serveDNS(ctx, &dns.Server{PacketConn: packets, Handler: z})
		d.serveDNS(ctx, &dns.Server{Listener: streams, Handler: z})
	}
	return nil
}

func (d *daemon) serveDNS(ctx context.Context, s *dns.Server) {
	go func() {
		if err := s.ActivateAndServe(); err != nil && ctx.Err() == nil {
			d.log.Error("name server", "error", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = s.Shutdown() })
}
