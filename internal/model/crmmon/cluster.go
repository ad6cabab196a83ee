package crmmon

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Cluster is what Pacemaker says about itself, as far as anybody needs it.
type Cluster struct {
	// Coordinator is the node whose controller decides, empty for none.
	Coordinator string
	// Quorate is unknown where there is no coordinator.
	Quorate state.Fact[bool]
	Options Options
	Nodes   []Node
	Clones  []Clone
	// Resources are all instances of all resources, fence devices among them.
	Resources  []Resource
	Operations []Operation
	Failures   []Failure
	Fences     []Fence
	Bans       []Ban
}

// Options are the settings of the cluster that crm_mon tells.
type Options struct {
	FencingEnabled bool
	// NoQuorum is what a part without quorum does.
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
	// Health is green where no agent reports trouble of the host.
	Health string
}

// Clone is a clone, which says more than its instances while none runs.
type Clone struct {
	ID                             string
	Managed, Disabled, Maintenance bool
}

// Resource is one instance of a resource.
type Resource struct {
	ID, Agent string
	Role      string
	Target    string // the role that it is to have, empty for no limit
	Active    bool
	Orphaned  bool
	Blocked   bool
	Managed   bool
	Failed    bool
	// Maintenance is told by version 2.1.6 and later only.
	Maintenance bool
	// Pending is what is under way: Starting, Stopping, Monitoring.
	Pending string
	// Nodes are where it runs: none, one, or in trouble more.
	Nodes []string
	// Clone is the id of the clone that it is an instance of, empty for none.
	Clone string
	// Bundle is the id of the bundle that holds it, empty for none: what runs
	// in a container does not run on the host.
	Bundle string
}

// Operation is the last outcome of one operation of a resource on a node.
type Operation struct {
	Node, Resource, Task string
	Code                 int
	Call                 string
	When                 time.Time // zero where it is not known
	Interval             string    // empty or 0ms for what does not recur
}

// Failure is an action that failed and was not cleaned up.
type Failure struct {
	Node, Resource, Task string
	Code                 int
	Words                string // the agent's own, else Pacemaker's
	// Key names the action as crm_mon does: etcd_monitor_3000. Status and Reason
	// are Pacemaker's word for the outcome, and the agent's.
	Key, Status, Reason string
	Call                string
	When                time.Time
	// Probe is true of the look at a resource before anything is done with it.
	Probe bool
}

// FenceState is how far a fence is.
type FenceState string

// How far a fence is.
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

// Expected reports whether a failure is that of a probe that found what it may
// find: running, not running, or promoted.
func (f Failure) Expected() bool {
	return f.Probe && slices.Contains([]int{0, 7, 8}, f.Code)
}
