package handover

import (
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage limits a condition's message, in bytes, so that people can read it.
const maxMessage = 4 << 10

// Of converts a condition of the API.
func Of(c operatorv1.OperatorCondition) Condition {
	return Condition{
		Type: c.Type, Status: c.Status == operatorv1.ConditionTrue, Reason: c.Reason, Message: c.Message, Changed: c.LastTransitionTime.Time,
	}
}

// Operator converts the condition to the API's type.
func (c Condition) Operator() operatorv1.OperatorCondition {
	status := operatorv1.ConditionFalse
	if c.Status {
		status = operatorv1.ConditionTrue
	}
	if len(c.Message) > maxMessage { // the API would change half a character, and each update would write it again
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + " ..."
	}
	return operatorv1.OperatorCondition{
		Type: c.Type, Status: status, Reason: c.Reason, Message: c.Message, LastTransitionTime: metav1.NewTime(c.Changed),
	}
}

// Kept brings the conditions of etcd's object to the wanted state, and reports
// whether that changed any. It leaves the conditions of other writers alone, and
// keeps the time of a condition whose status stays the same.
func Kept(have []operatorv1.OperatorCondition, want []Condition, now time.Time) (out []operatorv1.OperatorCondition, changed bool) {
	out = slices.Clone(have)
	for _, c := range want {
		c.Changed = now
		next := c.Operator()
		i := slices.IndexFunc(out, func(old operatorv1.OperatorCondition) bool { return old.Type == c.Type })
		if i < 0 {
			out, changed = append(out, next), true
			continue
		}
		if out[i].Status == next.Status {
			next.LastTransitionTime = out[i].LastTransitionTime
		}
		if out[i] != next {
			out[i], changed = next, true
		}
	}
	return out, changed
}
