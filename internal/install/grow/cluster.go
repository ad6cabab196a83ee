package grow

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// API is what Cluster has of the API; kube.Bringer is it.
type API interface {
	Apply(ctx context.Context, r state.ObjectRef, document []byte) error
	Offer(ctx context.Context, r state.ObjectRef, document []byte) (left bool, err error)
	Exists(ctx context.Context, r state.ObjectRef) (bool, error)
	Fields(ctx context.Context, r state.ObjectRef) (map[string]any, error)
	Merge(ctx context.Context, r state.ObjectRef, status bool, fields, patch map[string]any) (written bool, err error)
	Delete(ctx context.Context, r state.ObjectRef) (bool, error)
	Remove(ctx context.Context, r state.ObjectRef) error
}

// Open returns the cluster's API by the account of the administrator on this host.
func Open() (API, error) {
	client, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	return client.Bringer(), nil
}

// Objects returns what the cluster of a lone control plane lacks to be one of two, in the
// order in which Apply brings it. want has the accounts of BMCs, and so has the result.
func Objects(have, want *site.Site) ([]manifests.Change, error) { return manifests.Growth(have, want) }

// Left is a field that somebody has changed and that stays as it is.
type Left struct {
	Object state.ObjectRef
	Field  string
}

// Apply brings changes to a cluster, one after the other. It may be cut off and run again;
// what is there already is not written again.
func Apply(ctx context.Context, api API, changes []manifests.Change) ([]Left, error) {
	var out []Left
	for _, c := range changes {
		left, err := bring(ctx, api, c)
		if err != nil {
			return out, err
		}
		for _, field := range left {
			out = append(out, Left{c.ObjectRef, field})
		}
	}
	return out, nil
}

func bring(ctx context.Context, api API, c manifests.Change) (left []string, err error) {
	switch c.Way {
	case manifests.Bring:
		return nil, api.Apply(ctx, c.ObjectRef, c.Data)
	case manifests.Make:
		there, err := api.Exists(ctx, c.ObjectRef)
		if err == nil && !there {
			_, err = api.Offer(ctx, c.ObjectRef, c.Data) // the operator may make it in this moment
		}
		return nil, err
	case manifests.Set, manifests.Replace, manifests.Offer:
		return merge(ctx, api, c)
	case manifests.Remove:
		_, err := api.Delete(ctx, c.ObjectRef)
		return nil, err
	}
	return nil, fmt.Errorf("%s: nobody says how to bring it", c.ObjectRef)
}

// attempts bounds how often an object is read anew that others change meanwhile.
const attempts = 5

func merge(ctx context.Context, api API, c manifests.Change) ([]string, error) {
	var was, is map[string]any
	if err := yaml.Unmarshal(c.Before, &was); err != nil {
		return nil, fmt.Errorf("%s: %w", c.ObjectRef, err)
	}
	if err := yaml.Unmarshal(c.Data, &is); err != nil {
		return nil, fmt.Errorf("%s: %w", c.ObjectRef, err)
	}
	for range attempts {
		now, err := api.Fields(ctx, c.ObjectRef)
		if err != nil {
			return nil, err
		}
		switch {
		case now == nil && c.Way == manifests.Offer:
			return []string{"all of it, which was deleted"}, nil
		case now == nil && c.Status:
			return nil, fmt.Errorf("%s is not there", c.ObjectRef)
		case now == nil:
			return nil, api.Apply(ctx, c.ObjectRef, c.Data)
		}
		p := decide.Merge(was, is, now, c.Way == manifests.Set)
		if c.Way == manifests.Replace {
			p = decide.Replace(was, is, now)
		}
		if p.Fields == nil {
			return p.Left, nil
		}
		written, err := api.Merge(ctx, c.ObjectRef, c.Status, now, p.Fields)
		if err != nil || written {
			return p.Left, err
		}
	}
	return nil, fmt.Errorf("%s changes all the time: %d attempts to write it failed", c.ObjectRef, attempts)
}
