package doctor

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ringChecks are about the network between two hosts.
var ringChecks = []Check{
	{
		ID: "ring-links", Title: "Corosync has more than one link to the peer", For: TwoFencing, judge: judgeLinks,
		Meaning: "With one link, one failed cable or port makes the hosts lose each other: a healthy host is then fenced. With a second link over another switch, or at least a bond, it takes two failures.",
		Lines: []string{
			"corosync-cfgtool -s                                     # the links and their state",
			"vi /etc/corosync/corosync.conf                          # the same on both hosts: a ring1_addr in another network for each node",
			"corosync-cfgtool -R                                     # on one, once both have it",
		},
	},
	{
		ID: "ring-crypto", Title: "Corosync's packets are encrypted and signed", For: TwoFencing, judge: judgeCrypto,
		Meaning: "Corosync decides which host is lost, and a lost host is fenced. Without a cipher and a hash, anyone on the hosts' network can forge a membership and have a healthy host switched off.",
		Lines: []string{
			"pcs cluster stop --force                                # on both hosts, one after the other: nothing runs until both are back",
			"vi /etc/corosync/corosync.conf                          # in its section totem: crypto_cipher: aes256, crypto_hash: sha256",
			"pcs cluster start                                       # on both hosts",
		},
	},
	{
		ID: "ring-mtu", Title: "both ends of the ring have the same MTU", For: TwoFencing, judge: judgeMTU,
		Meaning: "If one end sends packets that are too large for the other, only small ones pass: Corosync sees its peer, but etcd, whose packets are large, hangs. That looks like a slow disk.",
		Lines: []string{
			"ip link show INTERFACE                             # on each host",
			"ping -M do -s $((MTU - 28)) ADDRESS-OF-THE-PEER    # every hop has to accept it",
		},
	},
}

func judgeLinks(s *sheet) {
	eachHost(s, "Corosync's links", rings, func(h Host, list []Ring) {
		switch {
		case len(list) == 0:
			s.say(finding.Warning, h.Name, "Corosync's configuration has no address of this host")
		case len(list) == 1 && list[0].Bond > 1:
			s.say(finding.Note, h.Name, "Corosync has one link, over a bond of %d interfaces (%s)", list[0].Bond, list[0].Interface)
		case len(list) == 1:
			s.say(finding.Warning, h.Name, "Corosync has only one link, %s", over(list[0]))
		case sameWay(list):
			s.say(finding.Warning, h.Name, "all %d links of Corosync go over %s", len(list), list[0].Interface)
		default:
			s.say(finding.OK, h.Name, "%d links", len(list))
		}
	})
}

func rings(h Host) state.Fact[[]Ring] { return h.Rings }

func over(r Ring) string {
	if r.Interface == "" {
		return "at " + r.Address
	}
	return "over " + r.Interface + " (" + r.Address + ")"
}

// sameWay reports whether all links go over one interface that is not a bond.
func sameWay(list []Ring) bool {
	for _, r := range list {
		if r.Interface == "" || r.Interface != list[0].Interface || r.Bond > 1 {
			return false
		}
	}
	return true
}

func judgeCrypto(s *sheet) {
	eachHost(s, "Corosync's encryption", func(h Host) state.Fact[string] { return h.RingLacks }, func(h Host, lacks string) {
		if lacks != "" {
			s.say(finding.Critical, h.Name, "corosync.conf sets no %s", lacks)
		}
	})
}

func judgeMTU(s *sheet) {
	ends := map[int][]string{} // by link: the MTU of each host
	first := map[int]int{}
	differ := map[int]bool{}
	eachHost(s, "MTU of the ring", rings, func(h Host, list []Ring) {
		for i, r := range list {
			if r.MTU == 0 {
				s.notSeen("MTU of %s on %s", r.Address, h.Name)
				continue
			}
			if m, ok := first[i]; ok && m != r.MTU {
				differ[i] = true
			}
			first[i] = r.MTU
			ends[i] = append(ends[i], sprintf("%s has %d on %s", h.Name, r.MTU, r.Interface))
		}
	})
	for _, i := range slices.Sorted(maps.Keys(ends)) {
		severity := finding.OK
		if differ[i] {
			severity = finding.Warning
		}
		s.say(severity, "", "link %d: %s", i, strings.Join(ends[i], ", "))
	}
}

// contains reports whether an address is in a subnet.
func contains(subnet, address string) bool {
	p, err := netip.ParsePrefix(subnet)
	a, err2 := netip.ParseAddr(address)
	return err == nil && err2 == nil && p.Contains(a)
}

// anyOf reports whether two lists of addresses have one in common.
func anyOf(got, want []string) bool {
	return slices.ContainsFunc(want, func(w string) bool { return slices.Contains(got, w) })
}
