package readdress

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// API is what Cluster has of the API.
type API interface {
	grow.API
	// RestartPods deletes the pods of a DaemonSet, which makes them anew.
	RestartPods(ctx context.Context, namespace, selector string) error
}

// Open returns the cluster's API by the account of the administrator on this host.
func Open() (API, error) {
	client, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	return struct {
		*kube.Bringer
		*kube.Client
	}{client.Bringer(), client}, nil
}

// Places is what Keeps has of the API.
type Places interface {
	// Place returns the addresses of the site and the announced plans that change them.
	Place(ctx context.Context) (kube.Infrastructure, error)
}

// Keeps says why no host comes, and none is replaced, since a move is announced; empty for no
// reason. It is unknown while the API does not say.
func Keeps(ctx context.Context, api Places) state.Fact[string] {
	in, err := api.Place(ctx)
	if err != nil {
		return state.Fact[string]{}
	}
	return state.Known(Object(in).Keeps())
}

// Object returns what the Infrastructure object says of a move.
func Object(in kube.Infrastructure) decide.Object {
	return decide.Object{Announced: in.Readdress, Settled: in.Readdressed, VIPs: slices.Concat(in.APIVIPs, in.IngressVIPs), Networks: in.MachineNetworks}
}

// configMaps are those of kubeadm: joins and kube-proxy read the addresses in them.
var configMaps = []state.ObjectRef{
	{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "kubeadm-config"},
	{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-public", Name: "cluster-info"},
	{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "kube-proxy"},
}

// Cluster gives the objects of the cluster the addresses of one side of a plan. s is the
// site as a host knows it, m says which address takes the place of which. It may be cut off
// and done again.
func Cluster(ctx context.Context, api API, s *site.Site, p decide.Plan, to decide.Side, m decide.Mapping) error {
	have, want := *s, *s
	have.Config, want.Config = p.Place(to.Other()).Config(s.Config), p.Place(to).Config(s.Config)
	changes, err := manifests.Move(&have, &want)
	if err != nil {
		return err
	}
	for i, c := range changes {
		// A virtual IP that was added after a host got its plan is not at the new place: it would stay in
		// the lists as the first one, and nobody can hold it.
		if c.ObjectRef == infrastructureObject {
			changes[i].Way = manifests.Replace
		}
	}
	if _, err := grow.Apply(ctx, api, changes); err != nil {
		return err
	}
	for host, at := range p.Place(to).BMCs {
		if err := account(ctx, api, host, at); err != nil {
			return err
		}
	}
	proxied := false
	for _, r := range configMaps {
		changed, err := rewrite(ctx, api, r, m)
		if err != nil {
			return err
		}
		proxied = proxied || changed && r.Name == "kube-proxy"
	}
	if proxied {
		if err := api.RestartPods(ctx, "kube-system", "k8s-app=kube-proxy"); err != nil {
			return err
		}
	}
	return settled(ctx, api, decide.Settled{Plan: p.ID, At: to})
}

// infrastructureObject has the annotations of a move.
var infrastructureObject = state.ObjectRef{APIVersion: "config.openshift.io/v1", Kind: "Infrastructure", Name: "cluster"}

// settled writes for all hosts which addresses the objects of the cluster have.
func settled(ctx context.Context, api API, s decide.Settled) error {
	text := state.FormatAnnotation(s)
	_, err := changeIn(ctx, api, infrastructureObject, annotated, func(set map[string]any) map[string]any {
		if set[kube.ReaddressedAnnotation] == text {
			return nil
		}
		return map[string]any{kube.ReaddressedAnnotation: text}
	})
	return err
}

// attempts bounds how often an object is read anew that others change meanwhile.
const attempts = 5

// rewrite replaces the addresses in the texts of a ConfigMap.
func rewrite(ctx context.Context, api API, r state.ObjectRef, m decide.Mapping) (bool, error) {
	return change(ctx, api, r, func(data map[string]any) map[string]any {
		out := map[string]any{}
		for key, value := range data {
			text, _ := value.(string)
			if is := string(m.Rewrite([]byte(text))); is != text {
				out[key] = is
			}
		}
		return out
	})
}

// account gives the Secret with the account of a host's BMC another address.
func account(ctx context.Context, api API, host, at string) error {
	r := state.ObjectRef{APIVersion: "v1", Kind: "Secret", Namespace: manifests.NamespaceEtcd, Name: manifests.FencingSecretPrefix + host}
	_, err := change(ctx, api, r, func(data map[string]any) map[string]any {
		is := base64.StdEncoding.EncodeToString([]byte(at))
		if data["address"] == is {
			return nil
		}
		return map[string]any{"address": is}
	})
	return err
}

func change(ctx context.Context, api API, r state.ObjectRef, patch func(data map[string]any) map[string]any) (bool, error) {
	return changeIn(ctx, api, r, []string{"data"}, patch)
}

// annotated is where an object has its annotations.
var annotated = []string{"metadata", "annotations"}

// changeIn changes fields of an object that patch returns for those below a path.
func changeIn(ctx context.Context, api API, r state.ObjectRef, path []string, patch func(is map[string]any) map[string]any) (bool, error) {
	for range attempts {
		now, err := api.Fields(ctx, r)
		if err != nil || now == nil {
			return false, err
		}
		is := now
		for _, name := range path {
			is, _ = is[name].(map[string]any)
		}
		fields := patch(is)
		if len(fields) == 0 {
			return false, nil
		}
		for _, name := range slices.Backward(path) {
			fields = map[string]any{name: fields}
		}
		written, err := api.Merge(ctx, r, false, now, fields)
		if err != nil || written {
			return written, err
		}
	}
	return false, fmt.Errorf("%s changes all the time: %d attempts to write it failed", r, attempts)
}

// Withdraw takes the announcement of a move out of the cluster, and what was written beside it.
// Another one that was announced meanwhile stays.
func Withdraw(ctx context.Context, api API, id string) error {
	_, err := changeIn(ctx, api, infrastructureObject, annotated, func(set map[string]any) map[string]any {
		gone := map[string]any{}
		for _, name := range []string{kube.ReaddressAnnotation, kube.ReaddressedAnnotation} {
			if _, is := set[name]; is {
				gone[name] = nil
			}
		}
		text, announced := set[kube.ReaddressAnnotation].(string)
		var p decide.Plan
		if announced && (json.Unmarshal([]byte(text), &p) != nil || p.ID != id) {
			return nil
		}
		return gone
	})
	return err
}
