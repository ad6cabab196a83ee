package certificates

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/render/router"
)

// dropFormer removes the right of earlier releases' routers to read every Secret,
// once none of those routers is left: one that lost the right would never start
// again.
func (r *Reconciler) dropFormer(ctx context.Context) error {
	needed, err := r.formerRouters(ctx)
	if err != nil || needed {
		return err
	}
	for _, kind := range []string{"ClusterRoleBinding", "ClusterRole"} {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind})
		err := r.Live.Get(ctx, client.ObjectKey{Name: router.FormerAccess}, o)
		if err == nil {
			log.FromContext(ctx).Info("no router reads all Secrets any more: removing that permission", "kind", kind, "object", router.FormerAccess)
			err = r.Client.Delete(ctx, o)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s: %w", kind, router.FormerAccess, err)
		}
	}
	return nil
}

// formerRouters reports whether there are routers of earlier releases, or may be
// again.
func (r *Reconciler) formerRouters(ctx context.Context) (bool, error) {
	in, routers := client.InNamespace(decide.OperandNamespace), client.HasLabels{decide.LabelOwner}
	var deployments appsv1.DeploymentList
	if err := r.Client.List(ctx, &deployments, in, routers); err != nil {
		return false, fmt.Errorf("list Deployments of routers: %w", err)
	}
	for i := range deployments.Items {
		if !router.ReadsCopies(&deployments.Items[i].Spec.Template.Spec) {
			return true, nil
		}
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, in, client.HasLabels{decide.LabelDeployment}); err != nil {
		return false, fmt.Errorf("list routers: %w", err)
	}
	for i := range pods.Items {
		// A pod that was told to leave has read what it serves. On a host that
		// was lost it never reports that it is gone.
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && !router.ReadsCopies(&p.Spec) {
			return true, nil
		}
	}
	return false, nil
}
