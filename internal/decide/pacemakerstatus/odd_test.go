package pacemakerstatus

import (
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// odd is a recorded state with a change that does not occur in a lab by itself.
type odd struct {
	corpus string
	change func(*Input)
	// where is cluster, a node, or a resource or agent on one: cp-1/etcd.
	where, kind string
	status      metav1.ConditionStatus
	words       string // in its message or reason
}

func (o odd) conditions(t *testing.T, s etcdv1.PacemakerClusterStatus) []metav1.Condition {
	t.Helper()
	if o.where == "cluster" {
		return s.Conditions
	}
	name, part, _ := strings.Cut(o.where, "/")
	n := nodeNamed(&s, name)
	if part == "" {
		return n.Conditions
	}
	for _, r := range n.Resources {
		if strings.EqualFold(string(r.Name), part) {
			return r.Conditions
		}
	}
	for _, a := range n.FencingAgents {
		if a.Name == part {
			return a.Conditions
		}
	}
	t.Fatalf("there is no %s", o.where)
	return nil
}

// each changes the resources with an id on one node, or everywhere.
func each(in *Input, id, node string, change func(*crmmon.Resource)) {
	for i := range in.Cluster.Value.Resources {
		r := &in.Cluster.Value.Resources[i]
		if r.ID == id && (node == "" || len(r.Nodes) > 0 && r.Nodes[0] == node) {
			change(r)
		}
	}
}

func ofNode(in *Input, name string) *crmmon.Node {
	for i := range in.Cluster.Value.Nodes {
		if n := &in.Cluster.Value.Nodes[i]; n.Name == name {
			return n
		}
	}
	panic("no node " + name)
}

func check(t *testing.T, cases map[string]odd) {
	t.Helper()
	for name, o := range cases {
		in := input(t, o.corpus)
		if o.change != nil {
			o.change(&in)
		}
		s := Status(in)
		acceptable(t, s)
		c := Find(o.conditions(t, s), o.kind)
		if c.Status != o.status || !strings.Contains(c.Reason+" "+c.Message, o.words) {
			t.Errorf("%s: %+v", name, c)
		}
		if o.status != metav1.ConditionTrue && Holds(s.Conditions, etcdv1.ClusterHealthyConditionType) {
			t.Errorf("%s: and the cluster is healthy", name)
		}
	}
}

const no, unknown, yes = metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue

func TestHardCase29OddNodes(t *testing.T) {
	check(t, map[string]odd{
		"offline, unclean, and its fence failed": {corpus: "lost-fence-failed", where: "cp-2", kind: etcdv1.NodeCleanConditionType, status: no, words: "no answer of the BMC"},
		"the same is offline":                    {corpus: "lost-fence-failed", where: "cp-2", kind: etcdv1.NodeOnlineConditionType, status: no},
		"the same had a fence that failed":       {corpus: "lost-fence-failed", where: "cp-2", kind: LastFenceSucceeded, status: no, words: ReasonFenceFailed},
		"online and pending":                     {corpus: "healthy", change: func(in *Input) { ofNode(in, "cp-2").Pending = true }, where: "cp-2", kind: etcdv1.NodeReadyConditionType, status: no, words: "Pending"},
		"a standby by a failure":                 {corpus: "standby-by-a-failure", where: "cp-2", kind: etcdv1.NodeActiveConditionType, status: no},
		"a remote node in a host's place":        {corpus: "healthy", change: func(in *Input) { ofNode(in, "cp-2").Kind = "remote" }, where: "cp-2", kind: etcdv1.NodeMemberConditionType, status: no, words: "NotMember"},
		"in corosync.conf alone":                 {corpus: "one-node-in-pacemaker", where: "cp-2", kind: etcdv1.NodeOnlineConditionType, status: no},
		"in Pacemaker alone": {corpus: "healthy", change: func(in *Input) {
			in.Corosync.Value.Nodes = in.Corosync.Value.Nodes[:1]
		}, where: "cluster", kind: etcdv1.ClusterNodeCountAsExpectedConditionType, status: no, words: "not listed: cp-2, whose address is unknown"},
		"none at all": {corpus: "no-nodes", change: func(in *Input) {
			in.Corosync = state.Fact[corosync.Conf]{}
		}, where: "cluster", kind: etcdv1.ClusterNodeCountAsExpectedConditionType, status: no, words: "InsufficientNodes"},
		"three": {corpus: "three-nodes", where: "cluster", kind: etcdv1.ClusterNodeCountAsExpectedConditionType, status: no, words: "ExcessiveNodes"},
		"six, of which the API holds five": {corpus: "six-nodes", change: func(in *Input) {
			in.Addresses = map[string][]string{"cp-3": {"10.0.0.3"}, "cp-4": {"10.0.0.4"}, "cp-5": {"10.0.0.5"}, "cp-6": {"10.0.0.6"}}
		}, where: "cluster", kind: etcdv1.ClusterNodeCountAsExpectedConditionType, status: no, words: "cp-6, the list ends at 5"},
	})
}

func TestHardCase30OddResources(t *testing.T) {
	check(t, map[string]odd{
		"failed though it is Started":      {corpus: "etcd-failed", where: "cp-1/etcd", kind: etcdv1.ResourceOperationalConditionType, status: no},
		"the same is Started":              {corpus: "etcd-failed", where: "cp-1/etcd", kind: etcdv1.ResourceStartedConditionType, status: yes},
		"unmanaged":                        {corpus: "etcd-unmanaged", where: "cp-2/etcd", kind: etcdv1.ResourceManagedConditionType, status: no},
		"blocked":                          {corpus: "etcd-blocked", where: "cp-2/etcd", kind: etcdv1.ResourceSchedulableConditionType, status: no},
		"to be Stopped":                    {corpus: "healthy", change: func(in *Input) { each(in, "etcd", "", func(r *crmmon.Resource) { r.Target = "Stopped" }) }, where: "cp-1/etcd", kind: etcdv1.ResourceEnabledConditionType, status: no},
		"to be stopped, in small letters":  {corpus: "healthy", change: func(in *Input) { each(in, "etcd", "", func(r *crmmon.Resource) { r.Target = "stopped" }) }, where: "cp-1/etcd", kind: etcdv1.ResourceEnabledConditionType, status: no},
		"a disabled clone, nowhere":        {corpus: "etcd-disabled", where: "cp-2/etcd", kind: etcdv1.ResourceStartedConditionType, status: no},
		"one instance on two nodes":        {corpus: "healthy", change: onTwoNodes, where: "cp-2/etcd", kind: etcdv1.ResourceStartedConditionType, status: yes},
		"orphaned":                         {corpus: "etcd-orphaned", where: "cp-1/etcd", kind: etcdv1.ResourceHealthyConditionType, status: no},
		"inside a bundle it is none":       {corpus: "healthy", change: func(in *Input) { each(in, "etcd", "", func(r *crmmon.Resource) { r.Bundle = "box" }) }, where: "cp-1/etcd", kind: etcdv1.ResourceStartedConditionType, status: no, words: "it is not configured"},
		"another unit's name begins alike": {corpus: "group-and-another-kubelet", where: "cp-1/kubelet", kind: etcdv1.ResourceHealthyConditionType, status: yes},
		"a stop that does not end": {corpus: "healthy", change: func(in *Input) {
			each(in, "etcd", "cp-2", func(r *crmmon.Resource) { r.Role, r.Active, r.Failed, r.Blocked = "Stopping", true, true, true })
		}, where: "cp-2/etcd", kind: etcdv1.ResourceHealthyConditionType, status: no},
	})
}

// onTwoNodes makes one instance of etcd run on both hosts and the other nowhere.
func onTwoNodes(in *Input) {
	each(in, "etcd", "cp-1", func(r *crmmon.Resource) { r.Nodes = []string{"cp-1", "cp-2"} })
	each(in, "etcd", "cp-2", func(r *crmmon.Resource) { r.Nodes, r.Active, r.Role = nil, false, "Stopped" })
}

func TestHardCase31OddFenceAgents(t *testing.T) {
	check(t, map[string]odd{
		"none":                             {corpus: "no-devices", where: "cp-1", kind: etcdv1.NodeFencingAvailableConditionType, status: no, words: "there is no fence agent"},
		"Started and failed":               {corpus: "healthy", change: func(in *Input) { each(in, "cp-2_redfish", "", func(r *crmmon.Resource) { r.Failed = true }) }, where: "cp-2/cp-2_redfish", kind: etcdv1.ResourceOperationalConditionType, status: no},
		"the same cannot fence":            {corpus: "healthy", change: func(in *Input) { each(in, "cp-2_redfish", "", func(r *crmmon.Resource) { r.Failed = true }) }, where: "cp-2", kind: etcdv1.NodeFencingAvailableConditionType, status: no},
		"nine, of which the API has eight": {corpus: "nine-devices", where: "cp-2", kind: etcdv1.NodeFencingHealthyConditionType, status: no},
		"on its own target only":           {corpus: "device-on-its-own-target", where: "cp-2", kind: FencingProven, status: no, words: ReasonOnOwnTarget},
		"of the peer's, whose host is off": {corpus: "lost-fenced", where: "cp-1", kind: etcdv1.NodeFencingAvailableConditionType, status: no},
		"a name without a line": {corpus: "healthy", change: func(in *Input) { // nothing says whose it is: cp-2 has none
			each(in, "cp-2_redfish", "", func(r *crmmon.Resource) { r.ID = "watch" })
			in.Cluster.Value.Bans = nil
		}, where: "cp-2", kind: etcdv1.NodeFencingAvailableConditionType, status: no, words: "there is no fence agent"},
	})
}

func TestHardCase33AFenceThatHasNotEndedOrEndsInTheFuture(t *testing.T) {
	in := input(t, "lost-being-fenced")
	for _, f := range in.Cluster.Value.Fences {
		if f.State != crmmon.FencePending || !f.Done.IsZero() {
			t.Errorf("%+v", f)
		}
	}
	check(t, map[string]odd{
		"it has not ended": {corpus: "lost-being-fenced", where: "cp-2", kind: LastFenceSucceeded, status: no, words: ReasonFencePending},
		"a clock was ahead, and the failure of now is older": {corpus: "lost-fence-failed", change: func(in *Input) {
			f := in.Cluster.Value.Fences[0]
			f.State, f.Done = crmmon.FenceSucceeded, f.Done.Add(-time.Hour)
			in.Cluster.Value.Fences = append(in.Cluster.Value.Fences, f)
		}, where: "cp-2", kind: LastFenceSucceeded, status: no, words: ReasonFenceFailed},
	})
	ahead := in.Cluster.Value
	ahead.Fences = []crmmon.Fence{{Target: "cp-2", Action: "reboot", By: "cp-1", State: crmmon.FenceSucceeded, Done: noon.Add(time.Hour)}}
	if h := Happenings(ahead); len(h) != 1 || !h[0].At.Equal(noon.Add(time.Hour)) {
		t.Errorf("who tells of it decides by its time: %+v", h)
	}
}
