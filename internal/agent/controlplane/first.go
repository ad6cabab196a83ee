package controlplane

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/state"
)

// firstLimit bounds the time for which a joining host waits for its first
// configuration.
const firstLimit = 5 * time.Second

// first returns the file with the configuration that a host is to have before it
// joins, and the site's proxy and authorities, by which it finds its release, and keys: they may
// be others than at the installation of this host. What keeps it from that keeps no host
// from joining: it is given its configuration as a node.
func (r *Agent) first(ctx context.Context, role state.Role) installer.First {
	if !r.stands() {
		return installer.First{} // there is no cluster to ask
	}
	ctx, stop := context.WithTimeout(ctx, firstLimit)
	defer stop()
	first, err := r.firstOf(ctx, rollout.PoolOfRole(role))
	if err != nil {
		r.Log.Warn("a host joins without its machine configuration, and is given it later", "role", role, "err", err)
	}
	return first
}

func (r *Agent) firstOf(ctx context.Context, pool string) (out installer.First, err error) {
	client, err := r.open()
	if err != nil {
		return out, err
	}
	p, err := client.MachineConfigPool(ctx, pool)
	if apierrors.IsNotFound(err) {
		return out, nil // the operator has not begun
	}
	if err != nil {
		return out, err
	}
	name := rollout.First(p)
	if name == "" {
		return out, nil
	}
	mc, err := client.MachineConfig(ctx, name)
	if err != nil {
		return out, err
	}
	cfg, err := machineconfig.Read(*mc)
	if err != nil {
		return out, fmt.Errorf("read MachineConfig %s: %w", name, err)
	}
	out.Files, out.Keys = cfg.ProxyFiles(), cfg.Keys()
	if cfg.Empty() {
		return out, nil
	}
	file, err := hostconfig.FirstFile(mc)
	out.Files = append(out.Files, file)
	return out, err
}
