package ingress

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// Namespaces whose objects the manager's cache must hold, by kind. Of Secrets in
// NamespaceManaged it holds only PublishedCertificates.
var (
	SecretNamespaces    = []string{decide.OperandNamespace, decide.Namespace}
	ConfigMapNamespaces = []string{decide.OperandNamespace, namespaceConfig, NamespaceManaged}
)

const (
	// namespaceConfig is the namespace in which people put authorities of
	// clients.
	namespaceConfig = "openshift-config"
	// NamespaceManaged is the namespace in which the authority of default
	// certificates is published, and what routers serve.
	NamespaceManaged = "openshift-config-managed"
)

// SetUp makes the manager call the reconciler whenever something changes that a
// decision uses.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	lacks, err := lackingForGateways(mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	r.gateways = len(lacks) == 0
	if r.lists, err = knowsLists(mgr.GetRESTMapper()); err != nil {
		return err
	}
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	theirs := handler.EnqueueRequestsFromMapFunc(owner)
	b := ctrl.NewControllerManagedBy(mgr).Named("ingress").
		Watches(&operatorv1.IngressController{}, all).
		Watches(&configv1.Infrastructure{}, all).
		Watches(&configv1.Ingress{}, all).
		Watches(&corev1.Node{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: hostChanged})).
		Watches(&corev1.Namespace{}, all, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Secret{}, all, in(append(slices.Clone(SecretNamespaces), NamespaceManaged)...)).
		Watches(&corev1.ConfigMap{}, all, in(ConfigMapNamespaces...)).
		Watches(&appsv1.Deployment{}, theirs).
		Watches(&corev1.Service{}, theirs).
		Watches(&corev1.Pod{}, theirs, in(decide.OperandNamespace)).
		Watches(&policyv1.PodDisruptionBudget{}, theirs).
		Watches(&networkingv1.NetworkPolicy{}, theirs).
		Watches(&networkingv1.Ingress{}, theirs, in(decide.OperandNamespace)).
		Watches(&networkingv1.Ingress{}, all, asked).
		Watches(&networkingv1.IngressClass{}, theirs)
	if r.lists {
		b = b.Watches(&render.RouteHosts{}, theirs)
	}
	if r.gateways {
		class := &unstructured.Unstructured{}
		class.SetGroupVersionKind(render.GatewayClassKind)
		b = b.Watches(class, theirs)
		for _, kind := range routeKinds() {
			route := &unstructured.Unstructured{}
			route.SetGroupVersionKind(kind)
			b = b.Watches(route, all, asked)
		}
	} else {
		r.noGateways = "routers serve Ingresses and no Gateways, because the cluster has no " + strings.Join(lacks, ", ") +
			": install the definitions of the Gateway API, standard channel, and restart the operator"
	}
	return b.Complete(r)
}

// asked limits a watch to changes of what objects ask routers for: their status
// is the routers' own and changes often.
var asked = builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))

// lackingForGateways returns the missing kinds without which routers would wait
// forever before they follow a Gateway. A look that failed is an error: taken for
// a cluster without them, routers would follow no Gateway until the next start.
func lackingForGateways(mapper meta.RESTMapper) ([]string, error) {
	var out []string
	for _, kind := range render.GatewayKinds() {
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("check whether the cluster has the kind %s: %w", kind.Kind, err)
		}
		if err != nil {
			out = append(out, kind.Kind+" "+kind.Version)
		}
	}
	return out, nil
}

// in limits a watch to some namespaces: other controllers make the cache hold
// more.
func in(namespaces ...string) builder.Predicates {
	return builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
		for _, n := range namespaces {
			if o.GetNamespace() == n {
				return true
			}
		}
		return false
	}))
}

// all requests a look at every IngressController, and at the one that must exist.
func (r *Reconciler) all(ctx context.Context, changed client.Object) []reconcile.Request {
	var list operatorv1.IngressControllerList
	if err := r.Client.List(ctx, &list, client.InNamespace(decide.Namespace)); err != nil {
		log.FromContext(ctx).Error(err, "list IngressControllers")
	}
	names := map[string]bool{decide.DefaultName: true}
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	if _, ok := changed.(*operatorv1.IngressController); ok && changed.GetNamespace() == decide.Namespace {
		names[changed.GetName()] = true
	}
	return requests(names)
}

// owner requests a look at the IngressController to which an object belongs, or
// would by its name: so the removal of the label is noticed too.
func owner(_ context.Context, changed client.Object) []reconcile.Request {
	names := map[string]bool{}
	for _, key := range []string{decide.LabelOwner, decide.LabelDeployment} {
		if name := changed.GetLabels()[key]; name != "" {
			names[name] = true
		}
	}
	for _, name := range decide.NamesOf(changed.GetName()) {
		names[name] = true
	}
	return requests(names)
}

func requests(names map[string]bool) []reconcile.Request {
	var out []reconcile.Request
	for name := range names {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: decide.Namespace, Name: name}})
	}
	return out
}

// hostChanged reports whether a node changed in something that decisions use. Its
// heartbeat does not count.
func hostChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, also := e.ObjectNew.(*corev1.Node)
	if !ok || !also {
		return true
	}
	return !equality.Semantic.DeepEqual(hostOf(before), hostOf(after))
}
