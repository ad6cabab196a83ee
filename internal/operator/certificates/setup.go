package certificates

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// kinds are the kinds of the Gateway API that name sources. A zero value means
// that the cluster does not know the kind.
type kinds struct{ gateway, policy, grant schema.GroupVersionKind }

// known returns the kinds that the cluster knows. A look that failed is an error: taken for a cluster
// without Gateways it would delete the copies of all that they name.
func known(mapper meta.RESTMapper) (kinds, error) {
	var out kinds
	for kind, to := range map[string]*schema.GroupVersionKind{"Gateway": &out.gateway, "BackendTLSPolicy": &out.policy, "ReferenceGrant": &out.grant} {
		m, err := mapper.RESTMapping(schema.GroupKind{Group: decide.GatewayGroup, Kind: kind})
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return kinds{}, fmt.Errorf("check whether the cluster has the kind %s: %w", kind, err)
		}
		*to = m.GroupVersionKind
	}
	return out, nil
}

// SetUp makes the manager call the reconciler whenever an object changes that
// names a source, or a source that is named. It reads the whole cluster by a
// cache of its own: the manager's cache holds only a few namespaces, and whole
// Secrets.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	var err error
	if r.kinds, err = known(mgr.GetRESTMapper()); err != nil {
		return err
	}
	all, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: strip,
	})
	if err != nil {
		return fmt.Errorf("cache of routes: %w", err)
	}
	if err := mgr.Add(all); err != nil {
		return fmt.Errorf("cache of routes: %w", err)
	}
	r.Routes = all
	once := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: decide.CertificatesNamespace}}}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("certificates").
		Watches(&operatorv1.IngressController{}, once).
		WatchesRawSource(source.Kind[client.Object](all, &networkingv1.Ingress{}, once))
	for _, kind := range []schema.GroupVersionKind{r.kinds.gateway, r.kinds.policy, r.kinds.grant} {
		if !kind.Empty() {
			b = b.WatchesRawSource(source.Kind[client.Object](all, unknown(kind), once))
		}
	}
	for _, kind := range []string{decide.KindSecret, decide.KindConfigMap} {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		counts := predicate.NewPredicateFuncs(func(o client.Object) bool { return r.counts(kind, o) })
		b = b.WatchesRawSource(source.Kind[client.Object](all, o, once, counts))
	}
	return b.Complete(r)
}

// strip removes what nobody here needs. An annotation may hold a whole Secret:
// the one with what was applied last.
func strip(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
		annotations := m.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		m.SetAnnotations(annotations)
	}
	return o, nil
}

func unknown(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// routes reads everything that may name a source.
func (r *Reconciler) routes(ctx context.Context) (decide.Routes, error) {
	var out decide.Routes
	var controllers operatorv1.IngressControllerList
	if err := r.Client.List(ctx, &controllers, client.InNamespace(decide.Namespace)); err != nil {
		return out, fmt.Errorf("list IngressControllers: %w", err)
	}
	for i := range controllers.Items {
		out.Classes = append(out.Classes, decide.ClassName(controllers.Items[i].Name))
	}
	var ingresses networkingv1.IngressList
	if err := r.Routes.List(ctx, &ingresses); err != nil {
		return out, fmt.Errorf("list Ingresses: %w", err)
	}
	out.Ingresses = ingresses.Items
	var err error
	if out.Gateways, err = list[decide.Gateway](ctx, r.Routes, r.kinds.gateway); err != nil {
		return out, err
	}
	if out.Policies, err = list[decide.BackendTLSPolicy](ctx, r.Routes, r.kinds.policy); err != nil {
		return out, err
	}
	out.Grants, err = list[decide.ReferenceGrant](ctx, r.Routes, r.kinds.grant)
	return out, err
}

// list reads the objects of a kind that this program has no type for, or none if
// the cluster does not know the kind.
func list[T any](ctx context.Context, c client.Reader, kind schema.GroupVersionKind) ([]T, error) {
	if kind.Empty() {
		return nil, nil
	}
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, found); err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
	}
	out := make([]T, len(found.Items))
	for i := range found.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, &out[i]); err != nil {
			return nil, fmt.Errorf("read %s %s/%s: %w", kind.Kind, found.Items[i].GetNamespace(), found.Items[i].GetName(), err)
		}
	}
	return out, nil
}
