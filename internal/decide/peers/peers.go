// Package peers decides which hosts of a site are peers: the nodes that the API
// lists, and control planes of the site that it does not list any more. Nodes
// and their labels are objects that a person or a controller may delete; the
// host behind one runs on, holds virtual IPs and serves the API.
package peers

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Site describes the site as configured, whatever the API says.
type Site struct {
	// ControlPlanes is the number of its control planes, 0 if unknown.
	ControlPlanes int
	// MastersSchedulable is true if control planes are workers too.
	MastersSchedulable bool
}

// Merge returns the nodes of a site, ordered by name: those that the API lists,
// and the known control planes that it does not list. known holds the nodes of
// an earlier Merge.
//
// Only a label, which takes an administrator, makes a host a control plane. If
// the label is lost, the host stays one, at its known address: a Node that is
// made anew only repeats what a kubelet says, and without the label it has
// proven nothing. It stops being one if its kubelet says that it was installed
// as a worker.
//
// A control plane whose Node is gone stays, too, until the site has all its
// control planes without it, or another node has its address.
func Merge(known, listed []state.Node, site Site) []state.Node {
	before := map[string]state.Node{}
	for _, n := range known {
		before[n.Name] = n
	}
	var out []state.Node
	masters := 0
	for _, n := range listed {
		n = one(n, before[n.Name], site)
		if controlPlane(n) {
			masters++
		}
		out = append(out, n)
	}
	if site.ControlPlanes == 0 || masters < site.ControlPlanes {
		for _, n := range known {
			if controlPlane(n) && !replaced(n, out) {
				n.Absent, n.Ready = true, false
				out = append(out, n)
			}
		}
	}
	slices.SortStableFunc(out, state.CompareNodes)
	return out
}

// one returns a listed node with the labels and facts that its Node has lost.
func one(n, before state.Node, site Site) state.Node {
	labelled := controlPlane(n)
	kept := !labelled && controlPlane(before) && n.Labels[noderole.Claim] != string(state.RoleWorker)
	if len(n.Addresses) == 0 || kept && len(before.Addresses) > 0 {
		n.Addresses = before.Addresses // a new Node has none for its first seconds
	}
	keepReport(&n, before)
	n.Lost = noderole.Missing(n.Labels, site.MastersSchedulable, labelled || kept)
	if len(n.Lost) > 0 {
		n.Labels = maps.Clone(n.Labels)
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		for _, l := range n.Lost {
			n.Labels[l] = ""
		}
	}
	return n
}

// keepReport keeps what a host reported about itself if its Node lacks it now,
// until the host reports again. For a VIP in another network than the nodes'
// addresses, that report decides who is a peer.
func keepReport(n *state.Node, before state.Node) {
	text := before.Annotations[state.AnnotationVIPs]
	if n.Annotations[state.AnnotationVIPs] != "" || text == "" {
		return
	}
	n.Annotations = maps.Clone(n.Annotations)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[state.AnnotationVIPs] = text
	n.Kept = []string{state.AnnotationVIPs}
}

// replaced reports whether a node is listed, or another node has one of its
// addresses now.
func replaced(n state.Node, listed []state.Node) bool {
	return slices.ContainsFunc(listed, func(o state.Node) bool {
		return o.Name == n.Name || slices.ContainsFunc(o.Addresses, func(a netip.Addr) bool { return slices.Contains(n.Addresses, a) })
	})
}

// controlPlane reads both labels: kubeadm sets one, the specifications' tools
// select by the other, and a kubelet may set neither.
func controlPlane(n state.Node) bool {
	_, master := n.Labels[state.LabelMaster]
	return master || n.ControlPlane()
}
