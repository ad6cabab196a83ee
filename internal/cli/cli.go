// Package cli is the `holdfast` command: it parses flags, calls the packages
// that know, and prints what they answer. It holds no rule of its own.
package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/command"
)

// Streams are the three standard streams of the process.
type Streams = command.Streams

// Exit codes of holdfast, the same for every command.
const (
	ExitOK     = command.ExitOK
	ExitFailed = command.ExitFailed
	ExitUsage  = command.ExitUsage
)

// UsageError marks an error of the command line or of an input file: nothing
// was tried, nothing was changed. It ends with ExitUsage.
type UsageError = command.UsageError

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, streams Streams, args []string) int {
	return command.Run(ctx, newRoot(streams), streams, args) //nolint:contextcheck // cobra hands the context to each command
}

func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Kubernetes on one, two or three machines that survives",
		Long: `holdfast builds, installs and looks after Kubernetes clusters whose control
plane survives on one, two or three ordinary machines.`,
	}
	root.AddCommand(commands(streams)...)
	return root
}
