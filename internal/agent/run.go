package agent

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/agent/controlplane"
	"github.com/holdfast/holdfast/internal/command"
)

func newRun(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Serve configuration and keep virtual IPs in step on a control plane",
		Long: `Run the agent of a control plane: the configuration server that joining hosts
ask, the role labels of nodes, and keepalived's peers. It runs until it is
stopped; holdfast-agent.service starts it at boot.`,
		Example: `  # what holdfast-agent.service runs
  holdfast-agent run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSite()
			if err != nil {
				return err
			}
			return controlplane.Run(cmd.Context(), controlplane.Options{Site: s, Log: streams.Out, Now: time.Now})
		},
	}
}
