package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/controlplane"
	"github.com/holdfast/holdfast/internal/agent/narrow"
	decidegrow "github.com/holdfast/holdfast/internal/decide/grow"
	decidenarrow "github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// newNarrowing returns the agent that makes three control planes two, if a person wants it. One of two
// has it, too, since it becomes one of two in the middle of the plan.
func newNarrowing(s *site.Site, log *slog.Logger) (*narrow.Agent, error) {
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	return narrow.New(narrow.ThisHost(narrow.Options{
		Host: name, Cluster: manifests.InfrastructureName(s.Config), ControlPlanes: s.Topology().ControlPlanes,
		Own: readSite, Manifest: controlplane.EtcdOf(s).OfPair,
		Possible: func(target *site.Site) error { _, err := grow.Objects(s, target); return err },
		Equip:    func(ctx context.Context, _ *site.Site) error { return inPairUnit(ctx, host.Run, "/", pairEquip) },
		Strip:    func(ctx context.Context, _ *site.Site) error { return inPairUnit(ctx, host.Run, "/", pairStrip) },
		Dress: func(ctx context.Context, p decidenarrow.Plan, target *site.Site) error {
			return dressOfTwo(ctx, s, target, p.Survivor == name)
		},
		Undress: func(ctx context.Context, p decidenarrow.Plan, target *site.Site) error {
			// One that comes back after it was said to be lost may have dressed the cluster once more.
			return undressOfTwo(ctx, target, []string{p.Survivor, p.Peer}, p.Survivor == name || p.Taken == name)
		},
		Restart: restartAndEnd, Backup: newestBackup, Log: slog.NewLogLogger(log.Handler(), slog.LevelInfo),
	})), nil
}

// dressOfTwo makes this host, which has etcd under kubelet, one of two control planes and, on the host that
// carries the plan, the cluster that of two. have is the site of three. It may be cut off and run again.
func dressOfTwo(ctx context.Context, have, target *site.Site, carries bool) error {
	if carries {
		changes, err := grow.Objects(have, target)
		if err != nil {
			return err
		}
		api, err := grow.Open()
		if err != nil {
			return err
		}
		if _, err := grow.Apply(ctx, api, changes); err != nil {
			return err
		}
	}
	return inPairUnit(ctx, host.Run, "/", pairDress)
}

// undressOfTwo makes this host one of three again and, on the host that carries the plan, the cluster that
// of three, whichever part of both was done.
func undressOfTwo(ctx context.Context, target *site.Site, hosts []string, carries bool) error {
	if carries {
		three, err := decidegrow.ThreeOf(target)
		if err != nil {
			return err
		}
		changes, err := grow.Fewer(target, three)
		if err != nil {
			return err
		}
		api, err := grow.Open()
		if err != nil {
			return err
		}
		if _, err := grow.Shrink(ctx, api, changes, hosts, "the site stays one of three control planes", time.Now()); err != nil {
			return err
		}
	}
	return inPairUnit(ctx, host.Run, "/", pairUndress)
}
