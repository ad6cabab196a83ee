// Package agent is the `holdfast-agent` command, which runs on every host. Its
// verbs only compose other packages; it holds no rule of its own.
package agent

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, streams command.Streams, args []string) int {
	return command.Run(ctx, newRoot(streams), streams, args) //nolint:contextcheck // a command gets its context when it runs
}

func newRoot(streams command.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast-agent",
		Short: "Bring this host to its configured state and keep it there",
		Long: `holdfast-agent runs on every host of a cluster. On a package-based
host it applies the Ignition configuration, as an Ignition-based operating system
does by itself. It keeps the host's part of the cluster in step.`,
	}
	root.AddCommand(commands(streams)...)
	return root
}
