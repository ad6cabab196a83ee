package agent

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/payload"
)

func newVersion(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of holdfast-agent",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(streams.Out, "holdfast-agent %s\n", payload.Version)
			return err
		},
	}
}
