package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/clock"
	"github.com/holdfast/holdfast/internal/adapter/eventlog"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	backupagent "github.com/holdfast/holdfast/internal/agent/backup"
	"github.com/holdfast/holdfast/internal/agent/certificates"
	"github.com/holdfast/holdfast/internal/agent/controlplane"
	"github.com/holdfast/holdfast/internal/agent/deleted"
	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/incident"
	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/agent/kubeletcert"
	"github.com/holdfast/holdfast/internal/agent/leafcert"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/machineconfig"
	"github.com/holdfast/holdfast/internal/agent/network/metrics"
	"github.com/holdfast/holdfast/internal/agent/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/agent/parts"
	"github.com/holdfast/holdfast/internal/agent/releases"
	"github.com/holdfast/holdfast/internal/agent/rotation"
	"github.com/holdfast/holdfast/internal/agent/space"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/agent/wipe"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newRun(streams command.Streams) *cobra.Command {
	address := metrics.Address
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Keep this host's part of the cluster in step",
		Long: `Run the agent of a host. On every host it keeps the network in step with the
cluster: virtual IPs, load balancer, names and the host's own resolver. On a
control plane it is also the configuration server for joining hosts, and it
labels nodes; on one of two it publishes the status of Pacemaker in the API, and
keeps it on disk for when the API is down. On a control plane it renews the
certificates that kubeadm signed. Where the certificate of kubelet expired while
the host was off, a control plane signs another one for itself, and a worker gets
one from a control plane. Where the node of a host names a machine configuration,
it takes the host there, or back if the host does not become ready. It boots the
host for that, once the operator has moved the host's pods and the cluster carries
on without it. It tells the cluster which release runs here and what the host is
like, and takes the host to another release when the host has its turn. It runs
until it is stopped; holdfast-agent.service starts it at boot.

The state of the network is in /run/holdfast/network.json, that of Pacemaker in
/run/holdfast/pacemaker.json, that of the agent's other loops in
/run/holdfast/loops.json. Metrics are served for Prometheus on this host's
loopback address.`,
		Example: `  # what holdfast-agent.service runs
  holdfast-agent run

  # who holds a virtual IP
  curl --silent http://127.0.0.1:29446/metrics | grep holdfast_network_vip_held

  # what this host knows of Pacemaker, and whether it writes it to the API
  jq '{writes, why, api}' /run/holdfast/pacemaker.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := command.JournalLogger(streams.Out)
			settle(log)
			s, err := readSite()
			if err != nil {
				return err
			}
			lapse(log)
			kube.FollowCertificates(s.Config.CertificateLife())
			collectRarely()
			return runAgent(cmd.Context(), s, log, address)
		},
	}
	cmd.Flags().StringVar(&address, "metrics", address, "loopback address and port that metrics are served at")
	return cmd
}

// settle takes what only an installation needed from a host that is installed. It
// keeps nothing else from running.
func settle(log *slog.Logger) {
	if _, err := os.Stat(install.CompletePath); err != nil {
		return // it is being installed
	}
	took, err := install.Settle()
	if len(took) > 0 {
		log.Info("removed what only the installation needed", "files", took)
	}
	if err != nil {
		log.Warn("what only the installation needed is still there", "err", err)
	}
}

// lapse ends the permission of a wipe that was broken off before it ended this agent: the host lives on, and
// is asked about before somebody wipes it later. A host that lost a part of what an installation leaves does not
// live on: a person ends its wipe.
func lapse(log *slog.Logger) {
	if _, err := os.Stat(install.CompletePath); err != nil {
		return
	}
	boot, _, err := observe.Boot()
	if err != nil {
		log.Warn("whether a wipe of this host was broken off is unknown", "err", err)
		return
	}
	switch was, err := wipe.Lapse("/", boot); {
	case err != nil:
		log.Warn("a wipe of this host was broken off, and may still go on unasked", "err", err)
	case was:
		log.Info("a wipe of this host was broken off in an earlier boot: the next one asks again")
	}
}

// collectRarely lets the heap grow to four times of what lives in it before it is collected, unless somebody
// sets GOGC. Some 9 MB live, so with Go's own setting a collection came every ten seconds, and was a twentieth
// of what an agent costs while nothing happens (2026-12-01); now the heap has some 20 MB more.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// runAgent runs the parts of the agent, and writes the events that they note.
func runAgent(ctx context.Context, s *site.Site, log *slog.Logger, address string) error {
	events := eventlog.OnThisHost(state.AgentEvents, time.Now, log)
	return events.During(ctx, func(ctx context.Context) error {
		loops := loop.New(time.Now, log)
		return withPlace(ctx, s, log, loops, func(ctx context.Context) error { return runParts(ctx, s, log, address, loops, events.Append) })
	})
}

// runParts runs what this host's role and the cluster's shape ask for, until the
// context ends or a part of it cannot go on. All of it shares the loops that the
// watchdog asks.
func runParts(ctx context.Context, s *site.Site, log *slog.Logger, address string, loops *loop.Loops, event func(state.Event)) error {
	if err := install.CloseFiles("/"); err != nil {
		log.Warn("files of the installation", "err", err) // all that is about keeps the host going
	}
	group, ctx := errgroup.WithContext(ctx)
	status := pacemakerstatus.New(pacemakerstatus.Options{Site: s, Log: log, Now: time.Now})
	leaves, err := newLeafKeeper(s, log)
	if err != nil {
		return err
	}
	config := machineconfig.New(machineconfig.Options{Host: machineconfig.ThisHost(), Now: time.Now, Event: event})
	rotations := &rotation.Gauge{}
	var net *hostnet.Network
	view := func() state.NetworkView { return net.Cluster().View() }
	backups, spaces := newBackups(s, view), newSpace(s, view)
	moves := newAnnounced(s, func() *hostnet.Network { return net }, status)
	net, err = hostnet.New(ctx, hostnet.Options{
		Site: s, Loops: loops, Log: log, Now: time.Now, Metrics: address, Infrastructure: moves.Infrastructure, Here: moves.move.Here,
		Collectors: []prometheus.Collector{status, certificates.Collector{}, leaves, config, backups, spaces, rotations},
	})
	if err != nil {
		return err
	}
	// follow runs tasks that hear of nodes.
	follow := func(heard func([]state.Node), tasks ...loop.Task) {
		net.Listen(heard)
		group.Go(func() error { loops.Run(ctx, tasks...); return nil })
	}
	follow(moves.Nodes, moves.Tasks()...)
	cluster := net.Cluster()
	newSpare(s, cluster.View, status).tell(&cluster)
	config.Join(cluster)
	follow(config.Nodes, config.Task(), config.ShutdownTask())
	group.Go(func() error { loops.Watch(ctx, config.Requests(state.AgentSocket)); return nil })
	shelf := newShelf(s, cluster.View)
	follow(shelf.Nodes, shelf.Task())
	brings := parts.New(parts.Options{Unit: parts.ThisUnit(), Now: time.Now, Node: func() string { return cluster.View().Host.NodeName }})
	if s.Role.ControlPlane() {
		group.Go(func() error { loops.Run(ctx, leaves.Task()); return nil })
		follow(brings.Nodes, brings.Task())
		agent := controlplane.New(controlplane.Options{Site: s, Loops: loops, Log: log, Now: time.Now, Event: event, VIPs: func() []netip.Addr { return cluster.View().Settings.VIPs() }, Rotations: rotations})
		net.Listen(agent.Nodes)
		group.Go(func() error { return agent.Run(ctx) })
		group.Go(func() error { loops.Run(ctx, newDoctorPublisher().task()); return nil })
		runEtcd(ctx, group, loops, net, backups, spaces)
	} else {
		follower, err := newFollower(net, log)
		if err != nil {
			return err
		}
		follow(follower.Nodes, follower.Task())
	}
	missed := newDeleted(s, net, cluster.View)
	group.Go(func() error { loops.Run(ctx, missed.Task()); return nil })
	upgrades := newUpgrade(s, net, status, shelf, brings, event)
	follow(upgrades.Nodes, upgrades.Task(), upgrades.TellTask())
	kubelets := newKubeletKeeper(s, net, leaves)
	group.Go(func() error { loops.Run(ctx, kubelets.Task()); return nil })
	if s.Role.ControlPlane() {
		if err := runTopology(ctx, group, s, log, loops, status, net); err != nil {
			return err
		}
	}
	group.Go(func() error { return net.Run(ctx) })
	return group.Wait()
}

// runEtcd runs the loops of a control plane that look after the data of etcd.
func runEtcd(ctx context.Context, group *errgroup.Group, loops *loop.Loops, net *hostnet.Network, takes *backupagent.Agent, gives *space.Agent) {
	net.Listen(takes.Nodes)
	group.Go(func() error { loops.Run(ctx, takes.Task()); return nil })
	net.Listen(gives.Nodes)
	group.Go(func() error { loops.Run(ctx, gives.Task()); return nil })
}

// runPair runs the loops that only one of two control planes with fencing has.
func runPair(ctx context.Context, group *errgroup.Group, s *site.Site, log *slog.Logger, loops *loop.Loops, status *pacemakerstatus.Collector) {
	group.Go(func() error { status.Run(ctx, loops); return nil })
	incidents := incident.New(incident.Options{Site: s, Log: log, Now: time.Now})
	group.Go(func() error { incidents.Run(ctx, loops); return nil })
	steps := twonode.NewHost(slog.NewLogLogger(log.Handler(), slog.LevelInfo).Writer())
	group.Go(func() error { loops.Run(ctx, steps.ReleaseTask()); return nil })
}

// newShelf returns what has the wanted releases lie on this host.
func newShelf(s *site.Site, view func() state.NetworkView) *releases.Agent {
	return releases.New(releases.Options{
		Host: releases.ThisHost(s.Role.ControlPlane()), Unit: releases.ThisUnit(), Now: time.Now,
		Node: func() string { return view().Host.NodeName },
	})
}

// newDeleted returns the keeper that notices deleted files. It writes to the node with the
// account of this host that has most rights.
func newDeleted(s *site.Site, net *hostnet.Network, view func() state.NetworkView) *deleted.Keeper {
	pair := s.Role.ControlPlane() && s.Topology().Fencing
	kubeconfig := state.KubeletKubeconfig
	if s.Role.ControlPlane() {
		kubeconfig = state.AgentKubeconfig
	}
	return deleted.New(deleted.Options{
		Kind:           decide.Kind{ControlPlane: s.Role.ControlPlane(), Pacemaker: pair, Three: s.Topology().ControlPlanes > 2, Encrypts: s.Identity.Encrypts()},
		EncryptionRoot: s.Identity.EncryptionRoot, Now: time.Now, View: view,
		Installed: func() bool { return host.Exists(install.CompletePath) }, EtcdRuns: deleted.EtcdRuns,
		// while a plan changes the control planes, Corosync's files and the CIB change on purpose
		Pair: func() bool { return pair && records.Files{}.HasRecord() && !replacement.ThisStore().Busy() },
		Tell: func(ctx context.Context, node, value string) error {
			return net.Try(ctx, kubeconfig, func(ctx context.Context, c *kube.Client) error {
				if value == "" {
					return c.SetAnnotations(ctx, node, map[string]*string{state.AnnotationDeleted: nil})
				}
				return c.Annotate(ctx, node, state.AnnotationDeleted, value)
			})
		},
	})
}

// newFollower returns what has a worker follow the authority of the API. It asks by
// kubelet's account, the only one that a worker has.
func newFollower(net *hostnet.Network, log *slog.Logger) (*rotation.Follower, error) {
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	return rotation.NewFollower(rotation.WorkerOptions{
		Node: name, Log: log, Now: time.Now,
		Try: func(ctx context.Context, kubeconfig string, do func(context.Context, rotation.WorkerAPI) error) error {
			return net.Try(ctx, kubeconfig, func(ctx context.Context, c *kube.Client) error { return do(ctx, c) })
		},
	}), nil
}

// newLeafKeeper returns what keeps the leaf certificates of a control plane. It asks
// the API by the agent's account.
func newLeafKeeper(s *site.Site, log *slog.Logger) (*leafcert.Keeper, error) {
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	return leafcert.New(leafcert.Options{
		Node: name, ControlPlanes: s.Topology().ControlPlanes, Life: s.Config.CertificateLife(), Log: log, Now: time.Now,
		Open: func() (leafcert.API, error) { return kube.Open(state.AgentKubeconfig) },
	}), nil
}

// newKubeletKeeper returns what keeps the certificates of this host's kubelet. A control
// plane signs them itself, and on two Pacemaker decides when kubelet starts.
func newKubeletKeeper(s *site.Site, net *hostnet.Network, leaves *leafcert.Keeper) *kubeletcert.Keeper {
	k := &kubeletcert.Keeper{
		Servers: net.ConfigServers, Name: s.APIName(), CA: s.Identity.ConfigCA.Cert, Now: time.Now,
		Synchronised: clock.Synchronised, Restart: kubeletcert.Restart,
		Running: func() (string, error) { return kubeletcert.Running("") },
	}
	if s.Role.ControlPlane() {
		k.Sign = leaves.SignKubelet
		if s.Topology().Fencing {
			k.Restart = nil
		}
	}
	return k
}
