package rollout

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// Activity is what a host does now, and for what it waits. Both are empty for one
// that takes pods and has nothing to do.
type Activity struct{ Does, Waits string }

// Doing returns what a host does, by its node.
func Doing(n *corev1.Node) Activity {
	h, a := HostOf(n), n.Annotations
	if !h.Ready {
		wants := h.wants(a)
		if wants.Does == "" {
			return Activity{Does: "is not ready"}
		}
		return Activity{"is not ready; " + wants.Does, wants.Waits}
	}
	return h.wants(a)
}

// Work returns what a host does, whether it is ready or not; empty for nothing. A pressure is no work:
// an upgrade would wait for a worker that has been short of memory for years.
func Work(n *corev1.Node) string { return HostOf(n).relieved().wants(n.Annotations).Does }

// wants returns what a host is at, most pressing first.
func (h Host) wants(a map[string]string) Activity {
	switch w := h.Wish; {
	case w.HasTurn() && h.State != Working:
		return Activity{"has its turn " + w.task(), "its agent has not answered yet"}
	case h.State == Working && (h.stage() == Held || h.stage() == WaitsForBoot):
		does, waits, _ := strings.Cut(cmp.Or(h.Reason, "waits"), ": ")
		return Activity{does, cmp.Or(waits, does)}
	case h.State == Working:
		return Activity{cmp.Or(h.Reason, "is at work"), h.InTheWay}
	case h.working():
		return Activity{"was given another configuration", "its agent has not answered yet"}
	case w.Open() && h.Behind.Open():
		return Activity{"waits for its turn " + w.task() + " and for that " + h.Behind.task(), h.Waiting.Turn + "; for the reboot: " + h.Waiting.Behind}
	case w.Open():
		return Activity{"waits for its turn " + w.task(), h.Waiting.Turn}
	case a[drain.Wanted] != "" && !drain.HasWanted(a) && !h.Unschedulable:
		return Activity{"is to be empty", cmp.Or(a[drain.Waits], "holdfast-operator has not begun yet")}
	case a[drain.Wanted] != "" && !drain.HasWanted(a):
		return Activity{"moves its pods to other hosts", a[drain.Waits]}
	case drain.HasWanted(a) && h.Unschedulable:
		return Activity{"is empty, as an administrator wants since " + a[drain.Wanted], ""}
	case drain.HasWanted(a):
		return Activity{"keeps its pods, because no other host takes them", ""}
	case a[drain.CordonedBy] != "":
		return Activity{"takes pods again in a moment", ""}
	case h.Unschedulable:
		return Activity{"is cordoned", ""}
	case h.failing():
		return Activity{"failed: " + cmp.Or(h.Reason, "it gave no reason"), ""}
	default:
		return Activity{Does: h.Trouble}
	}
}
