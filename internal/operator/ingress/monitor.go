package ingress

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// askAgain is the pause before a cluster without an operator of Prometheus is
// asked again. One may be installed at any time.
const askAgain = 10 * time.Minute

// monitors holds whether the cluster knows ServiceMonitors, and when it was last
// asked.
type monitors struct {
	known bool
	asked time.Time
}

// knowsMonitors asks if that is not known, and again after askAgain if the answer
// was no.
func (r *Reconciler) knowsMonitors() (bool, error) {
	if r.monitors.known || !r.monitors.asked.IsZero() && r.Now().Before(r.monitors.asked.Add(askAgain)) {
		return r.monitors.known, nil
	}
	kind := render.ServiceMonitorKind
	_, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("check whether Prometheus' operator is installed: %w", err)
	}
	r.monitors = monitors{known: err == nil, asked: r.Now()}
	return r.monitors.known, nil
}

// monitorLook is the longest time before a ServiceMonitor that somebody changed
// or deleted is noticed.
const monitorLook = time.Minute

// lookAtMonitor returns the pause before the next look at the ServiceMonitor, or
// zero for none.
func (g *gathered) lookAtMonitor() time.Duration {
	if g.monitors {
		return monitorLook
	}
	return 0
}

// gatherMonitor reads the ServiceMonitor from the API. It is not watched, because
// the kind may not exist, or may go.
func (r *Reconciler) gatherMonitor(ctx context.Context, g *gathered) error {
	known, err := r.knowsMonitors()
	if err != nil || !known {
		return err
	}
	g.monitors = true
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(render.ServiceMonitorKind)
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: decide.OperandNamespace, Name: decide.RouterName(g.name)}, o)
	switch {
	case err == nil:
		g.monitor = o
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
	default:
		return fmt.Errorf("read ServiceMonitor %s: %w", decide.RouterName(g.name), err)
	}
	return nil
}

// keepMonitor writes the ServiceMonitor if the cluster knows the kind. A cluster
// that has lost the kind has lost the objects too.
func (r *Reconciler) keepMonitor(ctx context.Context, g *gathered, want *unstructured.Unstructured) error {
	if !g.monitors {
		return nil
	}
	err := ensure(ctx, r, g, g.monitor, want, unstructuredOverlay)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		r.monitors = monitors{asked: r.Now()}
		return nil
	}
	return err
}
