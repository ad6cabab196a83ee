package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/eventlog"
	"github.com/holdfast/holdfast/internal/agent/certificates"
	"github.com/holdfast/holdfast/internal/agent/controlplane"
	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/incident"
	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/agent/network/metrics"
	"github.com/holdfast/holdfast/internal/agent/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/cli/command"
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
keeps it on disk for when the API is down. It runs until it is stopped;
holdfast-agent.service starts it at boot.

The state of the network is in /run/holdfast/network.json, that of Pacemaker in
/run/holdfast/pacemaker.json. Metrics are served for Prometheus on this host's
loopback address.`,
		Example: `  # what holdfast-agent.service runs
  holdfast-agent run

  # who holds a virtual IP
  curl --silent http://127.0.0.1:29446/metrics | grep holdfast_network_vip_held

  # what this host knows of Pacemaker, and whether it writes it to the API
  jq '{writes, why, api}' /run/holdfast/pacemaker.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settle(streams.Out)
			s, err := readSite()
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), s, streams.Out, address)
		},
	}
	cmd.Flags().StringVar(&address, "metrics", address, "loopback address and port that metrics are served at")
	return cmd
}

// settle removes from an installed host what only the installation needed. A
// failure is logged and stops nothing.
func settle(log io.Writer) {
	if _, err := os.Stat(install.CompletePath); err != nil {
		return // it is being installed
	}
	took, err := install.Settle()
	if len(took) > 0 {
		_, _ = fmt.Fprintf(log, "removed what only the installation needed: %s\n", strings.Join(took, ", "))
	}
	if err != nil {
		_, _ = fmt.Fprintf(log, "remove what only the installation needed: %v\n", err)
	}
}

// runAgent runs the parts of the agent and writes the events that they report.
func runAgent(ctx context.Context, s *site.Site, log io.Writer, address string) error {
	events := eventlog.OnThisHost(state.AgentEvents, time.Now, func(format string, args ...any) {
		_, _ = fmt.Fprintf(log, format+"\n", args...)
	})
	return events.During(ctx, func(ctx context.Context) error { return runParts(ctx, s, log, address, events.Append) })
}

// runParts runs the parts that this host's role and the cluster's topology need,
// until the context ends or one of them fails.
func runParts(ctx context.Context, s *site.Site, log io.Writer, address string, event func(state.Event)) error {
	if err := install.CloseFiles("/"); err != nil {
		_, _ = fmt.Fprintln(log, err) // not fatal: the host works without it
	}
	group, ctx := errgroup.WithContext(ctx)
	status := pacemakerstatus.New(pacemakerstatus.Options{Site: s, Log: log, Now: time.Now})
	net, err := hostnet.New(ctx, hostnet.Options{
		Site: s, Log: log, Now: time.Now, Metrics: address,
		Collectors: []prometheus.Collector{status, certificates.Collector{}},
	})
	if err != nil {
		return err
	}
	if s.Role.ControlPlane() {
		agent := controlplane.New(controlplane.Options{Site: s, Log: log, Now: time.Now, Event: event})
		net.Listen(agent.Nodes)
		group.Go(func() error { return agent.Run(ctx) })
		group.Go(func() error {
			_ = newDoctorPublisher(log).run(ctx) // it ends only with the context, which is no failure of the agent
			return nil
		})
	}
	if s.Role.ControlPlane() && s.Topology().Fencing {
		group.Go(func() error { status.Run(ctx); return nil })
		incidents := incident.New(incident.Options{Site: s, Log: log, Now: time.Now})
		group.Go(func() error { incidents.Run(ctx); return nil })
	}
	group.Go(func() error { return net.Run(ctx) })
	return group.Wait()
}
