package controlplane

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// firstLimit bounds the time for which a joining host waits for its first
// configuration.
const firstLimit = 5 * time.Second

// first returns the file with the configuration that a host is to have before it
// joins, and the site's proxy and authorities, by which it finds its release: they may be
// others than at the installation of this host. What keeps it from that keeps no host
// from joining: it is given its configuration as a node.
func (r *Agent) first(ctx context.Context, role state.Role) []state.File {
	if !r.stands() {
		return nil // there is no cluster to ask
	}
	ctx, stop := context.WithTimeout(ctx, firstLimit)
	defer stop()
	files, err := r.firstFiles(ctx, rollout.PoolOfRole(role))
	if err != nil {
		r.Log.Warn("a host joins without its machine configuration, and is given it later", "role", role, "err", err)
	}
	return files
}

func (r *Agent) firstFiles(ctx context.Context, pool string) ([]state.File, error) {
	client, err := r.open()
	if err != nil {
		return nil, err
	}
	p, err := client.MachineConfigPool(ctx, pool)
	if apierrors.IsNotFound(err) {
		return nil, nil // the operator has not begun
	}
	if err != nil {
		return nil, err
	}
	name := rollout.First(p)
	if name == "" {
		return nil, nil
	}
	mc, err := client.MachineConfig(ctx, name)
	if err != nil {
		return nil, err
	}
	cfg, err := machineconfig.Read(*mc)
	if err != nil {
		return nil, fmt.Errorf("read MachineConfig %s: %w", name, err)
	}
	if cfg.Empty() {
		return cfg.ProxyFiles(), nil
	}
	file, err := hostconfig.FirstFile(mc)
	return append(cfg.ProxyFiles(), file), err
}
