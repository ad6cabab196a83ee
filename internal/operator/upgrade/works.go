package upgrade

import (
	"context"
	"fmt"
	"slices"
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
	"github.com/holdfast/holdfast/internal/model/workload"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/flannel"
)

// works is what Kubernetes says of the parts of a site.
type works struct {
	// operator is the operator's Deployment, nil if there is none or it cannot be read.
	operator               *appsv1.Deployment
	mark                   state.Fact[parts.Mark]
	controllers, scheduler clusteroperator.Lease
	parts.Workloads
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
	if w.Network, err = r.daemonSet(ctx, flannel.Namespace, flannel.DaemonSet); err != nil {
		return err
	}
	if w.Network.Known {
		unreached, err := r.unreached(ctx, g)
		told, err := known(unreached, err, "ask pods of each host")
		if err != nil {
			return err
		}
		w.Network.Value.Denied = told.Value
	}
	if w.DNS, err = r.daemonSet(ctx, clusterdns.Namespace, clusterdns.Name); err != nil {
		return err
	}
	if w.Proxy, err = r.daemonSet(ctx, metav1.NamespaceSystem, parts.KubeProxy); err != nil {
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

// idle names the leaders that do not renew their lease. Whoever holds it: a process that is
// well and waits for its turn shows nothing.
func (w works) idle() state.Fact[[]string] {
	out := []string{}
	for name, l := range map[string]clusteroperator.Lease{clusteroperator.Controllers: w.controllers, clusteroperator.Scheduler: w.scheduler} {
		switch {
		case !l.Known:
			return state.Fact[[]string]{}
		case !l.Value:
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return state.Known(out)
}

func (r *Reconciler) daemonSet(ctx context.Context, namespace, name string) (state.Fact[parts.Workload], error) {
	var d appsv1.DaemonSet
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d)
	if apierrors.IsNotFound(err) {
		return state.Fact[parts.Workload]{}, nil
	}
	return known(parts.Workload{Pods: workload.OfDaemonSet(&d)}, err, fmt.Sprintf("read DaemonSet %s/%s", namespace, name))
}

func (r *Reconciler) deployment(ctx context.Context, namespace, name string) (state.Fact[parts.Workload], error) {
	var d appsv1.Deployment
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d)
	if apierrors.IsNotFound(err) {
		return state.Fact[parts.Workload]{}, nil
	}
	return known(parts.Workload{Pods: workload.OfDeployment(&d)}, err, fmt.Sprintf("read Deployment %s/%s", namespace, name))
}

// routers reads the Deployments of all routers.
func (r *Reconciler) routers(ctx context.Context, g *gathered) (err error) {
	var list operatorv1.IngressControllerList
	if err := r.Live.List(ctx, &list, client.InNamespace(ingress.Namespace)); err != nil {
		_, err = known(0, err, "list IngressControllers")
		return err
	}
	var routes routes
	asks := g.book.record.Started && r.Ask != nil
	if asks {
		if routes, asks, err = r.routes(ctx); err != nil {
			return err
		}
	}
	out := map[string]parts.Workload{}
	for _, ic := range list.Items {
		w, err := r.deployment(ctx, ingress.OperandNamespace, ingress.RouterName(ic.Name))
		if err != nil {
			return err
		}
		out[ic.Name] = w.Value
		if !w.Known {
			out[ic.Name] = parts.Workload{Pods: workload.Pods{Wanted: 1}}
			continue
		}
		if asks {
			denied, err := r.denied(ctx, ic.Name, routes)
			told, err := known(denied, err, "ask routers")
			if err != nil {
				return err
			}
			w.Value.Denied = told.Value
			out[ic.Name] = w.Value
		}
	}
	g.works.Routers = state.Known(out)
	return nil
}
