// Package etcdobject keeps conditions in the one object about etcd, to which
// several controllers write.
package etcdobject

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/handover"
)

// SetConditions brings the conditions of the object that was read to what is
// wanted, and leaves those of others alone. It writes nothing if nothing changes.
func SetConditions(ctx context.Context, c client.Client, etcd *operatorv1.Etcd, want []handover.Condition, now time.Time) error {
	list, changed := handover.Kept(etcd.Status.Conditions, want, now.Truncate(time.Second))
	if !changed {
		return nil
	}
	// A list is replaced as a whole. To lose nothing that others wrote meanwhile,
	// the change is only valid for the version that was read.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": etcd.ResourceVersion},
		"status":   map[string]any{"conditions": list},
	})
	if err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, etcd, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write the conditions of etcd's object: %w", err)
	}
	return nil
}

// Holds reports whether a condition of the object is true.
func Holds(etcd *operatorv1.Etcd, kind string) bool {
	return slices.ContainsFunc(etcd.Status.Conditions, func(c operatorv1.OperatorCondition) bool {
		return c.Type == kind && c.Status == operatorv1.ConditionTrue
	})
}
