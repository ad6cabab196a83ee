package installation

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/handover"
)

// TwoNode is how far the set-up of two control planes is, by the conditions of
// etcd's object. They survive the loss of either only when it is done, so the
// installation is not complete before.
type TwoNode struct {
	Done bool
	// Doing says what it is at, Failing in whose words a step fails; that step
	// is tried again all the same.
	Doing, Failing string
}

// OfTwoNode reads the conditions. Without any the operator has not spoken yet.
func OfTwoNode(conditions []handover.Condition) TwoNode {
	available, _ := find(conditions, handover.SetupAvailable)
	progressing, said := find(conditions, handover.SetupProgressing)
	degraded, _ := find(conditions, handover.SetupDegraded)
	out := TwoNode{
		Done:  available.Status && said && !progressing.Status && !degraded.Status,
		Doing: "the operator has not begun yet",
	}
	if said {
		out.Doing = progressing.Message
	}
	if degraded.Status {
		out.Failing = strings.TrimSpace(degraded.Message)
	}
	return out
}

func find(conditions []handover.Condition, kind string) (handover.Condition, bool) {
	i := slices.IndexFunc(conditions, func(c handover.Condition) bool { return c.Type == kind })
	if i < 0 {
		return handover.Condition{}, false
	}
	return conditions[i], true
}
