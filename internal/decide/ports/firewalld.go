package ports

import (
	"net/netip"
	"slices"
	"strings"
)

// FirewalldZones reads the output of `firewall-cmd --list-all-zones` and returns
// what is let in at an interface of a host. An interface without a zone belongs
// to the default zone, which is marked as such.
func FirewalldZones(text string, at Place) Openings {
	var out Openings
	zones := blocks(text)
	own := slices.IndexFunc(zones, func(z block) bool { return slices.Contains(z.words("interfaces"), at.Interface) })
	if own < 0 {
		own = slices.IndexFunc(zones, func(z block) bool { return strings.Contains(z.name, "default") })
	}
	if own >= 0 {
		out = zones[own].openings()
	}
	for _, z := range zones {
		for _, from := range z.words("sources") {
			if z.accepts() {
				out.from(from, at)
			}
		}
	}
	return out
}

// FirewalldService reads `firewall-cmd --info-service=NAME`.
func FirewalldService(text string) Openings {
	var out Openings
	for _, b := range blocks(text) {
		out.Add(b.openings())
	}
	return out
}

// block is a part of firewall-cmd's output: a name, below it lines such as "
// ports: 22/tcp 80/tcp", and lines that continue the one before.
type block struct {
	name  string
	lines map[string]string
}

func blocks(text string) []block {
	var out []block
	key := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n\r")
		switch {
		case line == "":
		case !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t"):
			out = append(out, block{line, map[string]string{}})
		case len(out) == 0:
		case strings.HasPrefix(line, "\t"):
			out[len(out)-1].lines[key] += " " + strings.TrimSpace(line)
		default:
			name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
			key = name
			out[len(out)-1].lines[key] = strings.TrimSpace(rest)
		}
	}
	return out
}

func (b block) words(key string) []string { return strings.Fields(b.lines[key]) }

func (b block) accepts() bool { return b.lines["target"] == "ACCEPT" }

func (b block) openings() Openings {
	out := Openings{
		All: b.accepts(), Protocols: b.words("protocols"), Services: slices.Concat(b.words("services"), b.words("includes")),
		Unsure: strings.Contains(b.lines["rich rules"], "accept"),
	}
	out.ports(b.words("ports"))
	return out
}

// Firewalld returns the commands that make firewalld let in what a host needs.
// Pods are let in as a whole: our own table keeps them from ports that are
// closed to them.
func Firewalld(k Kind, pods []netip.Prefix) []string {
	out := []string{"firewall-cmd --permanent --new-service=holdfast"}
	for _, p := range needed(k) {
		for _, protocol := range p.Protocols {
			option := "--add-port=" + p.words(protocol)
			if protocol == VRRP {
				option = "--add-protocol=vrrp"
			}
			out = append(out, "firewall-cmd --permanent --service=holdfast "+option)
		}
	}
	out = append(out, "firewall-cmd --permanent --add-service=holdfast")
	for _, n := range pods {
		out = append(out, "firewall-cmd --permanent --zone=trusted --add-source="+n.String())
	}
	return append(out, "firewall-cmd --reload")
}
