// Package plantest plays the cluster's API and etcd for tests of agents that carry a plan.
package plantest

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// API is an API of values. A test embeds it, and adds the methods that only its agent needs.
type API struct {
	// Maps holds ConfigMaps and Secrets holds Secrets, both by "namespace/name".
	Maps    map[string]map[string]string
	Secrets map[string]map[string][]byte
	// Graves holds the hosts that were taken out, by name.
	Graves map[string]retired.Host
	// Infra is what Place returns.
	Infra kube.Infrastructure
	// All is what Nodes returns.
	All []state.Node
	// Did lists the deletions, in their order.
	Did []string
	// Fails is the error that Place, ConfigMap, Nodes, Lock and the methods of Secrets return.
	Fails error
}

// NewAPI returns an API without objects.
func NewAPI() API {
	return API{Maps: map[string]map[string]string{}, Secrets: map[string]map[string][]byte{}, Graves: map[string]retired.Host{}}
}

// Place returns Infra.
func (a *API) Place(context.Context) (kube.Infrastructure, error) { return a.Infra, a.Fails }

// ConfigMap returns the data of a ConfigMap, nil if there is none.
func (a *API) ConfigMap(_ context.Context, ns, name string) (map[string]string, error) {
	return a.Maps[ns+"/"+name], a.Fails
}

// Nodes returns All.
func (a *API) Nodes(context.Context) ([]state.Node, error) { return a.All, a.Fails }

// Lock makes a ConfigMap unless it is there.
func (a *API) Lock(_ context.Context, ns, name string, data map[string]string) error {
	if a.Maps[ns+"/"+name] == nil {
		a.Maps[ns+"/"+name] = data
	}
	return a.Fails
}

// SetLocked writes into a ConfigMap whose key has the value.
func (a *API) SetLocked(_ context.Context, ns, name, key, value string, data map[string]string) error {
	m := a.Maps[ns+"/"+name]
	if m[key] != value {
		return errors.New("of another plan")
	}
	maps.Copy(m, data)
	return nil
}

// Unlock deletes a ConfigMap whose key has the value.
func (a *API) Unlock(_ context.Context, ns, name, key, value string) error {
	if a.Maps[ns+"/"+name][key] == value {
		delete(a.Maps, ns+"/"+name)
	}
	return nil
}

// Secret returns the data of a Secret, nil if there is none.
func (a *API) Secret(_ context.Context, ns, name string) (map[string][]byte, error) {
	return a.Secrets[ns+"/"+name], a.Fails
}

// PutSecret writes a Secret.
func (a *API) PutSecret(_ context.Context, ns, name string, data map[string][]byte) error {
	a.Secrets[ns+"/"+name] = data
	return a.Fails
}

// DeleteSecret deletes a Secret.
func (a *API) DeleteSecret(_ context.Context, ns, name string) error {
	delete(a.Secrets, ns+"/"+name)
	return a.Fails
}

// Retired returns the tombstone of a host, if it has one.
func (a *API) Retired(_ context.Context, name string) (retired.List, error) {
	if h, there := a.Graves[name]; there {
		return retired.List{h}, nil
	}
	return nil, nil
}

// Retire writes a tombstone. It refuses one that has no name or no time.
func (a *API) Retire(_ context.Context, h retired.Host) error {
	if _, err := h.Marshal(); err != nil {
		return err
	}
	a.Graves[h.Name] = h
	return nil
}

// DeletePodsOn notes that the pods of a host are deleted.
func (a *API) DeletePodsOn(_ context.Context, node string) error {
	a.Did = append(a.Did, "pods of "+node)
	return nil
}

// Ring is an etcd of values.
type Ring struct {
	// Now and Fails are what Status returns.
	Now   etcd.MemberStatus
	Fails error
	// At has what PeerURLs returns.
	At map[state.MemberID][]string
	// Did lists the changes, in their order.
	Did []string
}

// Status returns Now and Fails.
func (r *Ring) Status(context.Context) (etcd.MemberStatus, error) { return r.Now, r.Fails }

// PeerURLs returns the member of Now, At and Fails.
func (r *Ring) PeerURLs(context.Context) (self state.MemberID, at map[state.MemberID][]string, err error) {
	return r.Now.Member, r.At, r.Fails
}

// RemoveMember takes a member out of Now.
func (r *Ring) RemoveMember(_ context.Context, id state.MemberID) error {
	r.Did = append(r.Did, "removes "+id.String())
	r.Now.Members = slices.DeleteFunc(r.Now.Members, func(m state.EtcdMember) bool { return m.ID == id })
	return nil
}

// Close does nothing.
func (r *Ring) Close() error { return nil }
