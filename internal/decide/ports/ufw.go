package ports

import (
	"net/netip"
	"strings"
)

// UFW reads the output of `ufw status verbose`. active is false if ufw is off. A
// port that is open only from some networks counts as open: the site chose them.
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

// ufw records a rule: to is the destination, a port or "Anywhere", and from is
// the source. An address may precede the port, and an interface may follow after
// "on".
func (o *Openings) ufw(to, from []string, at Place) {
	for i, w := range to {
		if w == "on" {
			o.Unsure = true // it may be the interface of pods
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

// UFWRules returns the commands that make ufw let in what a host needs.
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
