// Package controlplane runs what the agent does on control planes only: it serves
// configuration to joining hosts, approves their certificates and those by which
// kubelets serve, renews expired ones of workers, labels nodes, keeps the cluster's own objects and keys, and tells the
// API of fenced hosts.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe/own"
	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Options holds what the agent of a control plane needs.
type Options struct {
	Site  *site.Site
	Loops *loop.Loops
	Log   *slog.Logger
	Now   func() time.Time
	// Event records what was done to the API. It does not block.
	Event func(state.Event)
	// VIPs returns the virtual IPs that the site has now.
	VIPs func() []netip.Addr
	// Rotations tells Prometheus of authorities that are being replaced.
	Rotations *rotation.Gauge
}

// Agent is the agent of one control plane.
type Agent struct {
	Options
	facts state.HostFacts
	told  bool // the node says which machine this is; used by nodesTask alone
	nodes *loop.Latest[[]state.Node]
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
		Options: o, nodes: loop.NewLatest[[]state.Node](), open: openAgent, admin: openAdmin,
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
	tasks, watches := r.loops()
	group.Go(func() error { r.Loops.Run(ctx, tasks...); return nil })
	for _, w := range watches {
		group.Go(func() error { r.Loops.Watch(ctx, w); return nil })
	}
	return group.Wait()
}

// loops returns the tasks and watches of this control plane.
func (r *Agent) loops() ([]loop.Task, []loop.Watch) {
	tasks := []loop.Task{
		r.identityTask(), r.nodesTask(), r.accountsTask(), r.objectsTask(), r.operatorKeyTask(), r.joiningTask(),
		r.rotationTask(),
	}
	var watches []loop.Watch
	if r.Site.Identity.Encrypts() {
		tasks = append(tasks, r.encryptionTask())
	}
	fencing := r.Site.Topology().Fencing
	if fencing {
		tasks = append(tasks, r.authoritiesTask())
	}
	if len(r.facts.Addresses) == 0 {
		return tasks, watches
	}
	approve, requests := r.approval(r.ownAPI)
	serve, servings := r.servingTask(r.ownAPI)
	tasks, watches = append(tasks, approve, serve), append(watches, requests, servings)
	if fencing {
		taints, causes := r.taints()
		tasks, watches = append(tasks, taints), append(watches, causes...)
	}
	return tasks, watches
}

// Limits of one run of a task: one request to the API may take 15 s.
const (
	aRequest     = time.Minute
	manyRequests = 5 * time.Minute
)

// notSetUp reports whether an error says that the host has no access to the API
// yet.
func notSetUp(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// findAddresses waits for the host's own addresses. Without them it can neither
// name itself in a certificate nor take part in VRRP.
func (r *Agent) findAddresses(ctx context.Context) error {
	networks, err := r.Site.MachineNetworks()
	if err != nil {
		return err
	}
	for said := ""; ; {
		r.facts, err = own.HostFacts(networks, r.Site.VIPs())
		if err == nil {
			return nil
		}
		if err.Error() != said {
			said = err.Error()
			r.Log.Info("waiting for this host's addresses", "err", said)
		}
		if err := host.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// logf logs for parts that write whole lines.
func (r *Agent) logf(format string, args ...any) { r.Log.Info(fmt.Sprintf(format, args...)) }
