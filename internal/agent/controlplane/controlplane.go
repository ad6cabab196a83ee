// Package controlplane runs what the agent does on control planes only: it serves
// configuration to joining hosts, approves their certificates, labels nodes,
// keeps the cluster's own objects and keys, and tells the API of fenced hosts.
package controlplane

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe/own"
	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/pace"
)

// Options holds what the agent of a control plane needs.
type Options struct {
	Site *site.Site
	Log  io.Writer
	Now  func() time.Time
	// Event records what was done to the API. It does not block.
	Event func(state.Event)
}

// Agent is the agent of one control plane.
type Agent struct {
	Options
	facts state.HostFacts
	told  bool // the node says which machine this is; used by followNodes alone
	nodes chan []state.Node
	// proven reports whether this host's installation as a control plane is
	// complete.
	proven func() bool
	// stands reports whether its control plane was set up, which happens earlier.
	stands func() bool
	// open returns the API by the agent's own account, admin by an
	// administrator's.
	open, admin func() (*kube.Client, error)
	entitled    bool // agents have their rights; used by keepIdentity alone
}

// New returns the agent of a control plane. The caller passes it the nodes of the
// cluster through Nodes.
func New(o Options) *Agent {
	return &Agent{
		Options: o, nodes: make(chan []state.Node, 1), open: openAgent, admin: openAdmin,
		proven: func() bool { return host.Exists(install.CompletePath) }, stands: install.ControlPlaneStands,
	}
}

// Run serves until the context ends or a part of it fails for good.
func (r *Agent) Run(ctx context.Context) error {
	if err := r.findAddresses(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.serveConfig(ctx) })
	group.Go(func() error { r.keepIdentity(ctx); return nil })
	group.Go(func() error { r.followNodes(ctx); return nil })
	group.Go(func() error { r.keepTaints(ctx); return nil })
	group.Go(func() error { r.tellAccounts(ctx); return nil })
	group.Go(func() error { r.tellAuthorities(ctx); return nil })
	group.Go(func() error { r.keepObjects(ctx); return nil })
	group.Go(func() error { r.keepOperatorKey(ctx); return nil })
	group.Go(func() error { r.approve(ctx); return nil })
	group.Go(func() error { r.watchJoining(ctx); return nil })
	group.Go(func() error { r.keepEncryption(ctx); return nil })
	return group.Wait()
}

// findAddresses waits for the host's own addresses. Without them it can neither
// name itself in a certificate nor take part in VRRP.
func (r *Agent) findAddresses(ctx context.Context) error {
	networks, err := r.Site.MachineNetworks()
	if err != nil {
		return err
	}
	for said := ""; ; {
		r.facts, err = own.Facts(networks, r.Site.VIPs())
		if err == nil {
			return nil
		}
		if err.Error() != said {
			said = err.Error()
			r.logf("waiting: %s", said)
		}
		if err := host.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// trouble returns the logger of one loop's errors; about says what the loop does.
func (r *Agent) trouble(about string) pace.Trouble {
	return pace.Trouble{Logf: func(format string, args ...any) { r.logf(about+": "+format, args...) }, Now: r.Now}
}

func (r *Agent) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Log, format+"\n", args...)
}
