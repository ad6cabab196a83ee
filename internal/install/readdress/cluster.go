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
	return state.Known(decide.Object{Announced: in.Readdress, VIPs: slices.Concat(in.APIVIPs, in.IngressVIPs), Networks: in.MachineNetworks}.Keeps())
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
	if !proxied {
		return nil
	}
	return api.RestartPods(ctx, "kube-system", "k8s-app=kube-proxy")
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

func change(ctx context.Context, api API, r state.ObjectRef, patch func(map[string]any) map[string]any) (bool, error) {
	for range attempts {
		now, err := api.Fields(ctx, r)
		if err != nil || now == nil {
			return false, err
		}
		data, _ := now["data"].(map[string]any)
		fields := patch(data)
		if len(fields) == 0 {
			return false, nil
		}
		written, err := api.Merge(ctx, r, false, now, map[string]any{"data": fields})
		if err != nil || written {
			return written, err
		}
	}
	return false, fmt.Errorf("%s changes all the time: %d attempts to write it failed", r, attempts)
}

// Withdraw takes the announcement of a move out of the cluster. Another one that was announced
// meanwhile stays.
func Withdraw(ctx context.Context, api API, id string) error {
	r := state.ObjectRef{APIVersion: "config.openshift.io/v1", Kind: "Infrastructure", Name: "cluster"}
	now, err := api.Fields(ctx, r)
	if err != nil || !announces(now, id) {
		return err
	}
	_, err = api.Merge(ctx, r, false, now, map[string]any{"metadata": map[string]any{"annotations": map[string]any{kube.ReaddressAnnotation: nil}}})
	return err
}

// announces reports whether the Infrastructure object announces the move of an id.
func announces(infrastructure map[string]any, id string) bool {
	meta, _ := infrastructure["metadata"].(map[string]any)
	set, _ := meta["annotations"].(map[string]any)
	text, _ := set[kube.ReaddressAnnotation].(string)
	var p decide.Plan
	return json.Unmarshal([]byte(text), &p) == nil && p.ID == id
}
