// Package cli is the `holdfast` command: it parses flags, calls the packages
// that know, and prints what they answer. It holds no rule of its own.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// Streams are the three standard streams of the process.
type Streams = command.Streams

// The exit codes that most commands end with; command.Exits lists all.
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
	quietClient()
	return command.Run(ctx, newRoot(streams), streams, helpOfLab(args)) //nolint:contextcheck // cobra hands the context to each command
}

// quietClient keeps client-go from writing its log onto the terminal: what a
// person has to know of an API that fails, each command says itself.
func quietClient() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
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
