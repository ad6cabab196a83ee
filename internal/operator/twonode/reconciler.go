// Package twonode is the operator's controller of clusters with two control
// planes. Step by step it sets their hosts up so that either survives the loss of
// the other, and publishes in etcd's object how far that is. Package handover
// decides the next step; this package gathers the facts for it and carries it
// out.
package twonode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/operator/etcdobject"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// clusterName is the name of the objects that there is one of.
const clusterName = "cluster"

// The pauses before a look at the cluster that no event asked for: etcd's health
// and its authorities' file change without an event.
const (
	lookAnew             = 100 * time.Millisecond
	lookWhileOutstanding = 2 * time.Second
	lookWhenDone         = 30 * time.Second
)

// Reconciler brings the hosts of a two-node cluster through the steps.
type Reconciler struct {
	// Client reads through the cache, Live from the API.
	Client client.Client
	Live   client.Reader
	// Etcd returns the state of the members, by node, as far as it could ask
	// them.
	Etcd func(context.Context, []Host) map[string]handover.Member
	// CABundle is the file with the authorities of etcd.
	CABundle string
	// Record returns the text of the record of an upgrade; nil on a cluster that knows no
	// upgrades.
	Record func(context.Context) (state.Fact[string], error)
	Now    func() time.Time
}

// Host is a control plane and the address by which its peer reaches it.
type Host struct {
	Name, Address string
	// Machine identifies the machine, by the node's own annotation.
	Machine state.Machine
	// Authorities is the digest of etcd's authorities on this host, empty if the
	// host has not published it. It counts for the host's own manifest alone.
	Authorities string `json:"-"`
}

// SetUp makes the manager call the reconciler whenever something changes that a
// decision uses.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: clusterName}}}
	})
	inputs := builder.WithPredicates(predicate.NewPredicateFuncs(isInput))
	return ctrl.NewControllerManagedBy(mgr).Named("twonode").
		Watches(&configv1.Infrastructure{}, all).
		Watches(&operatorv1.Etcd{}, all).
		Watches(&corev1.Node{}, all, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&corev1.Secret{}, all, inputs).
		Watches(&batchv1.Job{}, all).
		Complete(r)
}

// Reconcile looks at the cluster once and does what is to be done now.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	two, err := r.isTwoNode(ctx)
	if err != nil || !two {
		return reconcile.Result{}, err
	}
	d, err := r.step(ctx)
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: again(d)}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the cluster changed after it was read
	default:
		return reconcile.Result{}, errors.Join(err, r.complain(ctx, err))
	}
}

func (r *Reconciler) step(ctx context.Context) (handover.Decision, error) {
	g, err := r.gather(ctx)
	if err != nil {
		return handover.Decision{}, err
	}
	d := handover.Decide(g.snapshot(r.Now()))
	return d, r.act(ctx, g, d)
}

// complain reports in etcd's object what keeps the operator from working, unless
// it is only a moment's trouble with the API.
func (r *Reconciler) complain(ctx context.Context, why error) error {
	if passing(why) {
		return nil
	}
	etcd := &operatorv1.Etcd{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: clusterName}, etcd); err != nil {
		return fmt.Errorf("report it in etcd's object: %w", err)
	}
	return etcdobject.SetConditions(ctx, r.Client, etcd, []handover.Condition{{
		Type: handover.SetupDegraded, Status: true, Reason: "OperatorFailed", Message: why.Error(),
	}}, r.Now())
}

// passing reports whether an error ends by itself.
func passing(err error) bool {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) // the API's connection
	}
	return !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err)
}

// again returns the pause before the next look.
func again(d handover.Decision) time.Duration {
	after := lookWhileOutstanding
	for _, c := range d.Conditions {
		if c.Type == handover.SetupProgressing && !c.Status {
			after = lookWhenDone
		}
	}
	if d.Again > 0 {
		after = min(after, d.Again)
	}
	return after
}

func (r *Reconciler) isTwoNode(ctx context.Context) (bool, error) {
	var infra configv1.Infrastructure
	err := r.Client.Get(ctx, types.NamespacedName{Name: clusterName}, &infra)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the cluster's topology: %w", err)
	}
	return infra.Status.ControlPlaneTopology == configv1.DualReplicaTopologyMode, nil
}

// authorities reads the file of the authorities that sign etcd's certificates.
func (r *Reconciler) authorities() ([]byte, error) {
	data, err := os.ReadFile(r.CABundle)
	if err != nil {
		return nil, fmt.Errorf("read etcd's authorities: %w", err)
	}
	return data, nil
}

func inNamespace(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: operator.Namespace, Name: name}
}
