package health

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/render/alerts"
)

// fieldManager is whose fields of the alerts ours are.
const fieldManager = client.FieldOwner("holdfast-operator-health")

// giveRules gives Prometheus' operator the alerts, in a cluster that has one.
// Elsewhere they are a file. Once given in a process they are a person's to
// change until the next start.
func (r *Reconciler) giveRules(ctx context.Context) error {
	if r.given {
		return nil
	}
	o := &unstructured.Unstructured{Object: alerts.Object()}
	kind := o.GroupVersionKind()
	if _, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmtErr("look whether there is Prometheus' operator", err)
	}
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), fieldManager, client.ForceOwnership); err != nil {
		return fmtErr("give Prometheus the alerts", err)
	}
	r.given = true
	return nil
}
