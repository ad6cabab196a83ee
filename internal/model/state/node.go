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

// Node is a node of the cluster as the API tells it.
type Node struct {
	Name   string
	Labels map[string]string
	// Annotations are Holdfast's own: their names begin with AnnotationDomain.
	Annotations map[string]string
	// Addresses are the internal addresses in the API's order.
	Addresses []netip.Addr
	// Tunnel are the addresses that its pod network sends from, as flannel says.
	Tunnel []netip.Addr `json:",omitempty"`
	// Ready is false too where the API does not know.
	Ready   bool
	Created time.Time
	// Absent is true of a control plane of the site whose Node the API does not
	// have: all else is what was known of it last.
	Absent bool `json:",omitempty"`
	// Lost are the role labels that the host has by what it is, and that its Node
	// lacks. They are among Labels.
	Lost []string `json:",omitempty"`
	// Kept are the annotations that its Node lacks, and had when it was last known
	// with them. They are among Annotations.
	Kept []string `json:",omitempty"`
}

// CompareNodes orders nodes by name.
func CompareNodes(a, b Node) int { return strings.Compare(a.Name, b.Name) }

// ControlPlane reports whether the node is labelled as a control plane.
func (n Node) ControlPlane() bool {
	_, ok := n.Labels[LabelControlPlane]
	return ok
}

// HasRole reports whether the node carries one of the role labels that the
// specifications select by.
func (n Node) HasRole() bool {
	_, master := n.Labels[LabelMaster]
	_, worker := n.Labels[LabelWorker]
	return master || worker
}
