package rollout

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// Waiting is what a person wants of a host and does not get yet, or has and may have forgotten.
type Waiting struct {
	// Turn is for what the host waits until its turn for a reboot or updates; empty if nobody
	// wants any, or it has its turn. Behind is the same of Host.Behind.
	Turn, Behind string
	// InTheWay says who is in the way of a drain that an administrator wants, which began at
	// Since; empty if nobody is.
	InTheWay string
	Since    time.Time
	// Empty is since when an administrator wants the host to be empty that is so; zero for one that
	// takes pods.
	Empty time.Time
}

// waitingOf reads what a node says of it.
func waitingOf(n *corev1.Node, w, behind Wish) Waiting {
	a := n.Annotations
	var out Waiting
	if a[drain.Wanted] != "" && !drain.HasWanted(a) {
		out.InTheWay = a[drain.Waits]
		// One that cannot go on while no other host takes pods has not begun.
		if began, err := time.Parse(time.RFC3339, cmp.Or(a[drain.Began], a[drain.Wanted])); err == nil {
			out.Since = began
		}
	}
	if drain.HasWanted(a) && (n.Spec.Unschedulable || a[drain.CordonedBy] != "") {
		if since, err := time.Parse(time.RFC3339, a[drain.Wanted]); err == nil {
			out.Empty = since
		}
	}
	waits := func(w Wish) string {
		if !w.Open() || w.HasTurn() {
			return ""
		}
		return cmp.Or(about(w.Wanted, a[w.Names().Waits]), "holdfast-operator has not decided yet")
	}
	out.Turn, out.Behind = waits(w), waits(behind)
	return out
}

// OfWishes returns what people are told of a reboot, of updates and of a drain that somebody
// wants and that do not come, and of a host that is empty: whoever wished may have gone home since.
func (h Host) OfWishes(now time.Time) []Trouble {
	var out []Trouble
	for _, of := range []struct {
		wish Wish
		why  string
	}{{h.Wish, h.Waiting.Turn}, {h.Behind, h.Waiting.Behind}} {
		w := of.wish
		if of.why == "" || w.At.After(now) {
			continue
		}
		limit := BootLateAfter
		if w.InWindow {
			limit = WindowLateAfter
		}
		t := Trouble{Host: h.Name, Kind: WishWaits, Patch: w.Patch, Since: w.At, Why: of.why, Cancel: w.Cancel(h.Name)}
		t.Late = t.older(now, limit)
		out = append(out, t)
	}
	if h.Waiting.InTheWay != "" && !h.working() && !h.rebooting() {
		t := Trouble{Host: h.Name, Kind: DrainWaits, Since: h.Waiting.Since, InTheWay: h.Waiting.InTheWay, Cancel: "holdfast host uncordon " + h.Name}
		t.Late = t.older(now, LateAfter)
		out = append(out, t)
	}
	if !h.Waiting.Empty.IsZero() {
		t := Trouble{Host: h.Name, Kind: IsEmpty, Since: h.Waiting.Empty, Cancel: "holdfast host uncordon " + h.Name}
		t.Late = t.older(now, EmptyLateAfter)
		out = append(out, t)
	}
	return out
}

// Cancel is the command that takes a wish for a host back.
func (w Wish) Cancel(host string) string {
	if w.Patch {
		return "holdfast host patch " + host + " --cancel"
	}
	return "holdfast host reboot " + host + " --cancel"
}
