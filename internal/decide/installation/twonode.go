package installation

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/handover"
)

// TwoNode tells how far the set-up of two control planes is, by the conditions
// of etcd's object. The two survive the loss of either only after the set-up, so
// the installation is not complete before.
type TwoNode struct {
	Done bool
	// Doing describes the present step. Failing is the error of a step that fails;
	// that step is tried again all the same.
	Doing, Failing string
}

// OfTwoNode reads the conditions. If there are none, the operator has not
// reported yet.
func OfTwoNode(conditions []handover.Condition) TwoNode {
	available, _ := find(conditions, handover.SetupAvailable)
	progressing, said := find(conditions, handover.SetupProgressing)
	degraded, _ := find(conditions, handover.SetupDegraded)
	out := TwoNode{
		Done:  available.Status && said && !progressing.Status && !degraded.Status,
		Doing: "the operator has not started yet",
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
