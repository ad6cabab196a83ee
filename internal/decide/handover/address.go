package handover

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Address is what is said of a host's address.
type Address struct {
	Node string
	// Said are the addresses that its node says, the one of the primary family
	// first. Kubelet writes them, and whoever else may write the status of nodes.
	Said []string
	// Known is what the hosts themselves know: Corosync's, by which etcd goes too.
	Known string
	// Settled is whether they were set up: from then on nothing else counts.
	Settled bool
}

// Is is the address, empty while it is not known; awaited is why it is not, and
// moved what a person has to hear: two hosts that were set up keep their
// addresses, so an address that a node says later is none. What Jobs do with a
// false one is to send the hosts' secret there.
func (a Address) Is() (address, awaited, moved string) {
	switch {
	case !a.Settled && len(a.Said) == 0:
		return "", "node " + a.Node + " has no internal address", ""
	case !a.Settled:
		return a.Said[0], "", ""
	case a.Known == "":
		return "", "the hosts have not said in PacemakerCluster yet by which address Corosync knows " + a.Node, ""
	}
	for _, said := range a.Said {
		if equal(said, a.Known) {
			return said, "", ""
		}
	}
	said := cmp.Or(strings.Join(a.Said, " and "), "unknown")
	return a.Known, "", fmt.Sprintf("node %s says that its address is %s, and Corosync and etcd know its host by %s: "+
		"nothing is changed for that, since two hosts that were set up keep their addresses. Give the host its address back; "+
		"if it has it, somebody else writes the status of this node", a.Node, said, a.Known)
}

// equal is whether two texts are one address.
func equal(a, b string) bool {
	x, err := netip.ParseAddr(a)
	if err != nil {
		return false
	}
	y, err := netip.ParseAddr(b)
	return err == nil && x.Unmap() == y.Unmap()
}
