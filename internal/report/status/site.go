package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// The ConfigMap with the site's configuration, without its passwords.
const (
	siteConfigNamespace, siteConfigName = "kube-system", "cluster-config-v1"
	siteConfigKey                       = "install-config"
)

// site compares the API with the site's installation: the number and kinds of
// hosts, and each object that the installation created.
func (a *API) site(ctx context.Context, t *answers) error {
	var cm corev1.ConfigMap
	err := a.Reader.Get(ctx, client.ObjectKey{Namespace: siteConfigNamespace, Name: siteConfigName}, &cm)
	if apierrors.IsNotFound(err) {
		t.with(func(f *standing.Facts) {
			f.Missing = standing.Know([]standing.Object{{Kind: "ConfigMap", Namespace: siteConfigNamespace, Name: siteConfigName}}, saidAPI, t.now)
		})
		return nil
	}
	if apierrors.IsForbidden(err) { // the account of a worker or of the dashboard
		t.limit("missing cluster objects were not checked: this account may not read " + siteConfigNamespace + "/" + siteConfigName)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the site's configuration: %w", err)
	}
	c, err := config.Unmarshal([]byte(cm.Data[siteConfigKey]))
	if err != nil || c.ControlPlaneReplicas() == 0 {
		t.limit(fmt.Sprintf("ConfigMap %s/%s cannot be parsed, so nothing is compared with it", siteConfigNamespace, siteConfigName))
		return nil //nolint:nilerr // it is said
	}
	top := topology.Of(c)
	t.with(func(f *standing.Facts) {
		f.ControlPlanes = standing.Know(top.ControlPlanes, saidAPI, t.now)
		f.MastersSchedulable = standing.Know(top.MastersSchedulable, saidAPI, t.now)
		if c.ControlPlane.Fencing != nil {
			for _, cred := range c.ControlPlane.Fencing.Credentials {
				f.Hosts = append(f.Hosts, standing.Host{Name: cred.HostName, ControlPlane: true})
			}
			f.Hosts = merged(f.Hosts)
		}
	})
	return a.objects(ctx, t, c, top)
}

// objects finds the missing ones among the objects that the installation
// created.
func (a *API) objects(ctx context.Context, t *answers, c *config.InstallConfig, top topology.Topology) error {
	wanted, err := rendered(c, top)
	if err != nil {
		t.limit("the objects that should be in the API could not be rendered: " + firstLine(err.Error()))
		return nil
	}
	for at, names := range kubeadms {
		wanted[at] = append(wanted[at], names...)
	}
	var mu sync.Mutex
	var missing []standing.Object
	var errs []error
	var group sync.WaitGroup
	for where, names := range wanted {
		group.Go(func() {
			gone, err := a.lacks(ctx, where, names)
			mu.Lock()
			defer mu.Unlock()
			missing, errs = append(missing, gone...), append(errs, err)
		})
	}
	group.Wait()
	slices.SortFunc(missing, func(a, b standing.Object) int {
		return strings.Compare(a.Kind+"/"+a.Namespace+"/"+a.Name, b.Kind+"/"+b.Namespace+"/"+b.Name)
	})
	t.with(func(f *standing.Facts) { f.Missing = standing.Know(missing, saidAPI, t.now) })
	return errors.Join(errs...)
}

// place selects the objects of one kind in one namespace.
type place struct {
	kind      schema.GroupVersionKind
	namespace string
}

// kubeadms are the ConfigMaps that joins and upgrades read. Kubernetes itself makes
// the last one of kube-system.
var kubeadms = map[place][]string{
	{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "kube-system"}: {"kubeadm-config", "kubelet-config", "kube-proxy", "extension-apiserver-authentication"},
	{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "kube-public"}: {"cluster-info"},
}

// rendered returns the names of the objects of an installation, by their place.
func rendered(c *config.InstallConfig, top topology.Topology) (map[place][]string, error) {
	files, err := manifests.Render(c, top)
	if err != nil {
		return nil, err
	}
	out := map[place][]string{}
	for _, file := range files {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(file.Data, &o); err != nil {
			return nil, err
		}
		at := place{o.GroupVersionKind(), o.Namespace}
		if o.Name == manifests.Administrators {
			continue // administrators remove this one on purpose
		}
		if !slices.Contains(out[at], o.Name) { // an object's status is a file of its own
			out[at] = append(out[at], o.Name)
		}
	}
	return out, nil
}

// lacks returns the missing objects of one place. It returns none if this
// account may not list them.
func (a *API) lacks(ctx context.Context, at place, names []string) ([]standing.Object, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(at.kind.GroupVersion().WithKind(at.kind.Kind + "List"))
	err := a.Reader.List(ctx, &list, client.InNamespace(at.namespace))
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil && !absent(err):
		return nil, fmt.Errorf("list %s: %w", at.kind.Kind, err)
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[list.Items[i].Name] = true
	}
	var out []standing.Object
	for _, name := range names {
		if !there[name] {
			out = append(out, standing.Object{Kind: at.kind.Kind, Namespace: at.namespace, Name: name})
		}
	}
	return out, nil
}

// clusterKinds lists the kinds of an installation's objects that are in no
// namespace, namespacedKinds the others.
var clusterKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	configv1.GroupVersion.WithKind("DNS"), configv1.GroupVersion.WithKind("FeatureGate"), configv1.GroupVersion.WithKind("Ingress"),
	configv1.GroupVersion.WithKind("Network"), configv1.GroupVersion.WithKind("Proxy"), configv1.GroupVersion.WithKind("Scheduler"),
}

var namespacedKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "Service"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	operatorv1.GroupVersion.WithKind("IngressController"),
}

// addInstalled adds the kinds of an installation's objects.
func addInstalled(m *meta.DefaultRESTMapper) {
	for _, k := range clusterKinds {
		m.Add(k, meta.RESTScopeRoot)
	}
	for _, k := range namespacedKinds {
		m.Add(k, meta.RESTScopeNamespace)
	}
}
