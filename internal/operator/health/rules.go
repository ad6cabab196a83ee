package health

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/render/alerts"
)

// fieldManager owns our fields of the alerts.
const fieldManager = client.FieldOwner("holdfast-operator-health")

// Rules gives the alerts to Prometheus' operator, in a cluster that has one; elsewhere
// they are a file. Once this process has given an object, an administrator may change it
// until the operator's next start; a deleted one is back with the next look. It does not
// watch them, because the kind may not exist, or may go. It deletes none: those of two
// control planes go with what else the two had (install/grow).
type Rules struct {
	Client client.Client
	// TwoNode is true for a site with two control planes.
	TwoNode bool

	given map[string]bool // the objects that Prometheus got, by name
}

// Start looks until the context ends. It implements manager.Runnable, so that only the
// operator with the lease looks.
func (r *Rules) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := r.keep(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "alerts of Prometheus")
		}
		_ = host.Sleep(ctx, resync) // the context ends it
	}
	return nil
}

// keep looks once. The rules of every site come first: an earlier release gave them in the
// object of two control planes, which loses them only once they are in their own.
func (r *Rules) keep(ctx context.Context) error {
	objects := []map[string]any{alerts.SiteObject()}
	if r.TwoNode {
		objects = append(objects, alerts.Object())
	}
	for _, o := range objects {
		if err := r.give(ctx, &unstructured.Unstructured{Object: o}); err != nil {
			return err
		}
	}
	return nil
}

// give gives one object, unless this process gave it before and it is still there.
func (r *Rules) give(ctx context.Context, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	if _, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmtErr("check whether Prometheus' operator is installed", err)
	}
	if r.given[o.GetName()] {
		there := &unstructured.Unstructured{}
		there.SetGroupVersionKind(kind)
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), there)
		if err == nil {
			return nil
		}
		if !gone(err) {
			return fmtErr("read the alerts of Prometheus", err)
		}
	}
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), fieldManager, client.ForceOwnership)
	if gone(err) {
		return nil // the kind went a moment ago, or its namespace does
	}
	if err != nil {
		return fmtErr("publish the alerts for Prometheus", err)
	}
	if r.given == nil {
		r.given = map[string]bool{}
	}
	r.given[o.GetName()] = true
	return nil
}

// gone reports whether the API says that an object is not there, or its kind.
func gone(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
