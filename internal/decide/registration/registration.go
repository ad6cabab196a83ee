// Package registration decides whether a host makes its own Node again. kubelet
// registers only when it starts; a Node that is deleted while kubelet runs stays
// away, and 40 s later its pods are deleted. If the Node is made again as it
// was, with its share of the pod network and the entries of the network's
// daemon, nothing that runs on the host notices.
package registration

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// Input holds the facts that Decide decides from.
type Input struct {
	Now time.Time
	// Listed is true if the API has the Node.
	Listed bool
	// Known is the last known Node, nil if this host never had one.
	Known *corev1.Node
	// Kubelet is true if the host's kubelet runs and is healthy.
	Kubelet bool
	// ControlPlane is true if the host is one. Its agent has the administrator's
	// account, a worker's agent has only kubelet's.
	ControlPlane bool
	// Made lists the recent times at which the Node was made again, in order.
	Made []time.Time
}

// Verdict says what to do.
type Verdict struct {
	// Make is the Node to make, nil for none.
	Make *corev1.Node
	// Lost lists labels of it that only an administrator may set.
	Lost []string
	// Why explains in one line why no Node is made.
	Why string
}

// The pauses between two attempts: the second follows after firstPause, each
// further one after twice the time, up to lastPause.
const (
	firstPause = 15 * time.Second
	lastPause  = 10 * time.Minute
)

// Decide decides whether to make the Node again.
func Decide(in Input) Verdict {
	switch {
	case in.Listed:
		return Verdict{Why: "the API has this node"}
	case in.Known == nil:
		return Verdict{Why: "this host has never been a node"}
	case !in.Kubelet:
		return Verdict{Why: "kubelet is not running: it registers the node when it starts"}
	case !in.ControlPlane && in.Known.Spec.Unschedulable && in.Known.Annotations[drain.CordonedBy] == "":
		return Verdict{Why: "the node was cordoned before it was deleted: this worker is being removed on purpose"}
	case len(in.Made) > 0 && in.Now.Sub(in.Made[len(in.Made)-1]) < Pause(len(in.Made)):
		return Verdict{Why: "the node is deleted again and again: waiting before the next registration"}
	}
	n, lost := again(in.Known, in.ControlPlane)
	return Verdict{Make: n, Lost: lost}
}

// Pause returns the time to wait after so many attempts.
func Pause(times int) time.Duration {
	return min(firstPause<<min(times-1, 10), lastPause)
}

// Lately returns the times that still count: none if the last one is more than
// an hour ago.
func Lately(made []time.Time, now time.Time) []time.Time {
	if len(made) > 0 && now.Sub(made[len(made)-1]) > time.Hour {
		return nil
	}
	return made
}

// Kept returns the parts of a Node that are needed to make it again.
func Kept(n *corev1.Node) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: maps.Clone(n.Labels), Annotations: maps.Clone(n.Annotations)},
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
