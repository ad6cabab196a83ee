package crmmon

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Cluster holds the parts of Pacemaker's status that other packages need.
type Cluster struct {
	// Coordinator is the node whose controller makes the decisions, empty for none.
	Coordinator string
	// Quorate is unknown without a coordinator.
	Quorate state.Fact[bool]
	Options Options
	Nodes   []Node
	Clones  []Clone
	// Resources holds all instances of all resources, fence devices included.
	Resources  []Resource
	Operations []Operation
	Failures   []Failure
	Fences     []Fence
	Bans       []Ban
}

// Options holds the settings of the cluster that crm_mon shows.
type Options struct {
	FencingEnabled bool
	// NoQuorum is the policy for a partition without quorum.
	NoQuorum    string
	Maintenance bool
	// StopAll is true while nothing but fence devices may run.
	StopAll bool
}

// Node is a node as Pacemaker sees it.
type Node struct {
	Name                                            string
	Online, Standby, StandbyOnFail                  bool
	Maintenance, Pending, Unclean, Shutdown, Expect bool
	// Kind is member, remote or ping.
	Kind string
	// Health is green if no agent reports trouble of the host.
	Health string
	// Features is the feature set of its Pacemaker, such as 3.16.1; empty if it does
	// not say so.
	Features string
}

// Clone is a clone. While no instance runs it tells more than they do.
type Clone struct {
	ID                             string
	Managed, Disabled, Maintenance bool
}

// Resource is one instance of a resource.
type Resource struct {
	ID, Agent string
	Role      string
	Target    string // the role that it should have, empty for no limit
	Active    bool
	Orphaned  bool
	Blocked   bool
	Managed   bool
	Failed    bool
	// Maintenance is reported only by version 2.1.6 and later.
	Maintenance bool
	// Pending is the action under way: Starting, Stopping, Monitoring.
	Pending string
	// Nodes are the nodes on which it runs: none, one, or more in a fault.
	Nodes []string
	// Clone is the id of the clone that it is an instance of, empty for none.
	Clone string
	// Bundle is the id of the bundle that holds it, empty for none: a resource in a
	// container does not run on the host.
	Bundle string
}

// Operation is the last result of one operation of a resource on a node.
type Operation struct {
	Node, Resource, Task string
	Code                 int
	Call                 string
	When                 time.Time // zero if unknown
	Interval             string    // empty or 0ms if it does not recur
}

// Failure is an action that failed and was not cleaned up.
type Failure struct {
	Node, Resource, Task string
	Code                 int
	Words                string // the agent's own text, else Pacemaker's
	// Key names the action as crm_mon does: etcd_monitor_3000. Status is
	// Pacemaker's text for the result, Reason is the agent's.
	Key, Status, Reason string
	Call                string
	When                time.Time
	// Probe is true for the check of a resource before any action on it.
	Probe bool
}

// FenceState is the progress of a fence.
type FenceState string

// The states of a fence.
const (
	FenceSucceeded FenceState = "success"
	FenceFailed    FenceState = "failed"
	FencePending   FenceState = "pending"
)

// Fence is one request to fence a node.
type Fence struct {
	Target, Action, By, Client string
	State                      FenceState
	Words                      string
	// Done is zero while it is pending.
	Done time.Time
}

// Ban keeps a resource from a node.
type Ban struct{ Resource, Node string }

// fencing is the class of fence agents.
const fencing = "stonith:"

// Fences reports whether a resource is a fence device.
func (r Resource) Fences() bool { return strings.HasPrefix(r.Agent, fencing) }

// Expected reports whether a failure is a probe that found a permitted state:
// running, not running, or promoted.
func (f Failure) Expected() bool {
	return f.Probe && slices.Contains([]int{0, 7, 8}, f.Code)
}
