// Package registration decides whether a Node that somebody deleted is made again.
// kubelet registers only when it starts. So a Node that is deleted while kubelet runs
// stays away, and 40 s later its pods are deleted. If the Node is made again as it
// was, with its share of the pod network and the entries of the network's
// daemon, nothing that runs on the host notices. The host's own agent makes it;
// if that agent cannot, the agent of another control plane does.
package registration

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Input holds the facts that Decide decides from.
type Input struct {
	Now time.Time
	// Listed is true if the API has the Node.
	Listed bool
	// Known is the last known Node, nil if this host never saw one.
	Known *corev1.Node
	// Kubelet is true if the kubelet of the Node's host runs and is healthy, as far
	// as the deciding host can see.
	Kubelet bool
	// Administrator is true if the agent that decides may set every label, as that of a
	// control plane may. A worker's agent has only kubelet's account.
	Administrator bool
	// Worker is true if the Node is that of a worker.
	Worker bool
	// Peer is true if the Node is that of another control plane. Gone is then the time
	// for which this host has known that it is missing.
	Peer bool
	Gone time.Duration
	// Retired says who took the host out of the cluster and when, empty if nobody
	// did. It is unknown if the list of retired hosts cannot be read.
	Retired state.Fact[string]
	// Made lists the recent times at which the Node was made again, in order.
	Made []time.Time
}

// Verdict says what to do.
type Verdict struct {
	// Make is the Node to make, nil for none.
	Make *corev1.Node
	// Lost lists labels of it that only an administrator may set.
	Lost []string
	// Rule is the name of the rule that decided; Why says in one line why no
	// Node is made.
	Rule, Why string
	// Tell is true if a person has to be told, because nothing happens by itself.
	Tell bool
}

// The bounds for making a Node again. The agent must not race with somebody who deletes
// the Node on purpose.
const (
	// Most is how often a Node is made again Within a time. After that it is only told.
	Most   = 3
	Within = 10 * time.Minute
	// Apart is the least time between two of these.
	Apart = 15 * time.Second
	// Turn is the time that a host has to make its own Node, before another control
	// plane does so.
	Turn = 4 * time.Second
)

type rule struct {
	id   string
	why  string
	tell bool
	when func(Input) bool
}

// rules are reasons to make no Node; the first that holds decides. If none holds, the Node is
// made.
var rules = []rule{
	{"listed", "the API has this node", false, func(in Input) bool { return in.Listed }},
	{"never-seen", "this host has never seen that node", false, func(in Input) bool { return in.Known == nil }},
	{"retired", "the host was taken out of the cluster", false, func(in Input) bool { return in.Retired.Known && in.Retired.Value != "" }},
	{"retired-unknown", "it cannot be read whether the host was taken out of the cluster", false, func(in Input) bool { return !in.Retired.Known }},
	{"no-kubelet", "kubelet is not running: it registers the node when it starts", false, func(in Input) bool { return !in.Kubelet }},
	{"cordoned-worker", "the node was cordoned before it was deleted: this worker is being removed on purpose", false, func(in Input) bool {
		return in.Worker && in.Known.Spec.Unschedulable && in.Known.Annotations[drain.CordonedBy] == ""
	}},
	{"its-turn", "the host's own agent makes it first", false, func(in Input) bool { return in.Peer && in.Gone < Turn }},
	{"again-and-again", "the node is deleted again and again: it is not made again for now", true, func(in Input) bool {
		return len(Lately(in.Made, in.Now)) >= Most
	}},
	{"just-made", "the node was made a moment ago", false, func(in Input) bool {
		return len(in.Made) > 0 && in.Now.Sub(in.Made[len(in.Made)-1]) < Apart
	}},
}

// Decide decides whether to make the Node again.
func Decide(in Input) Verdict {
	for _, r := range rules {
		if r.when(in) {
			return Verdict{Rule: r.id, Why: r.why, Tell: r.tell}
		}
	}
	n, lost := again(in.Known, in.Administrator)
	return Verdict{Make: n, Lost: lost, Rule: "make"}
}

// Lately returns the times that are not older than Within.
func Lately(made []time.Time, now time.Time) []time.Time {
	i := slices.IndexFunc(made, func(t time.Time) bool { return now.Sub(t) < Within })
	if i < 0 {
		return nil
	}
	return made[i:]
}

// Kept returns the parts of a Node that are needed to make it again. The UID distinguishes
// a Node that was taken out from a later one of the same name.
func Kept(n *corev1.Node) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, Labels: maps.Clone(n.Labels), Annotations: maps.Clone(n.Annotations)},
		Spec: corev1.NodeSpec{
			PodCIDR: n.Spec.PodCIDR, PodCIDRs: slices.Clone(n.Spec.PodCIDRs), ProviderID: n.Spec.ProviderID,
			Unschedulable: n.Spec.Unschedulable, Taints: lasting(n.Spec.Taints),
		},
	}
}

// lasting returns the taints that describe what a node is. The controllers own
// those that describe its condition.
func lasting(list []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range list {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			t.TimeAdded = nil
			out = append(out, t)
		}
	}
	return out
}

// again returns the Node in the form that the account may make.
func again(known *corev1.Node, administrator bool) (n *corev1.Node, lost []string) {
	n = Kept(known)
	n.UID = ""
	if administrator {
		return n, nil
	}
	for _, l := range slices.Sorted(maps.Keys(n.Labels)) {
		if !own(l) {
			delete(n.Labels, l)
			lost = append(lost, l)
		}
	}
	return n, lost
}

// ownLabels, together with ownDomains, are the labels of Kubernetes' domains
// that a kubelet may give its own Node, by the admission plug-in
// NodeRestriction.
var ownLabels = []string{
	"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os",
	"beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type",
}

var ownDomains = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}

// own reports whether a kubelet may set a label.
func own(label string) bool {
	domain, _, has := strings.Cut(label, "/")
	if !has || slices.Contains(ownLabels, label) {
		return true
	}
	for _, d := range ownDomains {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return !within(domain, "kubernetes.io") && !within(domain, "k8s.io")
}

func within(domain, of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }
