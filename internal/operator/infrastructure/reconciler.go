// Package infrastructure is the operator's controller of VIPs. It compares the
// spec of the Infrastructure object with its status, lets hosts look who answers
// for a new address, and reports in the ClusterOperator network how far the hosts
// are. Package vips decides whether a requested change is accepted.
package infrastructure

import (
	"context"
	"net/netip"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

// asker marks the operator's questions to hosts.
const asker = "operator"

// The pauses before a look at the cluster that no event asked for.
const (
	lookAnew        = 100 * time.Millisecond
	lookWhileAsking = 500 * time.Millisecond
	lookUnfinished  = 2 * time.Second
	lookWhenDone    = 30 * time.Second
)

// Reconciler brings a cluster's VIPs to the requested ones.
type Reconciler struct {
	// Client reads through the cache, Live from the API.
	Client client.Client
	Live   client.Reader
	// Events publishes events for people.
	Events events.EventRecorder
	// Answers asks VIPs as a client does, and returns by VIP why it does not
	// answer, empty if it does.
	Answers func(ctx context.Context, api, ingress []netip.Addr) map[netip.Addr]string
	Now     func() time.Time

	// trouble is the problem at the last look.
	trouble vips.Trouble
	// told is the last report. It counts in a cluster that has nowhere to keep
	// it, as one of an older release.
	told    vipobject.Report
	nowhere bool
	// wrote is the time of the last written report.
	wrote time.Time
}

// SetUp makes the manager call the reconciler whenever something changes that a
// decision uses.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: vipobject.ClusterName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("infrastructure").
		Watches(&configv1.Infrastructure{}, all).
		Watches(&configv1.Network{}, all).
		Watches(&corev1.Node{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Complete(r)
}

// Reconcile looks at the cluster once and does what is to be done now. It may be
// cut off anywhere: the next look sees what was done.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	g, err := r.gather(ctx)
	if err == nil && g == nil {
		return reconcile.Result{}, nil // a cluster without an Infrastructure object
	}
	var after time.Duration
	if err == nil {
		after, err = r.step(ctx, g)
	}
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: after}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the cluster changed after it was read
	case ctx.Err() != nil:
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).Error(err, "virtual IPs")
	if complaint := r.complain(ctx, err); complaint != nil {
		log.FromContext(ctx).Error(complaint, "report it in the ClusterOperator")
	}
	return reconcile.Result{RequeueAfter: lookUnfinished}, nil
}

// step asks hosts, writes what was decided, and reports.
func (r *Reconciler) step(ctx context.Context, g *gathered) (time.Duration, error) {
	probing, d := g.decide(r.Now())
	if err := r.ask(ctx, probing); err != nil {
		return 0, err
	}
	if err := r.write(ctx, g, d); err != nil {
		return 0, err
	}
	return r.report(ctx, g, d)
}

// decide makes the decision twice, because the first one says what hosts have to
// find out.
func (g *gathered) decide(now time.Time) (vips.Probing, vips.Decision) {
	first := vips.Decide(g.snapshot)
	probing := vips.Probe(first.Unasked(), g.snapshot.Hosts, now)
	g.snapshot.Found = probing.Found
	return probing, vips.Decide(g.snapshot)
}

// report publishes the state in the ClusterOperator and by events, and returns
// the pause before the next look.
func (r *Reconciler) report(ctx context.Context, g *gathered, d vips.Decision) (time.Duration, error) {
	status := g.snapshot.Status
	if d.Status != nil {
		status = *d.Status
	}
	plan := vips.PlanOf(status, g.snapshot.UserManaged)
	s := vips.Standing{Platform: g.snapshot.Platform, Plan: plan, Decision: d, AppliedBefore: g.reported.Extension.Applied}
	if d.Outcome != vips.Unmanaged {
		s.Rollout = vips.Follow(plan, g.snapshot.Hosts, r.answers(ctx, plan))
	}
	wait, err := r.publish(ctx, g.reported, s)
	if err != nil {
		return 0, err
	}
	again := r.again(d, s)
	if wait > 0 {
		again = min(again, wait)
	}
	return again, nil
}

// answers asks the VIPs, if hosts hold any.
func (r *Reconciler) answers(ctx context.Context, p vips.Plan) map[netip.Addr]string {
	if p.UserManaged || len(p.All()) == 0 {
		return nil
	}
	return r.Answers(ctx, p.API, p.Ingress)
}

// again returns the pause before the next look.
func (r *Reconciler) again(d vips.Decision, s vips.Standing) time.Duration {
	switch {
	case d.Outcome == vips.Unmanaged:
		return lookWhenDone
	case d.Outcome == vips.Undecided, d.Status != nil, d.Spec != nil:
		return lookWhileAsking
	case !s.Complete(), r.trouble.Reason != "" && r.Now().Sub(r.trouble.Since) < vips.DegradedAfter:
		return lookUnfinished
	}
	return lookWhenDone
}

// complain reports in the ClusterOperator that this look failed, once that lasts.
func (r *Reconciler) complain(ctx context.Context, why error) error {
	standing := vips.Standing{Failure: why.Error()}
	before, err := r.reported(ctx)
	if err != nil {
		r.note(standing)
		return err
	}
	_, err = r.publish(ctx, before, standing)
	return err
}

// note updates the current trouble, and since when it lasts.
func (r *Reconciler) note(s vips.Standing) {
	r.trouble = s.Trouble().Lasting(r.trouble, r.Now())
}
