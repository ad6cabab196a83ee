package pacemakerstatus

import (
	"strings"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Survival describes the outcome of losing one host.
type Survival struct {
	// Host is the host that would be lost.
	Host string `json:"host"`
	// Survives is true where the other host would go on by itself.
	Survives bool `json:"survives"`
	// Because gives the reasons where it would not, and is empty otherwise.
	Because string `json:"because,omitempty"`
}

// Survives returns for each host the outcome of losing it now. The other host goes
// on where it is online and healthy, holds every acknowledged write, and can prove
// that the lost one is off. An unknown condition counts as a reason against it.
func Survives(s etcdv1.PacemakerClusterStatus) []Survival {
	var out []Survival
	for _, lost := range nodesOf(&s) {
		why := reasons(s, lost)
		out = append(out, Survival{Host: lost.NodeName, Survives: len(why) == 0, Because: strings.Join(why, "; ")})
	}
	return out
}

// reasons returns why the loss of a node would not be survived.
func reasons(s etcdv1.PacemakerClusterStatus, lost etcdv1.PacemakerClusterNodeStatus) []string {
	var why []string
	add := func(c metav1.Condition, no, unsure string) {
		words := no
		switch c.Status {
		case metav1.ConditionTrue:
			return
		case metav1.ConditionFalse:
		default:
			words = unsure
		}
		if c.Message != "" {
			words += " (" + c.Message + ")"
		}
		why = append(why, words)
	}
	others := 0
	for _, n := range nodesOf(&s) {
		if n.NodeName == lost.NodeName {
			continue
		}
		others++
		add(Find(n.Conditions, etcdv1.NodeOnlineConditionType), n.NodeName+" is absent", "it is unknown whether "+n.NodeName+" is present")
		add(EtcdOf(n), "etcd on "+n.NodeName+" is not healthy", "it is unknown whether etcd on "+n.NodeName+" is healthy")
	}
	if others == 0 {
		return []string{"there is no other host"}
	}
	add(Find(s.Conditions, Redundant), "not both hosts hold every write", "it is unknown whether both hosts hold every write")
	add(Find(s.Conditions, FencingEnabled), "fencing is disabled", "it is unknown whether fencing is enabled")
	add(Find(s.Conditions, etcdv1.ClusterInServiceConditionType), "the cluster is in maintenance", "it is unknown whether the cluster is in maintenance")
	add(Find(lost.Conditions, etcdv1.NodeFencingAvailableConditionType), lost.NodeName+" cannot be fenced", "it is unknown whether "+lost.NodeName+" can be fenced")
	unproven := "it is not verified that " + lost.NodeName + " can be fenced"
	add(Find(lost.Conditions, FencingProven), unproven, unproven)
	return why
}

// EtcdOf returns whether etcd on a node is healthy, a condition without a status where
// the report leaves its resource out.
func EtcdOf(n etcdv1.PacemakerClusterNodeStatus) metav1.Condition {
	for _, r := range n.Resources {
		if r.Name == etcdv1.PacemakerClusterResourceNameEtcd {
			return Find(r.Conditions, etcdv1.ResourceHealthyConditionType)
		}
	}
	return metav1.Condition{}
}
