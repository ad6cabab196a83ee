package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusteroperator"
	"github.com/holdfast/holdfast/internal/model/state"
)

// owner owns this controller's fields of ClusterOperators: others have theirs.
const owner = client.FieldOwner("holdfast-operator-upgrade")

// operators writes the ClusterOperators that differ from what is known.
func (r *Reconciler) operators(ctx context.Context, g *gathered, next cluster.Step) error {
	var list configv1.ClusterOperatorList
	if err := r.Live.List(ctx, &list); err != nil {
		return fmt.Errorf("list ClusterOperators: %w", err)
	}
	in := clusteroperator.Input{
		Facts: g.survey.Facts, Step: said(next), Releases: g.survey.Releases, Controllers: g.works.controllers, Scheduler: g.works.scheduler,
		Workloads: g.works.Workloads, Record: g.book.record, Parts: g.seen.Parts, Pools: poolsOf(g.seen.Pools),
	}
	for _, o := range clusteroperator.All(in) {
		i := slices.IndexFunc(list.Items, func(have configv1.ClusterOperator) bool { return have.Name == o.Name })
		var have *configv1.ClusterOperator
		if i >= 0 {
			have = &list.Items[i]
		}
		if err := r.operatorSays(ctx, g.seen.Now, o, have); err != nil {
			return err
		}
	}
	return nil
}

func poolsOf(pools state.Fact[[]mcfgv1.MachineConfigPool]) state.Fact[[]clusteroperator.Pool] {
	if !pools.Known {
		return state.Fact[[]clusteroperator.Pool]{}
	}
	out := []clusteroperator.Pool{}
	for _, p := range pools.Value {
		one := clusteroperator.Pool{Name: p.Name}
		for _, c := range p.Status.Conditions {
			switch on := c.Status == corev1.ConditionTrue; c.Type {
			case mcfgv1.MachineConfigPoolUpdating:
				one.Updating = on
			case mcfgv1.MachineConfigPoolDegraded, mcfgv1.MachineConfigPoolRenderDegraded:
				if on {
					one.Degraded, one.Message = true, c.Message
				}
			default:
			}
		}
		out = append(out, one)
	}
	return state.Known(out)
}

// operatorSays writes one object. have is nil while it is not there.
func (r *Reconciler) operatorSays(ctx context.Context, now time.Time, o clusteroperator.Operator, have *configv1.ClusterOperator) error {
	if have == nil {
		err := r.Client.Create(ctx, &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: o.Name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the ClusterOperator %s: %w", o.Name, err)
		}
		have = &configv1.ClusterOperator{}
	}
	r.patient(now, o, have.Status.Conditions)
	same := slices.Equal(o.Versions, have.Status.Versions)
	for i := range o.Conditions {
		c := &o.Conditions[i]
		c.Message = short(c.Message)
		c.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
		before, there := conditionOf(have.Status.Conditions, c.Type)
		if there && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
		same = same && there && before.Status == c.Status && before.Reason == c.Reason && before.Message == c.Message
	}
	if same {
		return nil
	}
	status := map[string]any{"conditions": o.Conditions}
	if len(o.Versions) > 0 {
		status["versions"] = o.Versions
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": configv1.GroupVersion.String(), "kind": "ClusterOperator", "metadata": map[string]any{"name": o.Name}, "status": status,
	})
	if err != nil {
		return err
	}
	target := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	if err := r.Client.Status().Patch(ctx, target, client.RawPatch(types.ApplyPatchType, patch), owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("write the ClusterOperator %s: %w", o.Name, err)
	}
	return nil
}

func conditionOf(list []configv1.ClusterOperatorStatusCondition, kind configv1.ClusterStatusConditionType) (configv1.ClusterOperatorStatusCondition, bool) {
	i := slices.IndexFunc(list, func(c configv1.ClusterOperatorStatusCondition) bool { return c.Type == kind })
	if i < 0 {
		return configv1.ClusterOperatorStatusCondition{}, false
	}
	return list[i], true
}

// patience is for how long a part may be unwell before it counts as degraded: a host that
// boots, or has its turn, is no reason to call somebody.
const patience = 5 * time.Minute

// patient keeps Degraded as it was until the part has been unwell for patience. Another
// process begins to count anew.
func (r *Reconciler) patient(now time.Time, o clusteroperator.Operator, before []configv1.ClusterOperatorStatusCondition) {
	if r.unwell == nil {
		r.unwell = map[string]time.Time{}
	}
	for i := range o.Conditions {
		c := &o.Conditions[i]
		if !clusteroperator.IsDegraded(c.Type) {
			continue
		}
		if c.Status != configv1.ConditionTrue {
			delete(r.unwell, o.Name)
			continue
		}
		since, counts := r.unwell[o.Name]
		if !counts {
			since = now
			r.unwell[o.Name] = now
		}
		if was, there := conditionOf(before, c.Type); there && was.Status == configv1.ConditionTrue {
			continue
		}
		if now.Sub(since) < patience {
			c.Status, c.Reason, c.Message = configv1.ConditionFalse, "AsExpected", ""
		}
	}
}
