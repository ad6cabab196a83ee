package drain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// A drain that an administrator alone wants does not go on while all other hosts are cordoned: the
// pods would run nowhere. A host's own wish does, because two hosts that are emptied at once would
// wait for each other (docs/adr/0058, decision 5).

// ofPerson reports whether an administrator alone wants a host to be empty.
func ofPerson(annotations map[string]string) bool {
	return annotations[Wanted] != "" && !Empties(annotations[Desired])
}

// heedsCordons reports whether a drain does not go on while all other hosts are cordoned.
func (f Facts) heedsCordons() bool { return ofPerson(f.Node.Annotations) }

// cordoned returns the other nodes that are cordoned and would take pods of this one otherwise.
func (f Facts) cordoned() []corev1.Node {
	var out []corev1.Node
	for _, n := range f.Others {
		if n.Spec.Unschedulable && f.fits(n) {
			out = append(out, n)
		}
	}
	return out
}

// fits reports whether another node may have pods of this one: any that takes ordinary pods, and one
// that is tainted alike.
func (f Facts) fits(n corev1.Node) bool { return !closed(n.Spec.Taints) || f.alike(n) }

// alike reports whether another node keeps ordinary pods away by taints that this one has, too. Pods
// that were scheduled here tolerate them.
func (f Facts) alike(n corev1.Node) bool {
	return closed(n.Spec.Taints) && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return closes(t) && !slices.ContainsFunc(f.Node.Spec.Taints, func(own corev1.Taint) bool {
			return own.Key == t.Key && own.Value == t.Value && own.Effect == t.Effect
		})
	})
}

// tolerated reports whether each pod that would go tolerates the taints of this host. One that ran here
// before somebody set a taint may not: NoSchedule ends no pod, and no host with that taint takes it.
func (f Facts) tolerated() bool {
	p := f.sorted()
	for _, pod := range slices.Concat(p.evict, p.critical) {
		for _, taint := range f.Node.Spec.Taints {
			if closes(taint) && !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
				return t.ToleratesTaint(klog.Background(), &taint, false)
			}) {
				return false
			}
		}
	}
	return true
}

// takes reports whether another node takes pods of this one now, as far as is known. A cordon of one
// that is tainted alike counts for a host's own wish, too, where hosts that take ordinary pods are there:
// without it those decide, as for any host. Where none is, two tainted hosts would wait for each other.
func (f Facts) takes(n corev1.Node) bool {
	switch {
	case away(n) || !f.fits(n):
		return false
	case n.Spec.Unschedulable:
		return !f.heedsCordons() && (!closed(n.Spec.Taints) || f.allClosed())
	default:
		return true
	}
}

// allClosed reports whether no other node takes ordinary pods.
func (f Facts) allClosed() bool {
	return !slices.ContainsFunc(f.Others, func(n corev1.Node) bool { return !closed(n.Spec.Taints) })
}

// allCordoned says of each other node that would take pods that it is cordoned, and what frees it;
// empty if one of them is not cordoned, or none is there.
func (f Facts) allCordoned() string {
	if f.nowhere() || slices.ContainsFunc(f.Others, func(n corev1.Node) bool { return !n.Spec.Unschedulable && f.fits(n) }) {
		return ""
	}
	return f.freed()
}

// freed says what frees the other nodes that are cordoned.
func (f Facts) freed() string {
	var out []string
	for _, n := range f.cordoned() {
		out = append(out, frees(&n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// frees says what frees a node that is cordoned. It names no command for one that an administrator
// wants to be empty: that may be a removal, which the command would take back, and no node says so.
// Nor does it for one that is off or away, since it would take no pods then either.
func frees(n *corev1.Node) string {
	own, wanted := OwnWish(n), n.Annotations[Wanted]
	switch {
	case own != "":
		return own
	case slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }):
		return n.Name + " is off"
	case away(*n):
		return n.Name + " is not ready"
	case wanted != "":
		return n.Name + " is to be empty, as an administrator wants since " + wanted
	default:
		return n.Name + " is cordoned (holdfast host uncordon " + n.Name + ")"
	}
}

// OwnWish says for what a host itself wants to be empty, and what ends that; empty if it does not.
func OwnWish(n *corev1.Node) string {
	if !Empties(n.Annotations[Desired]) {
		return ""
	}
	what := strings.TrimPrefix(n.Annotations[Desired], drains)
	kind, _, _ := strings.Cut(what, "-")
	ends := "it takes pods again once it has that configuration; see: holdfast host show " + n.Name
	switch {
	case kind == "reboot", kind == "patch":
		ends = "to take that back: holdfast host " + kind + " " + n.Name + " --cancel"
	case OfUpgrade(n.Annotations[Desired]):
		ends = "it takes pods again once it is upgraded; see: holdfast upgrade status"
	case OfShutdown(n.Annotations[Desired]):
		ends = "it takes pods again once it is back, or its shutdown was cancelled"
	}
	return n.Name + " itself is to be empty for " + what + " (" + ends + ")"
}

// whyNobody says why no other node takes pods now.
func (f Facts) whyNobody() string {
	if freed := f.freed(); freed != "" && f.heedsCordons() {
		return "no other host takes pods now, and they stay until one does: " + freed
	}
	return nobodyReady
}

// keepsCordon reports whether a host keeps its cordon although no other one takes pods: an
// administrator wants both to be empty, and of two that the operator cordoned in the same moment the
// other one takes pods again.
func (f Facts) keepsCordon() bool {
	return f.heedsCordons() && slices.ContainsFunc(f.cordoned(), func(n corev1.Node) bool {
		return f.Node.Name < n.Name && ofPerson(n.Annotations) && n.Annotations[CordonedBy] != "" && !answered(n.Annotations) && !away(n)
	})
}
