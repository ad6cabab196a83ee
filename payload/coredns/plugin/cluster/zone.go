package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/miekg/dns"
)

// maxRecords bounds the memory that a damaged file can take: a cluster of 5000
// nodes has 20,000 records.
const maxRecords = 1 << 17

// zone is the content of one file. It never changes once it serves.
type zone struct {
	soa   *dns.SOA
	names map[string]*addresses
	// wildcards holds addresses by the name below which they match.
	wildcards map[string]*addresses
	// above holds the names of the zone that have no addresses but exist,
	// because names below them do.
	above map[string]bool
}

// addresses holds all addresses of one name.
type addresses struct {
	v4, v6 []net.IP
	ttl    uint32
	// wildcard is set if they belong to every name below one.
	wildcard bool
}

// empty is the zone of a server that has read no file yet.
var empty = &zone{soa: &dns.SOA{Hdr: dns.RR_Header{Name: "."}}}

var errIncomplete = errors.New("the file must begin and end with the same SOA record: it is incomplete")

// parseZone reads a zone. It refuses a file with anything unexpected as a
// whole, because half a zone would take names away.
func parseZone(file io.Reader, path string) (*zone, error) {
	z := &zone{names: map[string]*addresses{}, wildcards: map[string]*addresses{}, above: map[string]bool{}}
	parser := dns.NewZoneParser(file, ".", path)
	closed, n := false, 0
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		if n++; n > maxRecords {
			return nil, fmt.Errorf("more than %d records", maxRecords)
		}
		if closed {
			return nil, fmt.Errorf("record %q comes after the closing SOA record", rr.Header().Name)
		}
		var err error
		if closed, err = z.add(rr); err != nil {
			return nil, err
		}
	}
	if err := parser.Err(); err != nil {
		return nil, err
	}
	if !closed {
		return nil, errIncomplete
	}
	for name := range z.names {
		z.addAbove(name)
	}
	for name := range z.wildcards {
		z.addAbove("*." + name)
	}
	return z, nil
}

// addAbove notes the names above a name, up to the zone's own.
func (z *zone) addAbove(name string) {
	for off, end := dns.NextLabel(name, 0); !end; off, end = dns.NextLabel(name, off) {
		if above := name[off:]; z.holds(above) && z.names[above] == nil {
			z.above[above] = true
		}
	}
}

// holds reports whether a name is the zone's own or below it. The short names
// of nodes are not.
func (z *zone) holds(name string) bool { return dns.IsSubDomain(z.soa.Hdr.Name, name) }

// add takes one record, and reports whether it closes the zone.
func (z *zone) add(rr dns.RR) (closes bool, err error) {
	if soa, ok := rr.(*dns.SOA); ok && z.soa == nil {
		z.soa = soa
		return false, nil
	}
	if z.soa == nil {
		return false, errIncomplete
	}
	switch rr := rr.(type) {
	case *dns.SOA:
		if *rr != *z.soa {
			return false, errIncomplete
		}
		return true, nil
	case *dns.A:
		a := z.entry(rr.Hdr)
		a.v4 = append(a.v4, rr.A.To4())
	case *dns.AAAA:
		a := z.entry(rr.Hdr)
		a.v6 = append(a.v6, rr.AAAA.To16())
	default:
		return false, fmt.Errorf("%q has a record of type %s: only address records are allowed", rr.Header().Name, dns.TypeToString[rr.Header().Rrtype])
	}
	return false, nil
}

// entry returns the addresses to add to.
func (z *zone) entry(h dns.RR_Header) *addresses {
	name, of := strings.ToLower(h.Name), z.names
	if below, ok := strings.CutPrefix(name, "*."); ok {
		name, of = below, z.wildcards
	}
	a := of[name]
	if a == nil {
		a = &addresses{ttl: h.Ttl, wildcard: name != strings.ToLower(h.Name)}
		of[name] = a
	}
	return a
}

// lookup finds a name, in lower case and with its final dot, and reports
// whether it exists. found is nil if it exists only because names below it do.
// A wildcard matches at any depth below its name, not the name itself.
func (z *zone) lookup(name string) (found *addresses, exists bool) {
	if a, ok := z.names[name]; ok {
		return a, true
	}
	if z.above[name] {
		return nil, true
	}
	if len(z.wildcards) == 0 {
		return nil, false
	}
	for off, end := dns.NextLabel(name, 0); !end; off, end = dns.NextLabel(name, off) {
		if a, ok := z.wildcards[name[off:]]; ok {
			return a, true
		}
	}
	return nil, false
}

// whole reports whether the file says everything about a type: it has all
// addresses, and the name of a host is nobody's zone. Below a wildcard a site
// may have a zone.
func (a *addresses) whole(qtype uint16) bool {
	switch qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypeANY:
		return true
	case dns.TypeNS, dns.TypeSOA, dns.TypeDS:
		return !a.wildcard
	}
	return false
}

// answer returns the records of a name for a question's type.
func (a *addresses) answer(name string, qtype uint16) []dns.RR {
	switch qtype {
	case dns.TypeA:
		return records(name, a.ttl, a.v4)
	case dns.TypeAAAA:
		return records(name, a.ttl, a.v6)
	case dns.TypeANY:
		return append(records(name, a.ttl, a.v4), records(name, a.ttl, a.v6)...)
	}
	return nil
}

// records makes address records, each of the type of its address.
func records(name string, ttl uint32, ips []net.IP) []dns.RR {
	out := make([]dns.RR, len(ips))
	for i, ip := range ips {
		if len(ip) == net.IPv4len {
			out[i] = &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}, A: ip}
		} else {
			out[i] = &dns.AAAA{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeAAAA, Class: dns.ClassINET, Ttl: ttl}, AAAA: ip}
		}
	}
	return out
}

// authority returns the SOA record for an empty answer, which tells a resolver
// how long to remember that answer. For a name outside of the zone, such as a
// node's short name, the record has that name.
func (z *zone) authority(name string) dns.RR {
	soa := *z.soa
	if !z.holds(name) {
		soa.Hdr.Name = name
	}
	soa.Hdr.Ttl = min(soa.Hdr.Ttl, soa.Minttl)
	return &soa
}
