package mdns

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// packet is one message as it was received from the network.
type packet struct {
	data []byte
	from netip.AddrPort
	// hops is the packet's time to live; 255 has crossed no router.
	hops int
}

// The rules of RFC 6762 for a packet.
const (
	port        = 5353
	fullHops    = 255
	maxMessage  = 9000
	workstation = "_workstation._tcp"
	local       = ".local."
)

var errIgnored = errors.New("ignored")

// claim is one neighbour's announcement about itself: a service at the address
// from which it was sent, and its lifetime. A ttl of zero takes it back.
type claim struct {
	service, instance, host string
	port                    uint16
	addr                    netip.Addr
	ttl                     time.Duration
	// text holds the strings that go with the service.
	text []string
}

// longestTTL bounds the time for which a silent neighbour is believed.
const longestTTL = time.Hour

// read returns the claims in a packet. It believes a neighbour only on its own
// link, and only about the address that it sends from, so that nobody can
// direct clients to another host.
func read(p packet, onLink []netip.Prefix) ([]claim, error) {
	from := p.from.Addr().Unmap().WithZone("")
	if p.hops != fullHops || p.from.Port() != port || len(p.data) > maxMessage || !contains(onLink, from) {
		return nil, errIgnored
	}
	var m dns.Msg
	if err := m.Unpack(p.data); err != nil {
		return nil, err
	}
	if !m.Response || m.Opcode != dns.OpcodeQuery || m.Rcode != dns.RcodeSuccess {
		return nil, errIgnored
	}
	return claims(append(m.Answer, m.Extra...), from), nil
}

func contains(networks []netip.Prefix, a netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// claims combines the records of one packet.
func claims(records []dns.RR, from netip.Addr) []claim {
	var out []claim
	gone, texts, ttl := map[string]bool{}, map[string][]string{}, map[string]uint32{}
	for _, rr := range records {
		switch rr := rr.(type) {
		case *dns.PTR:
			gone[strings.ToLower(rr.Ptr)] = rr.Hdr.Ttl == 0
		case *dns.TXT:
			texts[strings.ToLower(rr.Hdr.Name)] = rr.Txt
		case *dns.A:
			note(ttl, rr.Hdr, rr.A, from)
		case *dns.AAAA:
			note(ttl, rr.Hdr, rr.AAAA, from)
		}
	}
	hosts := map[string]bool{}
	for _, rr := range records {
		srv, ok := rr.(*dns.SRV)
		if !ok {
			continue
		}
		if c, ok := service(srv); ok {
			name := strings.ToLower(srv.Hdr.Name)
			seconds, spoken := ttl[c.host]
			if c.ttl == 0 || gone[name] {
				seconds, spoken = 0, true // a goodbye need not hold the address
			}
			c.addr, c.text, c.ttl = from, texts[name], lifetime(min(seconds, srv.Hdr.Ttl))
			hosts[c.host] = true
			if spoken {
				out = append(out, c)
			}
			delete(gone, name)
		}
	}
	return append(out, withoutService(gone, hosts, ttl, from)...)
}

// withoutService returns the claims of packets that hold only a part: an
// instance that is taken back, or a host whose address is renewed or taken
// back.
func withoutService(gone, hosts map[string]bool, ttl map[string]uint32, from netip.Addr) []claim {
	var out []claim
	for name, is := range gone {
		if instance, service, ok := split(name); ok && is {
			out = append(out, claim{service: service, instance: instance, addr: from})
		}
	}
	for host, seconds := range ttl {
		if !hosts[host] {
			out = append(out, claim{host: host, addr: from, ttl: lifetime(seconds)})
		}
	}
	return out
}

func lifetime(seconds uint32) time.Duration {
	return min(time.Duration(seconds)*time.Second, longestTTL)
}

// note stores the time to live of a host's address if the packet came from that
// address.
func note(ttl map[string]uint32, h dns.RR_Header, ip []byte, from netip.Addr) {
	a, ok := netip.AddrFromSlice(ip)
	if host, is := hostLabel(h.Name); is && ok && a.Unmap() == from {
		ttl[host] = h.Ttl
	}
}

// service parses an SRV record.
func service(srv *dns.SRV) (claim, bool) {
	instance, service, ok := split(strings.ToLower(srv.Hdr.Name))
	host, is := hostLabel(srv.Target)
	return claim{service: service, instance: instance, host: host, port: srv.Port, ttl: lifetime(srv.Hdr.Ttl)}, ok && is
}

// split splits instance._service._proto.local., in lower case.
func split(name string) (instance, service string, ok bool) {
	rest, ok := strings.CutSuffix(name, local)
	if !ok {
		return "", "", false
	}
	labels := dns.SplitDomainName(rest + ".")
	if len(labels) != 3 {
		return "", "", false
	}
	return unescape(labels[0]), labels[1] + "." + labels[2], true
}

// hostLabel returns the only label of host.local., in lower case.
func hostLabel(name string) (string, bool) {
	host, ok := strings.CutSuffix(strings.ToLower(name), local)
	return host, ok && host != "" && !strings.ContainsAny(host, `.\`)
}

// unescape undoes the form in which the library shows the bytes of a label.
func unescape(label string) string {
	if !strings.Contains(label, `\`) {
		return label
	}
	var out strings.Builder
	for i := 0; i < len(label); i++ {
		if label[i] != '\\' || i+1 == len(label) {
			out.WriteByte(label[i])
			continue
		}
		if n, ok := decimal(label[i+1:]); ok {
			out.WriteByte(n)
			i += 3
			continue
		}
		i++
		out.WriteByte(label[i])
	}
	return out.String()
}

// decimal reads the three digits of an escaped byte.
func decimal(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s[:3]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return byte(n), n < 256
}
