package readdress

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Mapping says which address takes the place of which.
type Mapping map[netip.Addr]netip.Addr

// Map returns what becomes of the addresses of the other side of a plan at one side: host by
// host, virtual IP by virtual IP, each with the one of its own family. The journal is that of
// the host name: it has the addresses of that host which the plan does not list.
func Map(p Plan, to Side, name string, j Journal) Mapping {
	m := Mapping{}
	from, is := p.Place(to.Other()), p.Place(to)
	for host, was := range from.Hosts {
		m.pairs(was, is.Hosts[host])
	}
	m.pairs(p.Own(name, to.Other(), j), p.Own(name, to, j))
	m.pairs(parsed(from.APIVIPs), parsed(is.APIVIPs))
	m.pairs(parsed(from.IngressVIPs), parsed(is.IngressVIPs))
	return m
}

// Nodes returns the other nodes of the API with the addresses that they have at the place of this
// host, self. After a move the API has those of the former place until each kubelet runs, and a host
// that looks for its peers there hears nobody: it takes the virtual IPs beside one of them. On a host
// that never left the place of the announcement the API counts, and so it does for an address in a network
// of this place: where both places share one, that host may not have moved yet. There a node also has its
// address of the other place, on each host that has the plan: neither is right for all.
func Nodes(p Plan, j Journal, self string, listed []state.Node) []state.Node {
	left := !j.Over && (j.At == To || j.Moving != "" || len(j.Taken[To]) > 0)
	here := cmp.Or(j.Moving, j.At)
	nets, _ := p.Place(here).Networks() // a plan has been read with them
	away, _ := p.Place(here.Other()).Networks()
	vips := parsed(slices.Concat(p.From.APIVIPs, p.From.IngressVIPs, p.To.APIVIPs, p.To.IngressVIPs))
	out := slices.Clone(listed)
	for i, n := range listed {
		is, was := p.Place(here).Hosts[n.Name], p.Place(here.Other()).Hosts[n.Name]
		other := Mapping{}
		other.pairs(is, was)
		other.pairs(was, is)
		if n.Name == self || len(other) == 0 {
			continue
		}
		addresses, also := slices.Clone(n.Addresses), []netip.Addr(nil)
		for k, a := range n.Addresses {
			o, known := other[a]
			if known && left && slices.Contains(was, a) && !within(nets, a) {
				addresses[k] = o
			}
			if known && (within(nets, a) && within(away, a) || within(nets, o) && within(away, o)) {
				also = append(also, a, o)
			}
		}
		out[i].Addresses = addresses
		out[i].Also = slices.DeleteFunc(also, func(a netip.Addr) bool { return slices.Contains(addresses, a) || slices.Contains(vips, a) })
	}
	return out
}

func within(nets []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) })
}

// pairs maps each address to the one of its family.
func (m Mapping) pairs(from, to []netip.Addr) {
	for _, was := range from {
		i := slices.IndexFunc(to, func(a netip.Addr) bool { return a.Is4() == was.Is4() })
		if i >= 0 {
			m[was] = to[i]
		}
	}
}

func parsed(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// four and six match what may be an address of the family.
var (
	four = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+`)
	six  = regexp.MustCompile(`[0-9A-Fa-f:]*:[0-9A-Fa-f:]+`)
)

// Rewrite returns a text with each address replaced by the one that takes its place, all at
// once: hosts may swap their addresses. An address is replaced where it stands alone, also
// with a port or a prefix length behind it, or a name and a colon before it.
func (m Mapping) Rewrite(text []byte) []byte {
	// the families do not meet: no address is replaced twice
	out := replace(string(text), four, func(in string, from, to int) (int, string) {
		if from > 0 && (inName(in[from-1]) || in[from-1] == '.') || to < len(in) && inName(in[to]) || to+1 < len(in) && in[to] == '.' && inName(in[to+1]) {
			return 0, ""
		}
		return from, m.replaced(in[from:to])
	})
	return []byte(replace(out, six, func(in string, from, to int) (int, string) {
		if from > 0 && inName(in[from-1]) {
			from += strings.IndexByte(in[from:to], ':') + 1 // the end of a name, as in cp-1:fd98::11
		}
		if to < len(in) && inName(in[to]) {
			return 0, ""
		}
		return from, m.replaced(in[from:to])
	}))
}

// replace puts other words in the place of some. word returns where the word begins, and what
// takes its place, empty for nothing.
func replace(in string, what *regexp.Regexp, word func(in string, from, to int) (int, string)) string {
	var out strings.Builder
	last := 0
	for _, at := range what.FindAllStringIndex(in, -1) {
		if from, is := word(in, at[0], at[1]); is != "" {
			out.WriteString(in[last:from])
			out.WriteString(is)
			last = at[1]
		}
	}
	out.WriteString(in[last:])
	return out.String()
}

// inName reports whether a character can be in a name or a number.
func inName(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// replaced returns what takes the place of an address, empty for nothing.
func (m Mapping) replaced(word string) string {
	a, err := netip.ParseAddr(word)
	if is, ok := m[a]; err == nil && ok {
		return is.String()
	}
	return ""
}
