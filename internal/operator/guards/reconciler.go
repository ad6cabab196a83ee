// Package guards is the operator's controller of guards: admission policies that keep a
// cluster of two control planes from being taken apart, keep the accounts on workers to
// their own hosts, and keep out hosts that were taken out of the cluster. The policies hold
// without the controller. It restores guards that somebody deleted or weakened, follows the
// names of the control planes and the list of hosts that were taken out, and lifts a guard for as
// long as an administrator asks for. In a cluster of another kind it removes the guards of two
// control planes. Package render/guards renders the policies.
package guards

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	render "github.com/holdfast/holdfast/internal/render/guards"
)

// clusterName is the name of the object that says what the cluster is.
const clusterName = "cluster"

// The pauses before a look at the cluster that no event asked for.
const (
	lookAnew = 100 * time.Millisecond
	resync   = 30 * time.Second
)

// Reconciler keeps guards.
type Reconciler struct {
	Client client.Client
	// Events publishes events for people.
	Events events.EventRecorder
	Now    func() time.Time

	// told is the last event text about each guard, by its name.
	told map[string]string
}

// SetUp makes the manager call the reconciler whenever a guard changes, or an
// object from which guards are made.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: clusterName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("guards").
		Watches(&admissionv1.ValidatingAdmissionPolicy{}, all).
		Watches(&admissionv1.ValidatingAdmissionPolicyBinding{}, all).
		Watches(&configv1.Infrastructure{}, all).
		Watches(&corev1.Node{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: roleChanged})).
		Watches(&corev1.ConfigMap{}, all, builder.WithPredicates(predicate.NewPredicateFuncs(isList))).
		Watches(&corev1.Secret{}, all, builder.WithPredicates(predicate.NewPredicateFuncs(isAccount))).
		Complete(r)
}

// Reconcile does one look, independent of earlier looks.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	after, err := r.step(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the cluster changed after it was read
	}
	return reconcile.Result{RequeueAfter: after}, err
}

func (r *Reconciler) step(ctx context.Context) (time.Duration, error) {
	infra := &configv1.Infrastructure{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, infra); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("read the cluster's topology: %w", err)
	}
	have, err := r.present(ctx)
	if err != nil {
		return 0, err
	}
	out, err := r.takenOut(ctx)
	if err != nil {
		return 0, err
	}
	always, err := r.keepAll(ctx, have, render.Always(out), false)
	if err != nil {
		return 0, err
	}
	topology := infra.Status.ControlPlaneTopology
	if topology == "" {
		return always, nil // an unknown topology is no reason to remove any
	}
	if topology == configv1.DualReplicaTopologyMode {
		hosts, err := r.controlPlanes(ctx)
		if err != nil {
			return 0, err
		}
		// With fewer hosts, the names of the others are missing, not gone.
		again, err := r.keepAll(ctx, have, render.All(hosts), len(hosts) < wanted)
		if err != nil {
			return 0, err
		}
		always = min(always, again)
	}
	return always, r.removeAll(ctx, have) // those of another release or topology
}

// keepAll brings the given guards to what they should be, removes them from have,
// and returns the pause before the next look.
func (r *Reconciler) keepAll(ctx context.Context, have present, guards []render.Guard, onlyMissing bool) (time.Duration, error) {
	again, now := resync, r.Now()
	for _, g := range guards {
		lift := render.Lift{}
		if live := have.policies[g.Name()]; live != nil {
			lift = render.Lifted(live.Annotations, now)
		}
		if lift.Active(now) {
			g = g.Warning()
			again = min(again, lift.Until.Sub(now))
		}
		keep := keeping{onlyMissing: onlyMissing, lift: lift, now: now}
		if err := r.keep(ctx, have, g, keep); err != nil {
			return 0, fmt.Errorf("keep the guard %s: %w", g.Name(), err)
		}
		delete(have.policies, g.Name())
		delete(have.bindings, g.Name())
	}
	return again, nil
}

func (r *Reconciler) removeAll(ctx context.Context, have present) error {
	for name, o := range have.bindings {
		if _, ours := o.Labels[render.Label]; !ours {
			continue
		}
		if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the guard %s: %w", name, err)
		}
	}
	for name, o := range have.policies {
		if _, ours := o.Labels[render.Label]; !ours {
			continue
		}
		if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the guard %s: %w", name, err)
		}
	}
	return nil
}
