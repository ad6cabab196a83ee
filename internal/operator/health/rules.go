package health

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/render/alerts"
)

// fieldManager owns our fields of the alerts.
const fieldManager = client.FieldOwner("holdfast-operator-health")

// giveRules gives the alerts to Prometheus' operator, in a cluster that has one;
// elsewhere they are a file. Once this process has given them, an administrator
// may change them until its next start; deleted ones are back with the next look.
// It does not watch them, because the kind may not exist, or may go.
func (r *Reconciler) giveRules(ctx context.Context) error {
	if now := r.Now(); now.Sub(r.looked) >= resync {
		r.looked = now
		return r.keepRules(ctx)
	}
	return nil
}

func (r *Reconciler) keepRules(ctx context.Context) error {
	o := &unstructured.Unstructured{Object: alerts.Object()}
	kind := o.GroupVersionKind()
	if _, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmtErr("check whether Prometheus' operator is installed", err)
	}
	if r.given {
		there := &unstructured.Unstructured{}
		there.SetGroupVersionKind(kind)
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), there)
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmtErr("read the alerts of Prometheus", err)
		}
	}
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), fieldManager, client.ForceOwnership)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil // the kind went a moment ago, or its namespace does
	}
	if err != nil {
		return fmtErr("publish the alerts for Prometheus", err)
	}
	r.given = true
	return nil
}
