package labcli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

func newDaemon(streams command.Streams, name *string) *cobra.Command {
	return &cobra.Command{
		Use:    "daemon",
		Short:  "Run the daemon of a lab (the other commands do it for you)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := lab.Open(labRoot(), *name)
			if err != nil {
				return err
			}
			return lab.RunDaemon(cmd.Context(), b, slog.New(slog.NewTextHandler(streams.Err, nil)))
		},
	}
}
