package dualstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/registration"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/flannel"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// API is the part of the API that gives the cluster the second family.
type API interface {
	grow.API
	Node(ctx context.Context, name string) (*corev1.Node, error)
	DeleteNode(ctx context.Context, name, uid string) error
	CreateNode(ctx context.Context, n *corev1.Node) error
	Retired(ctx context.Context, name string) (retired.List, error)
	RestartPods(ctx context.Context, namespace, selector string) error
}

// Open returns the cluster's API by the account of the administrator on this host.
func Open() (interface {
	API
	LockAPI
}, error,
) {
	client, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	return struct {
		*kube.Bringer
		*kube.Client
	}{client.Bringer(), client}, nil
}

// kubeadmConfig and proxyConfig are ConfigMaps of kubeadm, with the keys that name networks.
var (
	kubeadmConfig = state.ObjectRef{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "kubeadm-config"}
	proxyConfig   = state.ObjectRef{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "kube-proxy"}
)

const (
	kubeadmKey = "ClusterConfiguration"
	proxyKey   = "config.conf"
)

// Note gives kubeadm's configuration both families: a control plane that joins makes its files
// from it.
func Note(ctx context.Context, api API, p decide.Plan) error {
	return change(ctx, api, kubeadmConfig, kubeadmKey, func(text string) (string, error) { return decide.Kubeadm(text, p) })
}

// Noted reports whether it has them.
func Noted(ctx context.Context, api API, p decide.Plan) (bool, error) {
	return has(ctx, api, kubeadmConfig, kubeadmKey, func(text string) (string, error) { return decide.Kubeadm(text, p) })
}

// Route gives the pod network's configuration both families, and kube-proxy's. Hosts read them
// when they boot.
func Route(ctx context.Context, api API, s *site.Site, p decide.Plan) error {
	changes, err := changes(s, p)
	if err != nil {
		return err
	}
	if err := change(ctx, api, proxyConfig, proxyKey, func(text string) (string, error) { return decide.Proxy(text, p) }); err != nil {
		return err
	}
	_, err = grow.Apply(ctx, api, slices.DeleteFunc(changes, func(c manifests.Change) bool { return c.Namespace != flannel.Namespace }))
	return err
}

// Routed reports whether it has them.
func Routed(ctx context.Context, api API, s *site.Site, p decide.Plan) (bool, error) {
	proxied, err := has(ctx, api, proxyConfig, proxyKey, func(text string) (string, error) { return decide.Proxy(text, p) })
	if err != nil || !proxied {
		return false, err
	}
	all, err := changes(s, p)
	if err != nil {
		return false, err
	}
	for _, c := range all {
		if c.Namespace != flannel.Namespace {
			continue
		}
		var want map[string]any
		if err := yaml.Unmarshal(c.Data, &want); err != nil {
			return false, fmt.Errorf("%s: %w", c.ObjectRef, err)
		}
		now, err := api.Fields(ctx, c.ObjectRef)
		if err != nil {
			return false, err
		}
		if now == nil || !reflect.DeepEqual(now["data"], want["data"]) {
			return false, nil
		}
	}
	return true, nil
}

// Settle gives all other objects of the cluster both families. First the pod network's daemons
// start anew: flannel 0.28.4 takes a Node that got its second address for one that did not change,
// because its first one did not. A host that booted before another one would never have a route
// to the second share of that one (lab, 2026-11-27).
func Settle(ctx context.Context, api API, s *site.Site, p decide.Plan) error {
	changes, err := changes(s, p)
	if err != nil {
		return err
	}
	if err := api.RestartPods(ctx, flannel.Namespace, flannel.Selector); err != nil {
		return err
	}
	_, err = grow.Apply(ctx, api, slices.DeleteFunc(changes, func(c manifests.Change) bool { return c.Namespace == flannel.Namespace }))
	return err
}

// changes returns what the cluster becomes. s is the site as a host knows it, before or after
// its own files changed.
func changes(s *site.Site, p decide.Plan) ([]manifests.Change, error) {
	have, want := *s, *s
	have.Config, want.Config = p.Before(s.Config), p.Config(s.Config)
	return manifests.Move(&have, &want)
}

// Copies are Nodes on the disk of the carrier.
type Copies interface {
	// Node returns the Node that was kept, nil for none.
	Node(name string) (*corev1.Node, error)
	PutNode(n *corev1.Node) error
	// DropNode removes one. It is no error if there is none.
	DropNode(name string) error
}

// Share makes a Node anew as it was, with a second share of the pod network. It keeps the Node
// before it deletes it, so that a cut in between loses nothing of it. A Node that is missing then
// is made from the copy: a cordoned worker does not make it again itself. A label tells since when
// there is a Node of the host: by that a worker gets another certificate for its expired one.
func Share(ctx context.Context, api API, copies Copies, name string, share netip.Prefix) error {
	now, err := api.Node(ctx, name)
	if err != nil {
		return err
	}
	if now != nil && slices.Contains(now.Spec.PodCIDRs, share.String()) {
		return copies.DropNode(name)
	}
	before, err := copies.Node(name)
	switch {
	case err != nil:
		return err
	case now == nil && before == nil:
		return fmt.Errorf("the Node %s is not there: it comes back by itself", name)
	case now == nil:
		if err := stays(ctx, api, name); err != nil {
			return err
		}
		return create(ctx, api, copies, before, share)
	case len(now.Spec.PodCIDRs) != 1:
		return fmt.Errorf("the Node %s has the shares %v of the pod networks, and not one: nothing is added", name, now.Spec.PodCIDRs)
	}
	n := registration.Kept(now)
	cut := before != nil && before.UID != now.UID
	if cut {
		// an earlier run was cut, and the host's own agent made the Node, which may have lost
		// what only an administrator sets
		n.Labels, n.Annotations = joined(n.Labels, before.Labels), joined(n.Annotations, before.Annotations)
	}
	n.Labels = joined(n.Labels, map[string]string{state.LabelMade: state.MadeAt(now.CreationTimestamp.Time)})
	if !cut {
		if err := copies.PutNode(n); err != nil {
			return err
		}
	}
	if err := api.DeleteNode(ctx, name, string(now.UID)); err != nil {
		return err
	}
	return create(ctx, api, copies, n, share)
}

// stays returns an error if somebody took a host out of the cluster, or if that is not known.
func stays(ctx context.Context, api API, name string) error {
	list, err := api.Retired(ctx, name)
	if err != nil {
		return err
	}
	if h, listed := list.Of(name); listed && h.Open() {
		return fmt.Errorf("the Node %s is not made again: %s was %s", name, name, h)
	}
	return nil
}

// create makes a Node that is not there, with a second share, and drops the copy of it: a Node that
// is missing from then on was deleted by somebody else.
func create(ctx context.Context, api API, copies Copies, was *corev1.Node, share netip.Prefix) error {
	n := was.DeepCopy()
	n.UID, n.Spec.PodCIDRs = "", append(n.Spec.PodCIDRs, share.String())
	if err := api.CreateNode(ctx, n); err != nil {
		return err
	}
	is, err := api.Node(ctx, n.Name)
	if err == nil && (is == nil || len(is.Spec.PodCIDRs) != 2) {
		err = errors.New("somebody else made it at the same time: it is made anew once more")
	}
	if err != nil {
		return fmt.Errorf("the Node %s: %w", n.Name, err)
	}
	return copies.DropNode(n.Name)
}

// joined returns a map with what another one has besides.
func joined(first, other map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{other, first} {
		maps.Copy(out, m)
	}
	return out
}

// attempts bounds how often an object is read anew that others change meanwhile.
const attempts = 5

// change rewrites one text of a ConfigMap.
func change(ctx context.Context, api API, r state.ObjectRef, key string, to func(string) (string, error)) error {
	for range attempts {
		now, text, err := text(ctx, api, r, key)
		if err != nil {
			return err
		}
		is, err := to(text)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r, key, err)
		}
		if same(is, text) {
			return nil
		}
		written, err := api.Merge(ctx, r, false, now, map[string]any{"data": map[string]any{key: is}})
		if err != nil || written {
			return err
		}
	}
	return fmt.Errorf("%s changes all the time: %d attempts to write it failed", r, attempts)
}

func has(ctx context.Context, api API, r state.ObjectRef, key string, to func(string) (string, error)) (bool, error) {
	_, text, err := text(ctx, api, r, key)
	if err != nil {
		return false, err
	}
	is, err := to(text)
	if err != nil {
		return false, fmt.Errorf("%s, %s: %w", r, key, err)
	}
	return same(is, text), nil
}

func text(ctx context.Context, api API, r state.ObjectRef, key string) (map[string]any, string, error) {
	now, err := api.Fields(ctx, r)
	if err != nil {
		return nil, "", err
	}
	data, _ := now["data"].(map[string]any)
	text, is := data[key].(string)
	if !is {
		return nil, "", fmt.Errorf("%s has no key %s", r, key)
	}
	return now, text, nil
}

// same compares two texts of YAML by what they say.
func same(a, b string) bool {
	var x, y any
	return yaml.Unmarshal([]byte(a), &x) == nil && yaml.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
