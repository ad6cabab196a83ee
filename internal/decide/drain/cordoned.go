package drain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A drain that an administrator alone wants does not go on while all other hosts are cordoned: the
// pods would run nowhere. A host's own wish does, because two hosts that are emptied at once would
// wait for each other (docs/adr/0058, decision 5).

// ofPerson reports whether an administrator alone wants a host to be empty.
func ofPerson(annotations map[string]string) bool {
	return annotations[Wanted] != "" && !Empties(annotations[Desired])
}

// heedsCordons reports whether a drain does not go on while all other hosts are cordoned. Pods of a host
// with a taint of its own go to others with that taint, of which this package does not know.
func (f Facts) heedsCordons() bool {
	return ofPerson(f.Node.Annotations) && !closed(f.Node.Spec.Taints)
}

// cordoned returns the other nodes that are cordoned and would take pods of this one otherwise.
func (f Facts) cordoned() []corev1.Node {
	var out []corev1.Node
	if closed(f.Node.Spec.Taints) {
		return nil
	}
	for _, n := range f.Others {
		if n.Spec.Unschedulable && !closed(n.Spec.Taints) {
			out = append(out, n)
		}
	}
	return out
}

// allCordoned says of each other node that would take pods that it is cordoned, and what frees it;
// empty if one of them is not cordoned, or none is there.
func (f Facts) allCordoned() string {
	if f.nowhere() || slices.ContainsFunc(f.Others, func(n corev1.Node) bool { return !n.Spec.Unschedulable && !closed(n.Spec.Taints) }) {
		return ""
	}
	return f.freed()
}

// freed says what frees the other nodes that are cordoned.
func (f Facts) freed() string {
	var out []string
	for _, n := range f.cordoned() {
		if own := OwnWish(&n); own != "" {
			out = append(out, own)
			continue
		}
		out = append(out, n.Name+" is cordoned (holdfast host uncordon "+n.Name+")")
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
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
