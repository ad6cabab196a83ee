package handover

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Address holds what is known of a host's address.
type Address struct {
	Node string
	// Said are the addresses that its node reports, the one of the primary family
	// first. Kubelet writes them, and so may anybody else who may write the status
	// of nodes.
	Said []string
	// Known is the address that the hosts themselves use: Corosync's, which etcd
	// uses too.
	Known string
	// Settled is true once the hosts were set up: from then on only Known counts.
	Settled bool
}

// Is returns the address, empty while it is unknown. awaited says why it is
// unknown. moved is what an administrator must be told: two hosts that were set up
// keep their addresses, so another address that a node reports later is wrong. A
// Job with a false address would send the hosts' secret there.
func (a Address) Is() (address, awaited, moved string) {
	switch {
	case !a.Settled && len(a.Said) == 0:
		return "", "node " + a.Node + " has no internal address", ""
	case !a.Settled:
		return a.Said[0], "", ""
	case a.Known == "":
		return "", "PacemakerCluster does not yet show the Corosync address of " + a.Node, ""
	}
	for _, said := range a.Said {
		if equal(said, a.Known) {
			return said, "", ""
		}
	}
	said := cmp.Or(strings.Join(a.Said, " and "), "unknown")
	return a.Known, "", fmt.Sprintf("node %s reports the address %s, but Corosync and etcd know its host by %s: "+
		"nothing was changed, since two hosts that were set up keep their addresses. Give the host its address back; "+
		"if it has that address, something other than its kubelet writes the status of this node", a.Node, said, a.Known)
}

// equal reports whether two texts are the same address.
func equal(a, b string) bool {
	x, err := netip.ParseAddr(a)
	if err != nil {
		return false
	}
	y, _ := netip.ParseAddr(b) // the zero address, which x is not, where b is none
	return x.Unmap() == y.Unmap()
}
