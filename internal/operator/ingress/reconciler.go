// Package ingress is the operator's controller of IngressControllers. It gathers
// one value, lets package decide/ingress decide from it, and writes what differs.
// It holds no rule of its own.
package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// The pauses before another look: after somebody else wrote first, while the
// routers' certificates are copied, and while the cluster does not yet say what
// it is.
const (
	lookAnew      = 100 * time.Millisecond
	lookForCopies = 500 * time.Millisecond
	lookForAll    = 10 * time.Second
)

// Reconciler makes routers what their IngressControllers say.
type Reconciler struct {
	// Client reads through the cache.
	Client client.Client
	// Live reads what the cache does not hold.
	Live  client.Reader
	Plane render.DataPlane
	// Events publishes what was done for people; nil publishes nothing.
	Events events.EventRecorder
	Now    func() time.Time
	// Random makes keys.
	Random io.Reader
	// Copied reports whether routers would find copies of everything that
	// Ingresses and Gateways name. No router is made before that.
	Copied func() bool

	// gateways is true if the cluster knows the Gateway API.
	gateways bool
	// noGateways says why it does not, empty if it does.
	noGateways string
	// lists is true if the cluster knows the kind of lists of hosts.
	lists    bool
	monitors monitors
	// period is the site's certificateValidityPeriod; zero until it was read. periodUnread is true if the
	// last try failed, which was logged.
	period       time.Duration
	periodUnread bool
	// warned are the warnings that were given, each once; taken are the reported
	// conflicts of hosts, by IngressController.
	warned map[string]bool
	taken  map[string]map[string]bool
}

// Reconcile looks at one IngressController and does what is to be done now.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	again, err := r.reconcile(ctx, req.Name)
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: again}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the cluster changed after it was read
	default:
		return reconcile.Result{}, err
	}
}

func (r *Reconciler) reconcile(ctx context.Context, name string) (time.Duration, error) {
	g, err := r.gather(ctx, name)
	if errors.Is(err, errNotYet) {
		return lookForAll, nil
	}
	if err != nil {
		return 0, err
	}
	if name == decide.DefaultName {
		if settled, err := r.settle(ctx, g); settled || err != nil {
			return lookAnew, err
		}
	}
	switch {
	case g.controller == nil:
		forget(name)
		return 0, nil
	case g.controller.DeletionTimestamp != nil:
		return r.remove(ctx, g)
	case !controllerutil.ContainsFinalizer(g.controller, decide.Finalizer):
		return lookAnew, r.setFinalizer(ctx, g.controller, controllerutil.AddFinalizer)
	}
	return r.keep(ctx, g)
}

// keep makes the cluster what one IngressController says.
func (r *Reconciler) keep(ctx context.Context, g *gathered) (time.Duration, error) {
	r.warn(ctx, g)
	work := decide.CertificatesOf(g.certificates(), r.Now())
	g.observed.CertificateProblem, g.observed.CertificateWarning = work.Problem, work.Warning
	d := decide.Decide(g.snapshot(r.Now()))
	var wrote error
	if d.Router != nil || g.controller.Status.EndpointPublishingStrategy != nil {
		wrote = r.keepCertificates(ctx, g, work) // routers serve on while a later spec is refused
	}
	if d.Router != nil {
		want := render.Render(d.Router, r.Plane)
		if r.waitsForCopies(g) {
			want.Deployment, d.Again = nil, lookForCopies
		}
		wrote = errors.Join(wrote, r.write(ctx, g, want), r.publishCertificate(ctx, g))
		r.tellTaken(g, d.Router.Hosts)
	}
	// The status is written even if something else could not be.
	if err := errors.Join(wrote, r.setStatus(ctx, g.controller, d.Status)); err != nil {
		return 0, err
	}
	return sooner(sooner(d.Again, work.Again), g.lookAtMonitor()), nil
}

// waitsForCopies reports whether routers would begin to read copies before all of
// those exist, and so serve the default certificate in place of others.
func (r *Reconciler) waitsForCopies(g *gathered) bool {
	read := g.deployment != nil && render.ReadsCopies(&g.deployment.Spec.Template.Spec)
	return !read && !r.Copied()
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (r *Reconciler) setFinalizer(ctx context.Context, ic *operatorv1.IngressController, change func(client.Object, string) bool) error {
	after := ic.DeepCopy()
	change(after, decide.Finalizer)
	if err := r.Client.Patch(ctx, after, lockedMerge(ic)); err != nil {
		return fmt.Errorf("write the finalizer of IngressController %s: %w", ic.Name, err)
	}
	return nil
}

// lockedMerge returns a patch that fails if somebody else wrote meanwhile.
func lockedMerge(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// remove continues a deletion, wherever it was cut off.
func (r *Reconciler) remove(ctx context.Context, g *gathered) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(g.controller, decide.Finalizer) {
		return 0, nil
	}
	d := decide.Delete(g.observed, len(g.rest()), r.Now())
	switch {
	case d.Done:
		if err := r.unpublishCertificate(ctx, g); err != nil {
			return 0, err
		}
		return 0, r.setFinalizer(ctx, g.controller, controllerutil.RemoveFinalizer)
	case d.Deployment:
		return d.Again, r.drop(ctx, g.deployment, client.PropagationPolicy("Background"))
	case d.Rest:
		for _, o := range g.rest() {
			if err := r.drop(ctx, o); err != nil {
				return 0, err
			}
		}
	case len(d.Waiting) > 0:
		log.FromContext(ctx).Info("routers of a deleted IngressController still drain", "pods", d.Waiting)
	}
	return d.Again, nil
}

// warn reports what the cluster's settings ask for and cannot be, and what it
// lacks.
func (r *Reconciler) warn(ctx context.Context, g *gathered) {
	for _, text := range decide.DefaultPlacement(g.cluster).Warnings {
		r.warnOnce(ctx, g, "Topology", text)
	}
	if r.noGateways != "" {
		r.warnOnce(ctx, g, "Gateways", r.noGateways)
	}
	if !r.lists {
		r.warnOnce(ctx, g, "Hosts", noLists)
	}
}

func (r *Reconciler) warnOnce(ctx context.Context, g *gathered, reason, text string) {
	if r.warned[text] {
		return
	}
	if r.warned == nil {
		r.warned = map[string]bool{}
	}
	r.warned[text] = true
	log.FromContext(ctx).Info("warning: " + text)
	r.event(g.controller, corev1.EventTypeWarning, reason, text)
}

// maxEvent bounds the text of an event, with room for what is added.
const maxEvent = 1000

// event publishes an event about an IngressController.
func (r *Reconciler) event(about client.Object, kind, reason, text string) {
	if len(text) > maxEvent {
		text = text[:maxEvent] + " ..."
	}
	if r.Events != nil {
		r.Events.Eventf(about, nil, kind, reason, "Reconcile", "%s", text)
	}
}
