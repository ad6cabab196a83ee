package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/backup/catalogue"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/controlplane"
	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/agent/replace"
	"github.com/holdfast/holdfast/internal/agent/widen"
	decidegrow "github.com/holdfast/holdfast/internal/decide/grow"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	decidewiden "github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// runTopology runs the loops of one of two control planes, and the one that carries plans out which
// change the control planes. A lone control plane has no plan, or one by which it has just become
// one.
func runTopology(ctx context.Context, group *errgroup.Group, s *site.Site, log *slog.Logger, loops *loop.Loops, status *pacemakerstatus.Collector, net *hostnet.Network) error {
	if s.Topology().Fencing {
		runPair(ctx, group, s, log, loops, status)
	}
	plans, err := newReplacement(s, log, net.Cluster().View)
	if err != nil {
		return err
	}
	group.Go(func() error { loops.Run(ctx, plans.Task()); return nil })
	if s.Topology().ControlPlanes == 1 {
		return nil
	}
	wider, err := newWidening(s, log)
	if err != nil {
		return err
	}
	net.Listen(wider.Nodes)
	group.Go(func() error { loops.Run(ctx, wider.Task()); return nil })
	narrower, err := newNarrowing(s, log)
	if err != nil {
		return err
	}
	net.Listen(narrower.Nodes)
	group.Go(func() error { loops.Run(ctx, narrower.Task()); return nil })
	return nil
}

// newWidening returns the agent that makes two control planes three, if a person wants it. One of
// three has it, too, since the plan ends there.
func newWidening(s *site.Site, log *slog.Logger) (*widen.Agent, error) {
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	return widen.New(widen.ThisHost(widen.Options{
		Host: name, ControlPlanes: s.Topology().ControlPlanes,
		Target: sync.OnceValue(func() error { return canWiden(s) }), Pod: controlplane.EtcdOf(s).OneOf,
		Dress:  func(ctx context.Context, p decidewiden.Plan) error { return dressOfThree(ctx, s, p, name) },
		Backup: newestBackup, Log: slog.NewLogLogger(log.Handler(), slog.LevelInfo),
	})), nil
}

// canWiden returns why the site of three cannot be made of this host and its cluster.
func canWiden(have *site.Site) error {
	want, err := decidegrow.ThreeOf(have)
	if err != nil {
		return err
	}
	_, err = grow.Fewer(have, want)
	return err
}

// dressOfThree makes this host, which has etcd under kubelet, one of three control planes and, on the
// host that carries the plan, the cluster that of three. The agent that starts then belongs to three.
func dressOfThree(ctx context.Context, have *site.Site, plan decidewiden.Plan, node string) error {
	want, err := decidegrow.ThreeOf(have)
	if err != nil {
		return err
	}
	if plan.Survivor == node {
		changes, err := grow.Fewer(have, want)
		if err != nil {
			return err
		}
		api, err := grow.Open()
		if err != nil {
			return err
		}
		if _, err := grow.Shrink(ctx, api, changes, []string{plan.Survivor, plan.Peer}, "the site goes on with three control planes", time.Now()); err != nil {
			return err
		}
	}
	if err := grow.NewHost().Undress(ctx, want); err != nil {
		return err
	}
	return restartAndEnd(ctx)
}

func newestBackup(context.Context) state.Fact[time.Time] {
	return catalogue.Catalogue{Dir: backup.Dir}.Last(time.Now())
}

// newReplacement returns the agent that brings another machine as the second control plane, or
// makes this host the only one, if a person wants it.
func newReplacement(s *site.Site, log *slog.Logger, view func() state.NetworkView) (*replace.Agent, error) {
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	return replace.New(replace.ThisHost(replace.Options{
		Host: name, Cluster: manifests.InfrastructureName(s.Config), ControlPlanes: s.Topology().ControlPlanes,
		JoinKey: s.Identity.JoinKey,
		Address: func() string {
			if own := view().Host.Addresses; len(own) > 0 {
				return own[0].String()
			}
			return ""
		},
		Manifest: controlplane.EtcdOf(s).OfPair, Pod: controlplane.EtcdOf(s).Alone,
		Dress: func(ctx context.Context) error { return dress(ctx, s, name) },
		Hosts: decide.HostNames(s.Config), NamedIn: func(p decide.Plan) bool { return p.NamedIn(s.Config) },
		Name: func(ctx context.Context, p decide.Plan, dev state.FencingDevice) error {
			return nameSite(ctx, s, p, dev)
		},
		Backup: newestBackup,
		Log:    slog.NewLogLogger(log.Handler(), slog.LevelInfo),
	})), nil
}

// dress makes this host, which has etcd under kubelet, and its cluster those of a lone control
// plane. The agent that starts then belongs to one.
func dress(ctx context.Context, have *site.Site, node string) error {
	goes, err := whoGoes(replacement.ThisStore())
	if err != nil {
		return err
	}
	data, err := os.ReadFile(replacement.TargetSitePath)
	if err != nil {
		return err
	}
	want, err := site.Unmarshal(data)
	if err != nil {
		return err
	}
	changes, err := grow.Fewer(have, want)
	if err != nil {
		return err
	}
	api, err := grow.Open()
	if err != nil {
		return err
	}
	if _, err := grow.Shrink(ctx, api, changes, []string{node, goes}, "the site goes on with one control plane", time.Now()); err != nil {
		return err
	}
	if err := grow.NewHost().Undress(ctx, want); err != nil {
		return err
	}
	return restart(ctx) // this process belongs to one of two
}

// whoGoes returns the name of the host that the plan takes out.
func whoGoes(plans replacement.Store) (string, error) {
	plan, err := plans.Plan()
	if err != nil {
		return "", err
	}
	if plan == nil {
		return "", fmt.Errorf("the plan is gone: %s was removed, and only it names the host that went", plans.Path(replacement.PlanPath))
	}
	return plan.Old.Name, nil
}

// restart has the agent started anew. A child of this process would end with it, and look as if it
// had failed.
func restart(ctx context.Context) error {
	_, err := host.Run(ctx, host.Command("systemd-run", "--quiet", "--collect", "--no-block", "systemctl", "restart", renderhost.AgentUnit))
	return err
}

// restartTime is how long an agent that asked to be started anew waits for its end.
const restartTime = time.Minute

// nameSite has the cluster's objects and this host's site.json name the new host of a plan. The agent
// that starts then goes by them. site.json comes last: until this process ends it says that the
// new host is not named, so what was cut off is done again.
func nameSite(ctx context.Context, have *site.Site, plan decide.Plan, dev state.FencingDevice) error {
	now, err := readSite() // what else is in the file stays as it is there
	if err != nil {
		return err
	}
	api, err := grow.Open()
	if err != nil {
		return err
	}
	gone := ""
	if plan.Old.Name != plan.New.Name {
		gone = plan.Old.Name
	}
	if err := grow.Name(ctx, api, have, plan.Site(have, dev), gone); err != nil {
		return err
	}
	data, err := decidegrow.Kept(plan.Site(now, dev)).Marshal()
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(site.Path, data, state.SecretFileMode); err != nil {
		return err
	}
	return restartAndEnd(ctx)
}

// restartAndEnd has the agent started anew, and returns when this process is to end.
func restartAndEnd(ctx context.Context) error {
	if err := restart(ctx); err != nil {
		return err
	}
	limited, stop := context.WithTimeoutCause(ctx, restartTime, fmt.Errorf("holdfast-agent was not started anew within %s: sudo systemctl restart %s", restartTime, renderhost.AgentUnit))
	defer stop()
	<-limited.Done() // the agent ends
	return context.Cause(limited)
}
