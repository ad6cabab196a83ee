package state

import (
	"net/netip"
	"strings"
	"time"
)

// Role labels of nodes; their value is empty.
const (
	LabelControlPlane = "node-role.kubernetes.io/control-plane"
	LabelMaster       = "node-role.kubernetes.io/master"
	LabelWorker       = "node-role.kubernetes.io/worker"
)

// Node is a node of the cluster as the API has it.
type Node struct {
	Name   string
	Labels map[string]string
	// Annotations are Holdfast's own: their names begin with AnnotationDomain, or
	// with upstream's group about the configuration of hosts.
	Annotations map[string]string
	// Addresses are the internal addresses in the API's order.
	Addresses []netip.Addr
	// Tunnel holds the addresses from which its pod network sends, as flannel
	// reports them.
	Tunnel []netip.Addr `json:",omitempty"`
	// Ready is false also if the API does not know.
	Ready   bool
	Created time.Time
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

// HasRole reports whether the node has one of the role labels by which the
// specifications select.
func (n Node) HasRole() bool {
	_, master := n.Labels[LabelMaster]
	_, worker := n.Labels[LabelWorker]
	return master || worker
}
