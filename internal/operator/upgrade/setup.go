package upgrade

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Known reports whether a cluster has the kind ClusterVersion. One of an earlier release
// has not.
func Known(m meta.RESTMapper) (bool, error) {
	kind := configv1.GroupVersion.WithKind("ClusterVersion")
	_, err := m.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether the cluster has the kind ClusterVersion: %w", err)
	}
	return true, nil
}

// SetUp makes the manager call the reconciler whenever somebody wishes something, and
// whenever a host takes a step.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: annotation.VersionName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("upgrade").
		Watches(&configv1.ClusterVersion{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: wished})).
		Watches(&corev1.Node{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: hostMoved})).
		Complete(r)
}

// wished reports whether a person changed something: the status is this controller's own.
func wished(e event.UpdateEvent) bool {
	if e.ObjectOld == nil || e.ObjectNew == nil || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
		return true
	}
	before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
	for _, name := range annotation.GivenByPeople() {
		if before[name] != after[name] {
			return true
		}
	}
	return false
}

// hostMoved reports whether a host took a step, or came or went. What it tells again and
// again does not count.
func hostMoved(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, also := e.ObjectNew.(*corev1.Node)
	return !ok || !also || moveOf(before) != moveOf(after)
}

// move is what of a host changes a step.
type move struct {
	ready, control bool
	step, upgrade  string
	held, runs     string
	partFailed     string
	raised         state.Fact[bool]
	whole          int
}

func moveOf(n *corev1.Node) move {
	m := move{control: survey.ControlPlane(n)}
	for _, c := range n.Status.Conditions {
		m.ready = m.ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if said, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf]); err == nil {
		m.step, m.upgrade, m.held, m.runs = string(said.Journal.Step), said.Journal.Upgrade, said.Held, said.Facts.Release.Value
		m.partFailed = said.PartFailed
		m.raised, m.whole = said.Raised, len(said.Facts.Whole.Value)
	}
	return m
}
