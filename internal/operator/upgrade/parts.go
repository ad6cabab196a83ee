package upgrade

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// operatorPart is the part that is the operator itself. Routers and guards follow it: it
// keeps them as its own release has them.
const operatorPart = "operator"

// containerName is the name of the operator's container in its pod.
const containerName = "operator"

// operator reads the operator's own Deployment.
func (r *Reconciler) operator(ctx context.Context, g *gathered) error {
	d := &appsv1.Deployment{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: render.Namespace, Name: render.Name}, d)
	if apierrors.IsNotFound(err) || unreadable(err) {
		return nil // it runs outside of the cluster
	}
	if err != nil {
		return fmt.Errorf("read the operator's Deployment: %w", err)
	}
	g.works.operator = d
	return nil
}

// image returns the name of the operator's image in a release; empty if the release is
// not known.
func image(r gate.Release) string {
	if r.Digest == "" {
		return ""
	}
	return payload.Registry + "/" + render.Image + ":v" + r.Version.String()
}

// parts returns the parts of the cluster that an upgrade brings, with the release of each.
func parts(d *appsv1.Deployment, v survey.Survey) []cluster.Part {
	r := v.Site.Record
	from, to := image(v.Releases[r.From]), image(v.Releases[r.To])
	if d == nil || !r.Started || from == to && from != "" {
		return nil // it is the same one
	}
	part := cluster.Part{Name: operatorPart}
	switch has := imageOf(d); {
	case has == "" || !rolledOut(d):
	case has == to:
		part.Release = state.Known(r.To)
	case has == from:
		part.Release = state.Known(r.From)
	}
	return []cluster.Part{part}
}

func imageOf(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == containerName {
			return c.Image
		}
	}
	return ""
}

// rolledOut reports whether the pods of a Deployment are those of its template.
func rolledOut(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == want && d.Status.AvailableReplicas == want
}

// bring brings a part to a release.
func (r *Reconciler) bring(ctx context.Context, g *gathered, next cluster.Step) error {
	d := g.works.operator
	if next.Do != cluster.Bring || next.Part != operatorPart || d == nil {
		return nil
	}
	want := image(g.survey.Releases[next.Release])
	if want == "" || imageOf(d) == want {
		return nil // it is not known, or on its way
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": d.ResourceVersion},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []map[string]string{{"name": containerName, "image": want}},
		}}},
	})
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, d.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return fmt.Errorf("bring the operator to %s: %w", want, err)
	}
	r.event(ctx, g.version, corev1.EventTypeNormal, "UpgradePart", "the operator goes to "+want)
	return nil
}
