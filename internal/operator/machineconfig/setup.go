package machineconfig

import (
	"context"
	"fmt"
	"reflect"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// Known reports whether a cluster has the kinds that the controller reads. One of
// an earlier release has not.
func Known(m meta.RESTMapper) (bool, error) {
	return has(m,
		mcfgv1.GroupVersion.WithKind("MachineConfig"), mcfgv1.GroupVersion.WithKind("MachineConfigPool"), operatorv1.GroupVersion.WithKind("MachineConfiguration"),
		mcfgv1.GroupVersion.WithKind("KubeletConfig"), mcfgv1.GroupVersion.WithKind("ContainerRuntimeConfig"))
}

// KnownMirrors reports whether a cluster has the kinds that name mirrors for all hosts.
func KnownMirrors(m meta.RESTMapper) (bool, error) {
	return has(m, configv1.GroupVersion.WithKind(decide.DigestMirrorSet), configv1.GroupVersion.WithKind(decide.TagMirrorSet))
}

// has reports whether a cluster has all of some kinds.
func has(m meta.RESTMapper, kinds ...schema.GroupVersionKind) (bool, error) {
	for _, kind := range kinds {
		_, err := m.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("check whether the cluster has the kind %s: %w", kind.Kind, err)
		}
	}
	return true, nil
}

// SetUp makes the manager call the reconciler whenever something changes that a
// decision uses.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: clusterName}}}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("machineconfig").
		Watches(&mcfgv1.MachineConfig{}, all).
		Watches(&mcfgv1.MachineConfigPool{}, all).
		Watches(&mcfgv1.KubeletConfig{}, all).
		Watches(&mcfgv1.ContainerRuntimeConfig{}, all).
		Watches(&operatorv1.MachineConfiguration{}, all).
		Watches(&configv1.Proxy{}, all).
		Watches(&corev1.ConfigMap{}, all, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == decide.BundleNamespace }))).
		Watches(&corev1.Node{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: hostChanged}))
	if r.TwoNode {
		b = b.Watches(&etcdv1.PacemakerCluster{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: sparesChanged}))
	}
	if r.Mirrors {
		b = b.Watches(&configv1.ImageDigestMirrorSet{}, all).Watches(&configv1.ImageTagMirrorSet{}, all)
	}
	return b.Complete(r)
}

// hostChanged reports whether a node changed in something that decisions use. Its
// heartbeat does not count.
func hostChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, also := e.ObjectNew.(*corev1.Node)
	return !ok || !also || !reflect.DeepEqual(rollout.HostOf(before), rollout.HostOf(after))
}

// sparesChanged reports whether another control plane can be spared than before.
// Signs of life do not count.
func sparesChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*etcdv1.PacemakerCluster)
	after, also := e.ObjectNew.(*etcdv1.PacemakerCluster)
	if !ok || !also {
		return true
	}
	of := func(c *etcdv1.PacemakerCluster) map[string]rollout.Spare {
		return rollout.PairSpares(c.Status, c.Status.LastUpdated.Time)
	}
	return !reflect.DeepEqual(of(before), of(after))
}
