package ingress

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// objects returns all objects that were found, including others', without those
// that are only read.
func (g *gathered) objects() []client.Object {
	var out []client.Object
	out = add(out, g.published)
	out = add(out, g.budget)
	out = add(out, g.marker)
	out = add(out, g.internal)
	out = add(out, g.policy)
	out = add(out, g.class)
	out = add(out, g.gatewayClass)
	out = add(out, g.monitor)
	out = add(out, g.configMap)
	out = add(out, g.hostList)
	out = add(out, g.formerHosts)
	out = add(out, g.served)
	return add(out, g.deployment)
}

func add[T any, P interface {
	*T
	client.Object
}](list []client.Object, o P) []client.Object {
	if o == nil {
		return list
	}
	return append(list, o)
}

// rest returns the objects that a deletion removes after the routers.
func (g *gathered) rest() []client.Object {
	var out []client.Object
	for _, o := range g.objects() {
		_, deployment := o.(*appsv1.Deployment)
		if !deployment && decide.Owned(g.name, o.GetLabels()) && o.GetDeletionTimestamp() == nil {
			out = append(out, o)
		}
	}
	return out
}

// write makes the objects what is wanted, in an order in which each finds what it
// names, and deletes what the strategy does not have.
func (r *Reconciler) write(ctx context.Context, g *gathered, want render.Objects) error {
	err := errors.Join(
		ensure(ctx, r, g, g.configMap, want.Config, plain[corev1.ConfigMap]("data")),
		ensure(ctx, r, g, g.internal, want.Internal, decide.Service),
		ensure(ctx, r, g, g.policy, want.Policy, plain[networkingv1.NetworkPolicy]("spec.ingress.from", "spec.egress.to", "spec.egress.ports")),
		ensure(ctx, r, g, g.class, r.defaultClass(g, want.Class), plain[networkingv1.IngressClass]()),
		ensure(ctx, r, g, g.gatewayClass, want.GatewayClass, unstructuredOverlay),
		r.keepMonitor(ctx, g, want.Monitor),
		r.keepHosts(ctx, g, want.Hosts),
		ensure(ctx, r, g, g.marker, want.Marker, plain[networkingv1.Ingress]("spec.tls", "spec.defaultBackend", "spec.rules.host")),
		ensure(ctx, r, g, g.published, want.Published, decide.Service),
		ensure(ctx, r, g, g.deployment, want.Deployment, plain[appsv1.Deployment](render.GoneFromDeployment...)),
	)
	if err != nil {
		return err
	}
	return errors.Join(
		ensure(ctx, r, g, g.budget, want.Budget, plain[policyv1.PodDisruptionBudget]("spec.minAvailable")),
		r.obsolete(ctx, g, g.published, want.Published == nil),
		r.obsolete(ctx, g, g.budget, want.Budget == nil),
	)
}

// defaultClass makes the default IngressController's class the default class of
// the cluster. It does so once: whoever removed that meant it.
func (r *Reconciler) defaultClass(g *gathered, class *networkingv1.IngressClass) *networkingv1.IngressClass {
	if g.name != decide.DefaultName || g.class != nil {
		return class
	}
	for i := range g.classes {
		if g.classes[i].Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return class
		}
	}
	class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	return class
}

// obsolete deletes an object of ours that is not wanted any more.
func (r *Reconciler) obsolete(ctx context.Context, g *gathered, o client.Object, gone bool) error {
	if !gone || isNil(o) || !decide.Owned(g.name, o.GetLabels()) || o.GetDeletionTimestamp() != nil {
		return nil
	}
	return r.drop(ctx, o)
}

// drop deletes exactly the version of the object that was read.
func (r *Reconciler) drop(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	opts = append(opts, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err := r.Client.Delete(ctx, o, opts...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", kindOf(o), o.GetName(), err)
	}
	log.FromContext(ctx).Info("deleted", "kind", kindOf(o), "object", o.GetName())
	return nil
}

// merge returns what an object has to become and whether that is a change.
type merge[P any] func(live, wanted P) (P, bool, error)

// plain lays the wanted fields over the present object.
func plain[T any](gone ...string) merge[*T] {
	return func(live, wanted *T) (*T, bool, error) { return decide.Overlay(live, wanted, gone...) }
}

// ensure makes one object what is wanted. It leaves somebody else's alone.
func ensure[T any, P interface {
	*T
	client.Object
}](ctx context.Context, r *Reconciler, g *gathered, live, wanted P, with merge[P]) error {
	if wanted == nil {
		return nil
	}
	if live == nil {
		if err := r.Client.Create(ctx, wanted); err != nil {
			return fmt.Errorf("create %s %s: %w", kindOf(wanted), wanted.GetName(), err)
		}
		log.FromContext(ctx).Info("created", "kind", kindOf(wanted), "object", wanted.GetName())
		return nil
	}
	if !decide.Owned(g.name, live.GetLabels()) || live.GetDeletionTimestamp() != nil {
		return nil
	}
	merged, changed, err := with(live, wanted)
	if err != nil || !changed {
		return err
	}
	if err := r.Client.Patch(ctx, merged, patchFrom(live)); err != nil {
		return fmt.Errorf("change %s %s: %w", kindOf(wanted), wanted.GetName(), err)
	}
	log.FromContext(ctx).Info("changed", "kind", kindOf(wanted), "object", wanted.GetName())
	return nil
}

// patchFrom returns a patch that names only what differs: fields of a newer API
// that this program does not know stay. In a Deployment that holds inside lists
// too.
func patchFrom(live client.Object) client.Patch {
	if _, ok := live.(*appsv1.Deployment); ok {
		return client.StrategicMergeFrom(live, client.MergeFromWithOptimisticLock{})
	}
	return lockedMerge(live)
}

func unstructuredOverlay(live, wanted *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	merged, changed, err := decide.Overlay(&live.Object, &wanted.Object)
	if err != nil || !changed {
		return live, false, err
	}
	return &unstructured.Unstructured{Object: *merged}, true, nil
}

// setStatus writes the status if it differs.
func (r *Reconciler) setStatus(ctx context.Context, ic *operatorv1.IngressController, status operatorv1.IngressControllerStatus) error {
	measure(ic.Name, status.Conditions)
	if equality.Semantic.DeepEqual(ic.Status, status) {
		return nil
	}
	after := ic.DeepCopy()
	after.Status = status
	if err := r.Client.Status().Patch(ctx, after, lockedMerge(ic)); err != nil {
		return fmt.Errorf("write the status of IngressController %s: %w", ic.Name, err)
	}
	r.tell(ic, status)
	return nil
}

// kindOf returns the name of a kind for people.
func kindOf(o client.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(o).Elem().Name()
}

func isNil(o client.Object) bool { return o == nil || reflect.ValueOf(o).IsNil() }
