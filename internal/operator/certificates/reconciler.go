// Package certificates is the operator's controller of the Secrets and ConfigMaps
// that routers read. Routers run on workers, so their account reads one namespace
// and no other. This controller copies what Ingresses and Gateways name into that
// namespace, and removes what none of them names any more. Package decide/ingress
// decides what is copied.
package certificates

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// The pauses before a look at the cluster that no event asked for.
const (
	lookAnew = 100 * time.Millisecond
	resync   = 30 * time.Second
)

// Reconciler keeps the copies.
type Reconciler struct {
	// Client reads copies and routers through the manager's cache, and writes.
	Client client.Client
	// Routes reads the objects that name sources. Of sources it reads only what
	// changed, not their content: the operator does not hold the Secrets of a
	// cluster.
	Routes client.Reader
	// Live reads a source itself.
	Live client.Reader
	// Events publishes events for people; nil publishes none.
	Events events.EventRecorder

	// kinds are the kinds of the Gateway API that the cluster knows.
	kinds kinds
	// copied becomes true when everything that was named has been copied.
	copied atomic.Bool
	// told are the refusals that an event was made of, each once.
	told map[string]bool

	mu sync.Mutex
	// named are the sources of the last look: only changes of these count.
	named map[decide.Source]bool
}

// Copied reports whether a router that reads only copies would find everything
// that exists. Before that, a router that reads Secrets itself must not be
// replaced.
func (r *Reconciler) Copied() bool { return r.copied.Load() }

// Reconcile does one look, independent of earlier looks.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	err := r.step(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the cluster changed after it was read
	}
	if err == nil {
		r.copied.Store(true)
		err = r.dropFormer(ctx)
	}
	return reconcile.Result{RequeueAfter: resync}, err
}

func (r *Reconciler) step(ctx context.Context) error {
	routes, err := r.routes(ctx)
	if err != nil {
		return err
	}
	needed, refused := decide.NeededBy(routes)
	r.remember(needed)
	have, err := r.copies(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range needed {
		problem, err := r.keep(ctx, n, have)
		if problem != "" {
			refused = append(refused, decide.Refused{Route: n.By, Why: problem})
		}
		errs = append(errs, err)
	}
	for _, o := range have {
		errs = append(errs, r.drop(ctx, o))
	}
	r.tell(refused)
	return errors.Join(errs...)
}

// remember notes the sources that count.
func (r *Reconciler) remember(needed []decide.Needed) {
	named := map[decide.Source]bool{}
	for _, n := range needed {
		named[n.Source] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named = named
}

// counts reports whether a Secret or a ConfigMap is a copied one, or a copy.
func (r *Reconciler) counts(kind string, o client.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return o.GetNamespace() == decide.CertificatesNamespace || r.named[decide.Source{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}]
}

// tell reports once, on a route, what routers are not given of it.
func (r *Reconciler) tell(refused []decide.Refused) {
	told := map[string]bool{}
	for _, f := range refused {
		text := f.Kind + " " + f.Namespace + "/" + f.Name + ": " + f.Why
		if told[text] = true; r.told[text] {
			continue
		}
		log.Log.Info("not given to routers", "route", f.Kind+" "+f.Namespace+"/"+f.Name, "why", f.Why)
		if r.Events != nil {
			r.Events.Eventf(&corev1.ObjectReference{
				APIVersion: versionOf(f.Kind), Kind: f.Kind, Namespace: f.Namespace, Name: f.Name,
			}, nil, corev1.EventTypeWarning, "CertificateNotServed", "Serve", "%s", f.Why)
		}
	}
	r.told = told
}

func versionOf(kind string) string {
	if kind == "Ingress" {
		return "networking.k8s.io/v1"
	}
	return decide.GatewayGroup + "/v1"
}
