// Package hostnet composes the network of one host: every source of the view, and
// every reconciler that follows the view.
package hostnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/agent/network/metrics"
	"github.com/holdfast/holdfast/internal/agent/network/nodes"
	"github.com/holdfast/holdfast/internal/agent/network/stage"
	"github.com/holdfast/holdfast/internal/agent/outside"
	"github.com/holdfast/holdfast/internal/decide/peers"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// kubeconfig is kubelet's: the one account of the API that every host has.
const kubeconfig = state.KubeletKubeconfig

// unnamed is the pause between two reads of the host's name while it has none.
const unnamed = time.Second

// Options holds what New needs.
type Options struct {
	Site  *site.Site
	Loops *loop.Loops
	Log   *slog.Logger
	Now   func() time.Time
	// Metrics is the address that serves the metrics, including those of
	// Collectors.
	Metrics    string
	Collectors []prometheus.Collector
	// Infrastructure hears what the API says of the network, and reports whether the
	// network of this host may follow it.
	Infrastructure func(kube.Infrastructure) bool
	// Here returns listed nodes with the addresses at which this host finds them.
	Here func([]state.Node) []state.Node
}

// Network is the network of this host.
type Network struct {
	Options
	agent   *network.Agent
	servers *kube.Servers
	nodes   *nodes.Source
	stage   *stage.Source
}

// New composes the network of this host. It waits until the host has a name,
// because without one it has no Node.
func New(ctx context.Context, o Options) (*Network, error) {
	n := &Network{Options: o, stage: &stage.Source{Ready: install.ReadyPath, Complete: install.CompletePath}}
	first, err := n.first(ctx)
	if err != nil {
		return nil, err
	}
	n.agent = &network.Agent{Views: network.NewViewStore(first), Loops: o.Loops}
	n.servers = &kube.Servers{
		Kubeconfig: kubeconfig, Name: o.Site.APIHost(),
		Addresses: func() []string { return apiServers(n.agent.Views.View(), o.Site.APIHost()) },
	}
	topology := o.Site.Topology()
	n.nodes = &nodes.Source{
		Servers: n.servers, Path: nodes.Path, Logf: n.logf, Here: o.Here,
		Site: peers.Site{ControlPlanes: topology.ControlPlanes, MastersSchedulable: topology.MastersSchedulable},
	}
	n.compose()
	return n, nil
}

// first returns the view before anything was observed.
func (n *Network) first(ctx context.Context) (state.NetworkView, error) {
	v := state.NetworkView{Role: n.Site.Role}
	var err error
	if v.Settings, err = settings.Load(n.Site, settings.Path); err != nil {
		return v, err
	}
	if v.Stage, err = n.stage.Now(); err != nil {
		return v, err
	}
	v.Host.NodeName, err = n.name(ctx)
	return v, err
}

func (n *Network) name(ctx context.Context) (string, error) {
	for said := false; ; said = true {
		name, err := host.Name()
		if err != nil {
			return "", err
		}
		if name != "" && !strings.HasPrefix(name, "localhost") {
			return name, nil
		}
		if !said {
			n.logf("waiting: this host has no name yet (it is %q): set one by DHCP or with hostnamectl", name)
		}
		if err := host.Sleep(ctx, unnamed); err != nil {
			return "", err
		}
	}
}

// Listen registers a function that gets each whole list of nodes. Call it before
// Run.
func (n *Network) Listen(heard func([]state.Node)) { n.nodes.Listen(heard) }

// Run keeps the network until the context ends, and tells systemd that the agent
// is ready and alive.
func (n *Network) Run(ctx context.Context) error {
	collector := &metrics.Collector{Agent: n.agent}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.agent.Run(ctx) })
	files := []loop.Task{n.agent.File(network.StatusPath), n.Loops.File(state.LoopsStatusPath)}
	group.Go(func() error { n.Loops.Run(ctx, files...); return nil })
	group.Go(func() error { return quiet(ctx, collector.Follow(ctx)) })
	group.Go(func() error { n.Loops.Watch(ctx, n.metrics(collector)); return nil })
	group.Go(func() error { n.outside().Run(ctx, n.Loops); return nil })
	if every, watched := host.WatchdogInterval(); watched {
		group.Go(func() error {
			return quiet(ctx, n.agent.Watchdog(ctx, every, func() error { return host.Notify("WATCHDOG=1") }))
		})
	}
	if err := host.Notify("READY=1"); err != nil {
		n.Log.Warn("systemd is not told that the agent works", "err", err)
	}
	return group.Wait()
}

// outside returns the probe of whether writes through another host's API VIP
// succeed.
func (n *Network) outside() *outside.Probe {
	return outside.New(outside.Options{
		View: n.agent.Views.View, Log: n.Log, Now: n.Now,
		TLS: func() (*tls.Config, error) { return kube.TLS(kubeconfig, n.Site.APIHost()) },
	})
}

// quiet drops an error that only says that the context has ended.
func quiet(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return nil // it was asked to end
}

// metrics serves the metrics. Without them the host's network works as well.
func (n *Network) metrics(c *metrics.Collector) loop.Watch {
	return loop.Watch{Name: "metrics", Pause: network.Resync, Run: func(ctx context.Context, _ func()) error {
		return c.Serve(ctx, n.Metrics, n.Collectors...)
	}}
}

// annotate sets an annotation of this host's node.
func (n *Network) annotate(ctx context.Context, node, name, value string) error {
	return n.setAnnotations(ctx, node, map[string]*string{name: &value})
}

// setAnnotations sets annotations of this host's node through the first server
// that answers, and removes those whose value is nil.
func (n *Network) setAnnotations(ctx context.Context, node string, values map[string]*string) error {
	err := n.servers.Try(ctx, func(ctx context.Context, c *kube.Client) error { return c.SetAnnotations(ctx, node, values) })
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("annotate node %s: this host has no access to the API yet: %w", node, err)
	}
	return err
}

// logf logs for sources and reconcilers, which write whole lines.
func (n *Network) logf(format string, args ...any) { n.Log.Info(fmt.Sprintf(format, args...)) }
