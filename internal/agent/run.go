package agent

import (
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/agent/controlplane"
	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/network/metrics"
	"github.com/holdfast/holdfast/internal/command"
)

func newRun(streams command.Streams) *cobra.Command {
	address := metrics.Address
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Keep this host's part of the cluster in step",
		Long: `Run the agent of a host. On every host it keeps the network in step with the
cluster: virtual IPs, load balancer, names and the host's own resolver. On a
control plane it is also the configuration server that joining hosts ask, and it
labels nodes. It runs until it is stopped; holdfast-agent.service starts it at
boot.

How the network is doing is in /run/holdfast/network.json. Metrics are served
for Prometheus on this host's loopback address.`,
		Example: `  # what holdfast-agent.service runs
  holdfast-agent run

  # who holds a virtual IP
  curl --silent http://127.0.0.1:29446/metrics | grep holdfast_network_vip_held`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSite()
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(cmd.Context())
			net, err := hostnet.New(ctx, hostnet.Options{Site: s, Log: streams.Out, Now: time.Now, Metrics: address})
			if err != nil {
				return err
			}
			if s.Role.ControlPlane() {
				agent := controlplane.New(controlplane.Options{Site: s, Log: streams.Out, Now: time.Now})
				net.Listen(agent.Nodes)
				group.Go(func() error { return agent.Run(ctx) })
			}
			group.Go(func() error { return net.Run(ctx) })
			return group.Wait()
		},
	}
	cmd.Flags().StringVar(&address, "metrics", address, "loopback address and port that metrics are served at")
	return cmd
}
