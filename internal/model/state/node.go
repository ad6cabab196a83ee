package state

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Role labels of nodes; their value is empty.
const (
	LabelControlPlane = "node-role.kubernetes.io/control-plane"
	LabelMaster       = "node-role.kubernetes.io/master"
	LabelWorker       = "node-role.kubernetes.io/worker"
)

// LabelMade tells when the first Node of a host was made, on a Node that was made anew for
// the same host. An administrator sets it: the API lets no kubelet set a label of this domain
// (admission plug-in NodeRestriction).
const LabelMade = "holdfast.node-restriction.kubernetes.io/made"

// MadeAt returns the value of LabelMade.
func MadeAt(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// Node is a node of the cluster as the API has it.
type Node struct {
	Name   string
	Labels map[string]string
	// Annotations are Holdfast's own: their names begin with AnnotationDomain, or
	// with upstream's group about the configuration of hosts.
	Annotations map[string]string
	// Addresses are the internal addresses in the API's order.
	Addresses []netip.Addr
	// Also are further addresses at which this host may find it while a site moves: at one network nobody
	// can tell whether a host has moved yet (docs/adr/0095).
	Also []netip.Addr `json:",omitempty"`
	// Tunnel holds the addresses from which its pod network sends, as flannel
	// reports them.
	Tunnel []netip.Addr `json:",omitempty"`
	// BootID is the kernel's id of the boot of which its kubelet reports, empty if that is not known.
	// Containers of one kernel have the same.
	BootID string `json:",omitempty"`
	// Ready is false also if the API does not know.
	Ready bool
	// Silent is true if its kubelet does not report, so that nobody knows whether the host still is. One
	// that reports that it is not ready is not silent.
	Silent bool `json:",omitempty"`
	// Cordoned is true if it gets no new pods, whoever wants that.
	Cordoned bool `json:",omitempty"`
	Created  time.Time
	// Absent is true for a control plane of the site whose Node the API does not
	// have: all other fields are those that were last known.
	Absent bool `json:",omitempty"`
	// Lost lists the role labels that the host should have, and that its Node
	// lacks. They are also in Labels.
	Lost []string `json:",omitempty"`
	// Kept lists the annotations that its Node once had and lacks now. They are
	// also in Annotations.
	Kept []string `json:",omitempty"`
}

// NodesPath is the file in which a host keeps the last whole list of the cluster's nodes.
const NodesPath = "/var/lib/holdfast/network/nodes.json"

// CompareNodes orders nodes by name.
func CompareNodes(a, b Node) int { return strings.Compare(a.Name, b.Name) }

// ControlPlane reports whether the node is labelled as a control plane.
func (n Node) ControlPlane() bool {
	_, ok := n.Labels[LabelControlPlane]
	return ok
}

// Made is the time since which the host has a Node, also if somebody made the Node anew for it.
func (n Node) Made() time.Time {
	seconds, err := strconv.ParseInt(n.Labels[LabelMade], 10, 64)
	if first := time.Unix(seconds, 0); err == nil && first.Before(n.Created) {
		return first
	}
	return n.Created
}

// HasRole reports whether the node has one of the role labels by which the
// specifications select.
func (n Node) HasRole() bool {
	_, master := n.Labels[LabelMaster]
	_, worker := n.Labels[LabelWorker]
	return master || worker
}
