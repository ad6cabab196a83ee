package status

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/workload"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// ownOperator reads whether the operator runs: all else that is known of it is what it wrote last. A
// Deployment that is not there, or not there yet, is among the missing objects.
func (a *API) ownOperator(ctx context.Context, t *answers) error {
	d := &appsv1.Deployment{}
	err := a.Reader.Get(ctx, client.ObjectKey{Namespace: render.Namespace, Name: render.Name}, d)
	switch {
	case absent(err):
		return nil
	case apierrors.IsForbidden(err):
		t.limit("whether the operator runs was not checked: this account may not read Deployment " + render.Namespace + "/" + render.Name)
		return nil
	case err != nil:
		return fmt.Errorf("read whether the operator runs: %w", err)
	}
	t.with(func(f *standing.Facts) { f.OwnOperator = standing.Know(ownOperatorOf(d), saidAPI, t.now) })
	return nil
}

// ownOperatorOf returns what its Deployment says. Before Kubernetes has looked at it, it is as old as that.
func ownOperatorOf(d *appsv1.Deployment) standing.OwnOperator {
	pods := workload.OfDeployment(d)
	out := standing.OwnOperator{Off: pods.Wanted == 0, Available: pods.Available > 0, Since: d.CreationTimestamp.Time}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && (c.Status == corev1.ConditionTrue) == out.Available {
			out.Since = c.LastTransitionTime.Time
		}
	}
	return out
}
