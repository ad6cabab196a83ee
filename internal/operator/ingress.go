package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/operator/certificates"
	"github.com/holdfast/holdfast/internal/operator/ingress"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/render/router"
)

// addIngress makes the manager keep the routers of IngressControllers, and the
// Secrets that they read.
func addIngress(manager ctrl.Manager) error {
	copies := &certificates.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(render.Name),
	}
	if err := copies.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of certificates: %w", err)
	}
	controller := &ingress.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Plane: router.Traefik{}, Events: manager.GetEventRecorder(render.Name),
		Now: time.Now, Random: rand.Reader, Copied: copies.Copied,
	}
	if err := controller.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of ingress: %w", err)
	}
	return nil
}

// held returns which kinds the manager caches of which namespaces: only what it
// may see, and no more than it needs in memory.
func held(twoNode bool) map[client.Object]cache.ByObject {
	secrets := append(slices.Clone(ingress.SecretNamespaces), decide.CertificatesNamespace)
	configMaps := append(slices.Clone(ingress.ConfigMapNamespaces), decide.CertificatesNamespace)
	out := map[client.Object]cache.ByObject{}
	if twoNode {
		secrets, configMaps = append(secrets, render.Namespace), append(configMaps, render.Namespace)
		out[&batchv1.Job{}] = in(render.Namespace)
	}
	held := in(secrets...)
	held.Namespaces[ingress.NamespaceManaged] = cache.Config{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", ingress.PublishedCertificates),
	}
	lists := in(configMaps...)
	lists.Namespaces[retired.Namespace] = cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", retired.ConfigMap)}
	out[&corev1.Secret{}], out[&corev1.ConfigMap{}] = held, lists
	out[&operatorv1.IngressController{}] = in(decide.Namespace)
	for _, o := range []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.Pod{}, &policyv1.PodDisruptionBudget{},
		&networkingv1.NetworkPolicy{}, &router.RouteHosts{},
	} {
		out[o] = in(decide.OperandNamespace)
	}
	// Each may have a megabyte, and who wrote which field is of no interest.
	out[&mcfgv1.MachineConfig{}] = cache.ByObject{Transform: cache.TransformStripManagedFields()}
	// Ingresses of all namespaces: all of them decide whose a host is.
	out[&networkingv1.Ingress{}] = cache.ByObject{Transform: cache.TransformStripManagedFields()}
	return out
}

func in(namespaces ...string) cache.ByObject {
	out := map[string]cache.Config{}
	for _, n := range namespaces {
		out[n] = cache.Config{}
	}
	return cache.ByObject{Namespaces: out}
}

// isTwoNode asks whether the cluster is a two-node one. An operator has what it needs from its
// first minute, or ends and asks again; so it does when that changes (topologyWatch).
func isTwoNode(ctx context.Context, cfg *rest.Config) (bool, error) {
	scheme, err := newScheme()
	if err != nil {
		return false, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return false, fmt.Errorf("reach the cluster: %w", err)
	}
	var infra configv1.Infrastructure
	for {
		err := c.Get(ctx, client.ObjectKey{Name: clusterObject}, &infra)
		if err == nil && infra.Status.ControlPlaneTopology != "" {
			return infra.Status.ControlPlaneTopology == configv1.DualReplicaTopologyMode, nil
		}
		// It is written in the last steps of the installation, and this is one of
		// them.
		if host.Sleep(ctx, time.Second) != nil {
			return false, fmt.Errorf("read the cluster's topology: %w", cmp.Or(err, context.Cause(ctx)))
		}
	}
}
