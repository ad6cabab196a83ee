package twonode

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/handover"
)

// maxMessage bounds a condition's message, in bytes: it is for reading.
const maxMessage = 4 << 10

// setConditions keeps the conditions of etcd's object, those of others among
// them untouched.
func (r *Reconciler) setConditions(ctx context.Context, etcd *operatorv1.Etcd, want []handover.Condition) error {
	merged, changed := handover.Merge(kept(etcd), shortened(want), r.Now().Truncate(1e9))
	if !changed {
		return nil
	}
	var list []operatorv1.OperatorCondition
	for _, old := range etcd.Status.Conditions {
		if !slices.ContainsFunc(merged, func(c handover.Condition) bool { return c.Type == old.Type }) {
			list = append(list, old)
		}
	}
	for _, c := range merged {
		list = append(list, written(c))
	}
	// A list is replaced as a whole, so what others wrote meanwhile must not be
	// lost: the version that was read has to be the one that is changed.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": etcd.ResourceVersion},
		"status":   map[string]any{"conditions": list},
	})
	if err != nil {
		return err
	}
	if err := r.Client.Status().Patch(ctx, etcd, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write the conditions of etcd's object: %w", err)
	}
	return nil
}

// kept are the conditions of this controller that the object has.
func kept(etcd *operatorv1.Etcd) []handover.Condition {
	var out []handover.Condition
	for _, c := range etcd.Status.Conditions {
		if slices.Contains(handover.ConditionTypes(), c.Type) {
			out = append(out, handover.Condition{
				Type: c.Type, Status: c.Status == operatorv1.ConditionTrue, Reason: c.Reason, Message: c.Message,
				Changed: c.LastTransitionTime.Time,
			})
		}
	}
	return out
}

func shortened(want []handover.Condition) []handover.Condition {
	out := slices.Clone(want)
	for i := range out {
		if len(out[i].Message) > maxMessage {
			out[i].Message = out[i].Message[:maxMessage] + " ..."
		}
	}
	return out
}

func written(c handover.Condition) operatorv1.OperatorCondition {
	status := operatorv1.ConditionFalse
	if c.Status {
		status = operatorv1.ConditionTrue
	}
	return operatorv1.OperatorCondition{
		Type: c.Type, Status: status, Reason: c.Reason, Message: c.Message, LastTransitionTime: metav1.NewTime(c.Changed),
	}
}

// holds reports whether a condition of the object is true.
func holds(etcd *operatorv1.Etcd, kind string) bool {
	return slices.ContainsFunc(etcd.Status.Conditions, func(c operatorv1.OperatorCondition) bool {
		return c.Type == kind && c.Status == operatorv1.ConditionTrue
	})
}
