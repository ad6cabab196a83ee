package ports

import (
	"fmt"
	"net/netip"
	"strings"
)

// Page returns the table as docs/ports.md shows it.
func Page() string {
	var b strings.Builder
	b.WriteString("| port | listener | on | from | what the listener checks | why |\n|---|---|---|---|---|---|\n")
	for _, p := range table {
		_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", p.title(), p.name(), p.On, p.From, p.Proof, p.Why)
	}
	return b.String()
}

// title returns the port in the form for people: 53/tcp, udp.
func (p Port) title() string {
	if p.has(VRRP) {
		return "VRRP (112)"
	}
	var protocols []string
	for _, x := range p.Protocols {
		protocols = append(protocols, string(x))
	}
	return p.number("–") + "/" + strings.Join(protocols, ", ")
}

func (p Port) name() string {
	if p.For == "" {
		return p.Who
	}
	return p.Who + ": " + p.For
}

// kinds lists the hosts for which the runbook has commands.
var kinds = []struct {
	title string
	Kind
}{
	{"A control plane, one of two", Kind{ControlPlane: true, Fencing: true, Flannel: true}},
	{"Another control plane", Kind{ControlPlane: true, Flannel: true}},
	{"A worker", Kind{Flannel: true}},
}

// Commands returns the commands of docs/runbook/firewall.md.
func Commands(pods []netip.Prefix) string {
	var b strings.Builder
	for _, k := range kinds {
		_, _ = fmt.Fprintf(&b, "### %s\n\n```\n%s\n```\n\n```\n%s\n```\n\n", k.title,
			strings.Join(Firewalld(k.Kind, pods), "\n"), strings.Join(UFWRules(k.Kind, pods), "\n"))
	}
	return b.String()
}
