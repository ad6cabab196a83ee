// Package controlplane is what the agent does on every control plane: it
// serves configuration to joining hosts, labels nodes, keeps the hosts of the
// virtual IPs in step with the cluster, and tells the API of fenced hosts.
package controlplane

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/observe"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/state"
)

// Options are what the agent of a control plane works with.
type Options struct {
	Site *site.Site
	Log  io.Writer
	Now  func() time.Time
}

type run struct {
	Options
	facts state.HostFacts
	told  bool // which machine this is; used by the watch of nodes alone
}

// Run serves until the context ends or a part of it cannot go on.
func Run(ctx context.Context, o Options) error {
	r := &run{Options: o}
	if err := r.findAddresses(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.serveConfig(ctx) })
	group.Go(func() error { r.followNodes(ctx); return nil })
	group.Go(func() error { r.keepTaints(ctx); return nil })
	group.Go(func() error { r.tellAccounts(ctx); return nil })
	return group.Wait()
}

// findAddresses waits for the host's own addresses, without which it can
// neither name itself in a certificate nor take part in VRRP.
func (r *run) findAddresses(ctx context.Context) error {
	networks, err := r.Site.MachineNetworks()
	if err != nil {
		return err
	}
	for said := ""; ; {
		r.facts, err = observe.Host(networks, r.Site.VIPs())
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

func (r *run) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Log, format+"\n", args...)
}
