package ports

import (
	"net/netip"
	"strings"
)

// UFW reads `ufw status verbose`. active is false where it does nothing. A port
// that is open from some networks only counts as open: the site chose them.
func UFW(text string, at Place) (out Openings, active bool) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		key, rest, _ := strings.Cut(line, ":")
		switch to, from, rule := strings.Cut(line, "ALLOW IN"); {
		case rule:
			out.ufw(strings.Fields(strings.ReplaceAll(to, "(v6)", "")), strings.Fields(from), at)
		case key == "Status":
			active = strings.TrimSpace(rest) == "active"
		case key == "Default":
			out.All = out.All || strings.Contains(rest, "allow (incoming)")
		}
	}
	return out, active
}

// ufw takes in a rule: where packets go, as a port or "Anywhere", and where they
// come from. An address may stand before the port, an interface behind "on".
func (o *Openings) ufw(to, from []string, at Place) {
	for i, w := range to {
		if w == "on" {
			o.Unsure = true // the interface may be that of pods
			to = to[:i]
			if i > 0 && to[i-1] == "Anywhere" {
				return
			}
			break
		}
	}
	if len(to) == 0 || len(from) == 0 {
		return
	}
	number, protocol, _ := strings.Cut(to[len(to)-1], "/")
	source, only, _ := strings.Cut(from[0], "/vrrp")
	switch {
	case source != from[0] && only == "", protocol == string(VRRP):
		o.Protocols = append(o.Protocols, string(VRRP))
	case number != "Anywhere":
		for n := range strings.SplitSeq(number, ",") {
			if protocol != "" {
				n += "/" + protocol
			}
			o.ports([]string{n})
		}
	case protocol != "" || strings.HasSuffix(source, "/tcp") || strings.HasSuffix(source, "/udp"):
		o.Unsure = true // everything of one protocol
	case source == "Anywhere":
		o.All = true
	default:
		o.from(source, at)
	}
}

// UFWRules are the commands that have ufw let in what a host needs.
func UFWRules(k Kind, pods []netip.Prefix) []string {
	var out []string
	for _, p := range needed(k) {
		for _, protocol := range p.Protocols {
			if protocol == VRRP {
				out = append(out, "ufw allow in proto vrrp from MACHINE-NETWORK")
				continue
			}
			out = append(out, "ufw allow in "+p.number(":")+"/"+string(protocol))
		}
	}
	for _, n := range pods {
		out = append(out, "ufw allow in from "+n.String(), "ufw route allow from "+n.String(), "ufw route allow to "+n.String())
	}
	return append(out, "ufw reload")
}
