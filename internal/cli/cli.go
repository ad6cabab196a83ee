// Package cli implements the `holdfast` command: it parses flags, calls other
// packages and prints their results. It contains no rules of its own.
package cli

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// Streams are the three standard streams of the process.
type Streams = command.Streams

// The exit codes of most commands; command.Exits lists all.
const (
	ExitOK     = command.ExitOK
	ExitFailed = command.ExitFailed
	ExitUsage  = command.ExitUsage
)

// UsageError marks an error in the command line or in an input file: nothing
// was tried and nothing was changed. The exit code is ExitUsage.
type UsageError = command.UsageError

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, streams Streams, args []string) int {
	quietClient()
	return command.Run(ctx, newRoot(streams), streams, helpOfLab(args)) //nolint:contextcheck // cobra hands the context to each command
}

// quietClient keeps client-go's log off the terminal: each command reports
// itself what matters about an API that fails.
func quietClient() {
	klog.SetLogger(logr.Discard()) // with another output alone it would still write errors to stderr
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
