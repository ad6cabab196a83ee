package pacemakerstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Input is everything that the status is made from, as one host sees it.
type Input struct {
	// Host is this host's name.
	Host string
	// Cluster is unknown where Pacemaker does not answer on this host; Trouble
	// gives the reason.
	Cluster state.Fact[crmmon.Cluster]
	Trouble string
	// Corosync is unknown where its configuration cannot be read.
	Corosync state.Fact[corosync.Conf]
	// Membership is Corosync's current membership. Corosync notices the loss of a
	// host before Pacemaker does.
	Membership state.Fact[state.Membership]
	// QuorateFor is how long this host has had quorum without a break, counted from
	// the start of its agent at the earliest.
	QuorateFor time.Duration
	// Etcd is the report of this host's etcd keeper.
	Etcd state.Fact[state.EtcdReport]
	// Drift lists the settings that differ from the table (decide/twonode). It is
	// unknown where they cannot be read, or where the set-up has not made them yet.
	Drift state.Fact[[]twonode.Difference]
	// Before holds the earlier condition Redundant (Patient), while etcd and its
	// keeper may be silent although nothing has changed. It is empty where their
	// silence counts.
	Before metav1.Condition
	// Found maps a host to what the last test of its BMC ran into, where the agent
	// that tests it reported that: Pacemaker does not keep the messages of a fence
	// agent.
	Found map[string]state.BMCProblem
	// Addresses maps a host to its addresses from other sources, for hosts whose
	// addresses are not in corosync.conf.
	Addresses map[string][]string
}

// expected is the number of nodes in a complete cluster.
const expected = 2

// maxNodes is the API's limit on the list of nodes.
const maxNodes = 5

// Status returns the status without times: Timed adds them.
func Status(in Input) etcdv1.PacemakerClusterStatus {
	v := view{Input: in, cluster: in.Cluster.Value}
	v.names = v.allNames()
	nodes, unlisted := v.nodes()
	s := etcdv1.PacemakerClusterStatus{Nodes: &nodes}
	s.Conditions = []metav1.Condition{
		v.service(), v.count(unlisted), v.fencingEnabled(), v.settings(), v.quorate(), v.redundant(),
	}
	var sick []string
	for _, n := range nodes {
		if c := Find(n.Conditions, etcdv1.NodeHealthyConditionType); c.Status != metav1.ConditionTrue {
			sick = append(sick, fmt.Sprintf("%s: %s", n.NodeName, c.Message))
		}
	}
	s.Conditions = slices.Insert(s.Conditions, 0, clusterHealthy.all(counted(s.Conditions), sick...))
	return s
}

// counted returns the conditions that make up the health of the cluster. It leaves
// out an unknown Redundant: an etcd keeper that does not answer says nothing about
// that health.
func counted(list []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(list), func(c metav1.Condition) bool {
		return c.Type == Redundant && c.Status == metav1.ConditionUnknown
	})
}

// view holds the input of one status and the names of the nodes.
type view struct {
	Input
	cluster crmmon.Cluster
	names   []string
}

// allNames returns the sorted names of all nodes that Pacemaker or corosync.conf
// knows. It includes remote nodes and ping nodes, because they do not belong in
// such a cluster.
func (v view) allNames() []string {
	var names []string
	for _, n := range v.cluster.Nodes {
		names = append(names, n.Name)
	}
	for _, h := range v.Corosync.Value.Nodes {
		names = append(names, h.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// node returns what Pacemaker reports of one node, unknown where Pacemaker does not
// name it.
func (v view) node(name string) state.Fact[crmmon.Node] {
	i := slices.IndexFunc(v.cluster.Nodes, func(n crmmon.Node) bool { return n.Name == name })
	if !v.Cluster.Known || i < 0 {
		return state.Fact[crmmon.Node]{}
	}
	return state.Known(v.cluster.Nodes[i])
}

func (v view) service() metav1.Condition {
	if !v.Cluster.Known {
		return clusterService.unknown(v.Trouble)
	}
	if r := v.Etcd.Value.Snapshot.Record; v.cluster.Options.Maintenance && v.Etcd.Known && r.Known && r.Value.State == state.EtcdMajority {
		return clusterService.is(false, "maintenance-mode is true: a plan about a third control plane keeps it so for a while"+hint(WidensCommand))
	}
	if v.cluster.Options.Maintenance {
		return clusterService.is(false, "maintenance-mode is true: Pacemaker neither starts, stops nor monitors anything"+hint("pcs property set maintenance-mode=false"))
	}
	return clusterService.is(true)
}

// count reports too few or too many nodes, and nodes that could not be listed,
// because nobody looks at a node outside the list. Where Pacemaker does not answer,
// the names come from corosync.conf.
func (v view) count(unlisted []string) metav1.Condition {
	const kind = etcdv1.ClusterNodeCountAsExpectedConditionType
	n := len(v.names)
	words := fmt.Sprintf("%d nodes (%s)", n, shorten(strings.Join(v.names, ", "), maxMessage/2))
	if len(unlisted) > 0 {
		words += "; not listed: " + strings.Join(unlisted, ", ")
	}
	switch {
	case n < expected, n == expected && len(unlisted) > 0:
		return condition(kind, metav1.ConditionFalse, etcdv1.ClusterNodeCountAsExpectedReasonInsufficientNodes, words)
	case n > expected:
		return condition(kind, metav1.ConditionFalse, etcdv1.ClusterNodeCountAsExpectedReasonExcessiveNodes, words)
	}
	return condition(kind, metav1.ConditionTrue, etcdv1.ClusterNodeCountAsExpectedReasonAsExpected)
}

func (v view) fencingEnabled() metav1.Condition {
	m := meaning{FencingEnabled, ReasonFencingEnabled, ReasonFencingDisabled}
	if !v.Cluster.Known {
		return m.unknown(v.Trouble)
	}
	if !v.cluster.Options.FencingEnabled {
		return m.is(false, "stonith-enabled is false: a lost host is not switched off, and the other one waits for an administrator"+hint("pcs property set stonith-enabled=true"))
	}
	return m.is(true)
}

// noQuorum is the policy for a part of the cluster without quorum (decide/twonode).
const noQuorum = "stop"

func (v view) settings() metav1.Condition {
	m := meaning{SettingsAsExpected, ReasonAsExpected, ReasonSettingsChanged}
	var wrong []string
	if o := v.cluster.Options; v.Cluster.Known {
		if !v.Drift.Known && o.NoQuorum != noQuorum && o.NoQuorum != "" {
			wrong = append(wrong, fmt.Sprintf("no-quorum-policy is %s, not %s: a host that has not seen its peer may run what the peer runs", o.NoQuorum, noQuorum))
		}
		if o.StopAll {
			wrong = append(wrong, "stop-all-resources is true: nothing runs")
		}
	}
	if c := v.Corosync.Value; v.Corosync.Known {
		if !c.TwoNode {
			wrong = append(wrong, "corosync.conf has no two_node: the survivor of a failure has no quorum")
		}
		if c.WaitsNot {
			wrong = append(wrong, "corosync.conf has wait_for_all: 0: a booted host does not wait for its peer")
		}
	}
	wrong = append(wrong, v.drift()...)
	switch {
	case len(wrong) > 0:
		return m.is(false, wrong...)
	case !v.Cluster.Known || !v.Corosync.Known:
		return m.unknown(v.unread()...)
	}
	return m.is(true)
}

// drift describes the settings that differ. Those that only an administrator can
// change back come first, because the others are set back within moments.
func (v view) drift() []string {
	var theirs, ours []string
	for _, d := range v.Drift.Value {
		if d.Ours {
			ours = append(ours, d.Words)
		} else {
			theirs = append(theirs, d.Words)
		}
	}
	if len(ours) > 0 && v.cluster.Options.Maintenance {
		ours[0] = "not set back while maintenance-mode is on: " + ours[0]
	}
	return append(theirs, ours...)
}

// SetsBack reports which settings this host must set back: own for those of its own
// corosync.conf, which no other host writes; decides for Pacemaker's, which only
// the host that decides for Pacemaker sets back. In maintenance mode it sets back
// nothing, because it must not fight the administrator who works on the cluster.
func (in Input) SetsBack() (own, decides bool) {
	c := in.Cluster.Value
	if !in.Cluster.Known || !state.Is(c.Quorate, true) || c.Options.Maintenance || in.Blind() {
		return false, false
	}
	for _, d := range in.Drift.Value {
		own = own || d.Own
		decides = decides || d.Ours && c.Coordinator == in.Host
	}
	return own, decides
}

// unread names what could not be read.
func (v view) unread() []string {
	var out []string
	if !v.Cluster.Known {
		out = append(out, v.Trouble)
	}
	if !v.Corosync.Known {
		out = append(out, "corosync.conf cannot be read")
	}
	return out
}

func (v view) quorate() metav1.Condition {
	m := meaning{Quorate, ReasonQuorate, ReasonNotQuorate}
	q := v.cluster.Quorate
	switch {
	case !v.Cluster.Known:
		return m.unknown(v.Trouble)
	case !q.Known:
		return condition(Quorate, metav1.ConditionUnknown, ReasonNoCoordinator, "Pacemaker has no coordinator (DC) at the moment")
	case !q.Value:
		return m.is(false, "this part of the cluster has not seen the other host since boot, and runs nothing")
	}
	return m.is(true)
}

// nodes returns all nodes that the API can hold, and the names of the others, each
// with the reason.
func (v view) nodes() (list []etcdv1.PacemakerClusterNodeStatus, unlisted []string) {
	list = []etcdv1.PacemakerClusterNodeStatus{} // written even when it is empty
	for _, name := range v.names {
		addresses := v.addresses(name)
		switch {
		case !isNodeName(name):
			unlisted = append(unlisted, fmt.Sprintf("%.60q, which is not a valid node name", name))
		case len(addresses) == 0:
			unlisted = append(unlisted, name+", whose address is unknown")
		case len(list) == maxNodes:
			unlisted = append(unlisted, name+fmt.Sprintf(", the list ends at %d", maxNodes))
		default:
			list = append(list, v.nodeStatus(name, addresses))
		}
	}
	return list, unlisted
}

func (v view) nodeStatus(name string, addresses []etcdv1.PacemakerNodeAddress) etcdv1.PacemakerClusterNodeStatus {
	agents, all := v.agents(name)
	out := etcdv1.PacemakerClusterNodeStatus{
		NodeName: name, Addresses: addresses, FencingAgents: agents,
		Resources: []etcdv1.PacemakerClusterResourceStatus{
			v.resource(name, kubelet), v.resource(name, etcd),
		},
	}
	conditions := v.nodeConditions(name)
	conditions = append(conditions, v.fencing(name, all)...)
	var sick []string
	for _, r := range out.Resources {
		c := Find(r.Conditions, etcdv1.ResourceHealthyConditionType)
		if c.Status != metav1.ConditionTrue && v.unseen(name) == "" { // otherwise the node's own conditions say enough
			sick = append(sick, fmt.Sprintf("%s is unhealthy: %s", r.Name, c.Message))
		}
	}
	healthy := nodeHealthy.all(conditions, sick...)
	out.Conditions = append(append([]metav1.Condition{healthy}, conditions...), v.proven(name), v.lastFence(name))
	return out
}
