package upgrade

import (
	"context"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusteroperator"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/flannel"
)

// works is what Kubernetes says of the parts of a site.
type works struct {
	// operator is the operator's Deployment, nil if there is none or it cannot be read.
	operator               *appsv1.Deployment
	mark                   state.Fact[parts.Mark]
	controllers, scheduler clusteroperator.Lease
	network, dns           state.Fact[clusteroperator.Workload]
	ingress                state.Fact[map[string]clusteroperator.Workload]
}

// leaseAge is the age from which on a lease counts as not renewed. Leaders renew theirs
// every few seconds.
const leaseAge = time.Minute

// workloads reads what ClusterOperators tell of.
func (r *Reconciler) workloads(ctx context.Context, g *gathered) (err error) {
	w := &g.works
	if w.controllers, err = r.lease(ctx, clusteroperator.Controllers); err != nil {
		return err
	}
	if w.scheduler, err = r.lease(ctx, clusteroperator.Scheduler); err != nil {
		return err
	}
	if w.network, err = r.daemonSet(ctx, flannel.Namespace, flannel.DaemonSet); err != nil {
		return err
	}
	if w.dns, err = r.daemonSet(ctx, clusterdns.Namespace, clusterdns.Name); err != nil {
		return err
	}
	return r.routers(ctx, g)
}

// lease tells whether a leader of Kubernetes is alive.
func (r *Reconciler) lease(ctx context.Context, name string) (clusteroperator.Lease, error) {
	var l coordinationv1.Lease
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, &l)
	if apierrors.IsNotFound(err) || err == nil && l.Spec.RenewTime == nil {
		return clusteroperator.Lease{}, nil
	}
	alive := err == nil && r.Now().Sub(l.Spec.RenewTime.Time).Abs() < leaseAge
	return known(alive, err, "read the lease of "+name)
}

func (r *Reconciler) daemonSet(ctx context.Context, namespace, name string) (state.Fact[clusteroperator.Workload], error) {
	var d appsv1.DaemonSet
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d)
	if apierrors.IsNotFound(err) {
		return state.Fact[clusteroperator.Workload]{}, nil
	}
	s := d.Status
	return known(clusteroperator.Workload{Wanted: int(s.DesiredNumberScheduled), Available: int(s.NumberAvailable), Updated: int(s.UpdatedNumberScheduled)}, err, fmt.Sprintf("read DaemonSet %s/%s", namespace, name))
}

func (r *Reconciler) deployment(ctx context.Context, namespace, name string) (state.Fact[clusteroperator.Workload], error) {
	var d appsv1.Deployment
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d)
	if apierrors.IsNotFound(err) {
		return state.Fact[clusteroperator.Workload]{}, nil
	}
	return known(workload(d), err, fmt.Sprintf("read Deployment %s/%s", namespace, name))
}

func workload(d appsv1.Deployment) clusteroperator.Workload {
	want := 1
	if d.Spec.Replicas != nil {
		want = int(*d.Spec.Replicas)
	}
	return clusteroperator.Workload{Wanted: want, Available: int(d.Status.AvailableReplicas), Updated: int(d.Status.UpdatedReplicas)}
}

// routers reads the Deployments of all routers.
func (r *Reconciler) routers(ctx context.Context, g *gathered) (err error) {
	var list operatorv1.IngressControllerList
	if err := r.Live.List(ctx, &list, client.InNamespace(ingress.Namespace)); err != nil {
		_, err = known(0, err, "list IngressControllers")
		return err
	}
	out := map[string]clusteroperator.Workload{}
	for _, ic := range list.Items {
		w, err := r.deployment(ctx, ingress.OperandNamespace, ingress.RouterName(ic.Name))
		if err != nil {
			return err
		}
		out[ic.Name] = w.Value
		if !w.Known {
			out[ic.Name] = clusteroperator.Workload{Wanted: 1}
		}
	}
	g.works.ingress = state.Known(out)
	return nil
}
