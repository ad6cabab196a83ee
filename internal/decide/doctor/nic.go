package doctor

import (
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// NICs describes how the kernel treats the interfaces that lead out of a host.
type NICs struct {
	// Uplinks lists those interfaces, by name.
	Uplinks []string `json:"uplinks"`
	// LooseARP is true if an interface answers for the address of another, or
	// asks in its name.
	LooseARP bool `json:"looseARP,omitempty"`
	// Deaf lists the interfaces that no longer accept router advertisements,
	// because the host forwards packets.
	Deaf []string `json:"deaf,omitempty"`
}

var nicChecks = []Check{
	{
		ID: "nic-arp", Title: "each interface answers for its own addresses", For: Everywhere, judge: judgeARP,
		Meaning: "By default Linux answers ARP for an address of one NIC on any other. With two NICs in one network, as on a single switch, a peer may learn the wrong one for the address of a node: adverts then arrive where keepalived does not listen, and two hosts hold one virtual IP. The agent sets both sysctls at its start and whenever they are changed back.",
		Lines: []string{
			"sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2     # on that host, now",
			"grep -rn arp_ /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d                   # what changes them back",
			"journalctl -u holdfast-agent | grep links:                                    # why the agent did not",
		},
	},
	{
		ID: "nic-router-advertisements", Title: "router advertisements are accepted", For: Everywhere, judge: judgeRA,
		Meaning: "A host with pods forwards packets, and Linux treats a forwarding host as a router, which ignores router advertisements. If the kernel itself handles them, the host loses its IPv6 default route and addresses when the present ones expire. The agent sets the kernel to accept them nevertheless; if NetworkManager or systemd-networkd handles them, nothing has to be done.",
		Lines: []string{
			"sysctl -w net.ipv6.conf.NIC.accept_ra=2               # on that host, for each NIC that is named",
			"journalctl -u holdfast-agent | grep links:            # why the agent did not",
		},
	},
}

func nics(h Host) state.Fact[NICs] { return h.NICs }

func judgeARP(s *sheet) {
	eachHost(s, "ARP of interfaces", nics, func(h Host, n NICs) {
		switch {
		case !n.LooseARP:
		case len(n.Uplinks) > 1:
			s.say(finding.Warning, h.Name, "%s answer ARP for each other's addresses", strings.Join(n.Uplinks, ", "))
		default:
			s.say(finding.Note, h.Name, "an interface would answer ARP for the address of another; it has only one, %s", strings.Join(n.Uplinks, ""))
		}
	})
}

func judgeRA(s *sheet) {
	eachHost(s, "router advertisements", nics, func(h Host, n NICs) {
		if len(n.Deaf) > 0 {
			s.say(finding.Warning, h.Name, "router advertisements on %s are ignored, because the host forwards packets", strings.Join(n.Deaf, ", "))
		}
	})
}
