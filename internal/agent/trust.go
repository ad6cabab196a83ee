package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/agent/trust"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newTrust(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "trust",
		Short: "Trust the certificate authorities of the site",
		Long: `Have this host trust the authorities in ` + state.TrustPath + `, and no longer
those of an earlier file, by the tool of its distribution. holdfast-trust.service runs
this command at each boot, and the agent has it run after a change of the file. Programs
that run keep the list that they have read.

A second run changes nothing, and does not run that tool.`,
		Example: `  # what the last run has done, or why it could not
  sudo journalctl --unit=holdfast-trust

  # have a host trust what its file says
  sudo systemctl restart holdfast-trust.service`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("trust changes this host: run it as root")}
			}
			n, err := trust.ThisHost().Apply(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "authorities of the site that this host trusts: %d\n", n)
			return err
		},
	}
}
