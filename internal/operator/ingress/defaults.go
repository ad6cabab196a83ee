package ingress

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// settle creates what is created once in a cluster's life, and again if somebody
// deleted it: the default placement and the default IngressController. It reports
// whether it wrote.
func (r *Reconciler) settle(ctx context.Context, g *gathered) (bool, error) {
	if g.config.Status.DefaultPlacement == "" {
		return true, r.settlePlacement(ctx, g.config)
	}
	if g.controller != nil || g.cluster.ControlPlane == configv1.ExternalTopologyMode || g.cluster.Domain == "" {
		return false, nil
	}
	o := &unstructured.Unstructured{Object: render.DefaultController(g.cluster, decide.DefaultHosts(g.cluster, g.hosts))}
	if err := r.Client.Create(ctx, o); err != nil {
		return true, fmt.Errorf("create the default IngressController: %w", err)
	}
	log.FromContext(ctx).Info("created the default IngressController")
	return true, nil
}

// settlePlacement writes the default placement if there is none. If several try,
// one succeeds; all write the same.
func (r *Reconciler) settlePlacement(ctx context.Context, config *configv1.Ingress) error {
	after := config.DeepCopy()
	after.Status.DefaultPlacement = decide.SettledPlacement(config.Status.DefaultPlacement)
	if err := r.Client.Status().Patch(ctx, after, lockedMerge(config)); err != nil {
		return fmt.Errorf("set the default placement: %w", err)
	}
	log.FromContext(ctx).Info("set the default placement", "placement", after.Status.DefaultPlacement)
	return nil
}
