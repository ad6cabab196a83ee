package agent

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/updates"
	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/network/registration"
	"github.com/holdfast/holdfast/internal/agent/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/agent/parts"
	"github.com/holdfast/holdfast/internal/agent/upgrade"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/keepalived"
)

// newUpgrade returns what takes this host to another release, and tells the cluster
// what the host is like.
func newUpgrade(s *site.Site, net *hostnet.Network, status *pacemakerstatus.Collector, releases upgrade.Releases, brings *parts.Agent, event func(state.Event)) *upgrade.Agent {
	cluster, kind := net.Cluster(), upgrade.KindOf(s)
	self := cluster.View().Host.NodeName
	h := upgrade.ThisHost(kind, releases)
	members := etcdMembers()
	h.Serves = upgrade.Serves
	h.PeerServes = func(ctx context.Context) state.Fact[bool] {
		return upgrade.PeerServes(ctx, self, cluster.View().Nodes.Value)
	}
	h.Spare = func(ctx context.Context) (state.Fact[bool], bool) {
		return upgrade.Spare(ctx, self, cluster.View().Nodes.Value)
	}
	h.Newer = upgrade.NewerBy(releases)
	gatherer := &upgrade.Gatherer{
		Name: self, Kind: kind, Releases: releases, Now: time.Now, Version: net.OwnServer(), Pacemaker: status.Input,
		Links: pacemaker.LinksWork, Packages: updates.BelowEtcd(host.UnattendedPath).Read,
	}
	h.Emulates = gatherer.Emulates
	h.GiveLead = func(ctx context.Context) (bool, error) {
		if kind == parachute.Worker {
			return true, nil
		}
		return members.GiveLead(ctx, self, upgrade.ControlPlanes(cluster.View()))
	}
	prover := &upgrade.Prover{
		Self: self, Kind: kind, Releases: releases, Now: time.Now, View: cluster.View, Members: members.Statuses,
		Kubelet: registration.KubeletIsWell, NodeReady: cluster.NodeReady, Pacemaker: status.Report, Daemons: h.Daemons, Serves: h.Serves, PeerServes: h.PeerServes,
		Name: "kubernetes.default.svc." + config.ServiceDomain + ".", Root: upgrade.AskRoot, Servers: upgrade.ServerProcesses, Well: upgrade.WellAt,
		Version: gatherer.Server, Held: h.Held,
	}
	if networks, err := s.ServiceNetworks(); err == nil && len(networks) > 0 {
		prover.Service = networks[0].Masked().Addr().Next()
	}
	if dns, err := clusterdns.Address(s.Config.Networking.ServiceNetwork); err == nil {
		prover.DNS = dns
	}
	if len(s.Config.APIVIPs()) > 0 {
		prover.Keepalived = upgrade.KeepalivedRuns(keepalived.PIDFile)
	}
	h.Prove = prover.Prove
	failed := func() (string, bool) { f := brings.PartFailed(); return f.Why, f.Undone }
	out := upgrade.New(upgrade.Options{Host: h, Kind: kind, Now: time.Now, Event: event, Releases: releases, PartFailed: failed, Gather: gatherer.Gather})
	out.Join(upgrade.Cluster{SetAnnotations: cluster.SetAnnotations, View: cluster.View, Leave: cluster.Leave})
	return out
}
