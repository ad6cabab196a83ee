package dualstack

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"

	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	install "github.com/holdfast/holdfast/internal/install/dualstack"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// API is what the carrier has of the API.
type API interface {
	install.API
	install.LockAPI
}

// Carrier is the cluster in the hands of the carrier.
type Carrier struct {
	API   API
	Store install.Store
	Site  *site.Site
	// Moves says that the site moves, empty if it does not.
	Moves func() string
}

// Shares implements Cluster.
func (c Carrier) Shares(ctx context.Context, p decide.Plan) (map[string]int, error) {
	out := map[string]int{}
	for _, name := range p.Order() {
		n, err := c.API.Node(ctx, name)
		if err != nil {
			return nil, err
		}
		if n != nil {
			out[name] = len(n.Spec.PodCIDRs)
		}
	}
	return out, nil
}

// Stands implements Cluster.
func (c Carrier) Stands(ctx context.Context, kept *corev1.Node) (bool, error) {
	n, err := c.API.Node(ctx, kept.Name)
	if err != nil || n == nil || n.DeletionTimestamp != nil {
		return false, err
	}
	return n.UID == kept.UID || len(n.Spec.PodCIDRs) > 1, nil
}

// Others implements Cluster.
func (c Carrier) Others(ctx context.Context, p decide.Plan) (string, error) {
	lock, err := c.API.ConfigMap(ctx, replace.LockNamespace, replace.LockName)
	if err != nil || lock[replace.LockKey] == p.ID {
		return "", err
	}
	return replace.InForce(lock), nil
}

// Work implements Cluster.
func (c Carrier) Work(ctx context.Context, p decide.Plan) (string, error) {
	other, err := c.Others(ctx, p)
	if err != nil || other != "" {
		return other, err
	}
	record, err := c.API.ConfigMap(ctx, annotation.RecordNamespace, annotation.RecordName)
	if err != nil {
		return "", err
	}
	var work []string
	for _, w := range []string{hold.Of(state.Known(record[annotation.RecordKey]), nil).Rewrite, c.Moves()} {
		if w != "" {
			work = append(work, w)
		}
	}
	return strings.Join(work, "; "), nil
}

// Lock implements Cluster.
func (c Carrier) Lock(ctx context.Context, p decide.Plan) error {
	return install.Lock(ctx, c.API, p)
}

// Noted implements Cluster.
func (c Carrier) Noted(ctx context.Context, p decide.Plan) (bool, error) {
	return install.Noted(ctx, c.API, p)
}

// Routed implements Cluster.
func (c Carrier) Routed(ctx context.Context, p decide.Plan) (bool, error) {
	return install.Routed(ctx, c.API, c.Site, p)
}

// Begin implements Cluster.
func (c Carrier) Begin(ctx context.Context, p decide.Plan) error {
	return install.Begin(ctx, c.API, p)
}

// Publish implements Cluster.
func (c Carrier) Publish(ctx context.Context, p decide.Plan) error {
	return install.Publish(ctx, c.API, p)
}

// Note implements Cluster.
func (c Carrier) Note(ctx context.Context, p decide.Plan) error { return install.Note(ctx, c.API, p) }

// Share implements Cluster.
func (c Carrier) Share(ctx context.Context, p decide.Plan, host string) error {
	return install.Share(ctx, c.API, c.Store, host, p.Hosts[host].Share)
}

// Route implements Cluster.
func (c Carrier) Route(ctx context.Context, p decide.Plan) error {
	return install.Route(ctx, c.API, c.Site, p)
}

// Settle implements Cluster.
func (c Carrier) Settle(ctx context.Context, p decide.Plan) error {
	return install.Settle(ctx, c.API, c.Site, p)
}

// Withdraw implements Cluster.
func (c Carrier) Withdraw(ctx context.Context, p decide.Plan) error {
	return install.Withdraw(ctx, c.API, p)
}

// Unlock implements Cluster.
func (c Carrier) Unlock(ctx context.Context, p decide.Plan) error {
	return install.Unlock(ctx, c.API, p)
}
