package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// objectInterval is the pause between two looks for the cluster's own objects.
const objectInterval = 45 * time.Second

// remade maps a kind of object to its path in the API. These kinds hold nothing
// that anybody changes after the installation, and so are made again as they
// were. Only `holdfast status` reports the loss of the others: for a Secret the
// install configuration has old passwords, and for an object of configuration
// nothing of what people changed since. The operator keeps the guards, and a
// person says who is an administrator.
var remade = map[string]string{
	"Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/%sserviceaccounts", "Service": "/api/v1/%sservices",
	"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding": kube.ClusterRoleBindings,
	"Role":               "/apis/rbac.authorization.k8s.io/v1/%sroles",
	"RoleBinding":        "/apis/rbac.authorization.k8s.io/v1/%srolebindings",
	"Deployment":         "/apis/apps/v1/%sdeployments",
}

// siteConfigName is the ConfigMap with the site's configuration, which is made
// again too.
const siteConfigName = "cluster-config-v1"

// ownObject is one of the cluster's own objects.
type ownObject struct {
	what, kind, name, collection string
	data                         []byte
}

// ownObjects returns the objects that are made again, in an order in which each
// finds what it needs.
func ownObjects(s *site.Site) ([]ownObject, error) {
	files, err := manifests.Render(s.Config, s.Topology())
	if err != nil {
		return nil, err
	}
	var out []ownObject
	for _, file := range files {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(file.Data, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Path, err)
		}
		collection := remade[o.Kind]
		if o.Kind == "ConfigMap" && o.Name == siteConfigName {
			collection = "/api/v1/%sconfigmaps"
		}
		if collection == "" || path.Dir(file.Path) != manifests.Objects || o.Name == manifests.Administrators {
			continue
		}
		if strings.Contains(collection, "%s") {
			collection = fmt.Sprintf(collection, "namespaces/"+o.Namespace+"/")
		}
		data, err := yaml.YAMLToJSON(file.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Path, err)
		}
		what := o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
		out = append(out, ownObject{what: what, kind: o.Kind, name: o.Name, collection: collection, data: data})
	}
	return out, nil
}

// objectsTask makes objects of the cluster's own again that somebody deleted.
// Every control plane does: the result is the same.
func (r *Agent) objectsTask() loop.Task {
	own, broken := ownObjects(r.Site)
	kubeadms := &keptMaps{dir: keptObjects, now: r.Now, said: func(what string) { r.Log.Info("created an object that was missing", "object", what) }}
	return loop.Task{Name: "cluster objects", First: objectInterval, Every: objectInterval, Limit: manyRequests, NotYet: notSetUp, Step: func(ctx context.Context) (loop.Result, error) {
		if broken != nil {
			return loop.Result{}, broken
		}
		if !r.proven() {
			return loop.Result{}, fs.ErrNotExist // the installation makes them
		}
		client, err := r.open()
		if err != nil {
			return loop.Result{}, err
		}
		return loop.Result{}, errors.Join(r.remake(ctx, client, own), r.removeAutoApproval(ctx, client), r.keepMaps(ctx, kubeadms))
	}}
}

// keepMaps keeps copies of kubeadm's ConfigMaps, and makes those that are missing again.
// A host without an administrator's account leaves both to the other hosts.
func (r *Agent) keepMaps(ctx context.Context, k *keptMaps) error {
	admin, err := r.admin()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return k.step(ctx, admin)
}

// remake makes the missing ones of these objects, by an administrator's account,
// and leaves the others as they are. If a namespace is just being deleted, its
// objects are made in a later round.
func (r *Agent) remake(ctx context.Context, client *kube.Client, own []ownObject) error {
	there := map[string]map[string]bool{}
	var errs []error
	for _, o := range own {
		names, asked := there[o.collection]
		if !asked {
			var err error
			if names, err = r.names(ctx, client, o.collection); err != nil {
				return errors.Join(append(errs, err)...)
			}
			there[o.collection] = names
		}
		if names[o.name] {
			continue
		}
		if err := r.make(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.what, err))
			continue
		}
		r.Log.Info("created an object that was missing", "object", o.what)
	}
	return errors.Join(errs...)
}

// names lists a collection by the agent's own account, or by an administrator's
// if somebody took that right from the agent.
func (r *Agent) names(ctx context.Context, client *kube.Client, collection string) (map[string]bool, error) {
	names, err := client.Names(ctx, collection)
	if !apierrors.IsForbidden(err) {
		return names, err
	}
	admin, noAdmin := r.admin()
	if noAdmin != nil {
		return nil, err
	}
	return admin.Names(ctx, collection)
}

func (r *Agent) make(ctx context.Context, o ownObject) error {
	admin, err := r.administrator()
	if err != nil {
		return err
	}
	return admin.CreateObject(ctx, o.collection, o.data)
}
