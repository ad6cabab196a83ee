// Package health is the operator's controller of the health of two hosts. It
// creates the object PacemakerCluster once etcd is handed over, judges what hosts
// write there, publishes in etcd's object whether that degrades it, and makes
// events of changes. Package clusterhealth decides what counts as degraded. On every
// site the package gives Prometheus' operator the alerts.
package health

import (
	"context"
	"fmt"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/operator/etcdobject"
)

// clusterName is the name of the objects that there is one of.
const clusterName = "cluster"

// The pauses before a look at the cluster that no event asked for.
const (
	lookAnew = 100 * time.Millisecond
	resync   = 30 * time.Second
)

// Reconciler judges the health of the hosts.
type Reconciler struct {
	Client client.Client
	Now    func() time.Time

	// last is the time in the last seen status, seen the moment when that status
	// was first seen. moved is true if another status was seen before.
	last, seen time.Time
	moved      bool
	told       map[string]bool
}

// SetUp makes the manager call the reconciler whenever something changes that it
// judges.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: clusterName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("health").
		Watches(&operatorv1.Etcd{}, all).
		Watches(&etcdv1.PacemakerCluster{}, all).
		Complete(r)
}

// Reconcile judges once. The result does not depend on earlier ones, so the next
// look repeats a write that failed.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	after, err := r.step(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the cluster changed after it was read
	}
	return reconcile.Result{RequeueAfter: after}, err
}

func (r *Reconciler) step(ctx context.Context) (time.Duration, error) {
	etcd := &operatorv1.Etcd{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, etcd); err != nil {
		return 0, client.IgnoreNotFound(fmtErr("read etcd's object", err))
	}
	in := clusterhealth.Input{Now: r.Now()}
	in.HandedOver, in.Since = handedOver(etcd)
	if in.HandedOver {
		object, err := r.object(ctx)
		if err != nil {
			return 0, err
		}
		in.Object = object
		in.Seen, in.Moved = r.note(object, in.Now)
	}
	v := clusterhealth.Judge(in)
	if err := etcdobject.SetConditions(ctx, r.Client, etcd, []handover.Condition{v.Condition}, r.Now()); err != nil {
		return 0, err
	}
	if err := r.tell(ctx, in); err != nil {
		return 0, err
	}
	if v.Again > 0 {
		return min(v.Again, resync), nil
	}
	return resync, nil
}

func fmtErr(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }

func handedOver(etcd *operatorv1.Etcd) (bool, time.Time) {
	for _, c := range etcd.Status.Conditions {
		if c.Type == handover.CompletedTransition {
			return c.Status == operatorv1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, time.Time{}
}

// object returns the object, and creates it if there is none. It creates no
// status, because that is the hosts' to write.
func (r *Reconciler) object(ctx context.Context) (*etcdv1.PacemakerCluster, error) {
	o := &etcdv1.PacemakerCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, o)
	if err == nil {
		return o, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmtErr("read PacemakerCluster", err)
	}
	o = &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}
	if err := r.Client.Create(ctx, o); err != nil {
		return nil, fmtErr("create PacemakerCluster", err)
	}
	return o, nil
}

// note remembers when the time of the status was last seen to change.
func (r *Reconciler) note(o *etcdv1.PacemakerCluster, now time.Time) (seen time.Time, moved bool) {
	at := o.Status.LastUpdated.Time
	if r.seen.IsZero() || !at.Equal(r.last) {
		r.moved = !r.seen.IsZero() && !at.IsZero()
		r.last, r.seen = at, now
	}
	return r.seen, r.moved
}

// tell makes the events of changes. Their names follow from their content, so
// that no operator makes the same one again.
func (r *Reconciler) tell(ctx context.Context, in clusterhealth.Input) error {
	known := map[string]bool{}
	for _, e := range clusterhealth.Events(in.Object, in.Now) {
		if !r.told[e.Name] {
			if err := r.Client.Create(ctx, e.Object("holdfast-operator", "holdfast.io/operator", "health")); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmtErr("create event "+e.Reason, err)
			}
		}
		known[e.Name] = true
	}
	r.told = known
	return nil
}
