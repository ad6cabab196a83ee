// Package cli is the `holdfast` command: it parses flags, calls the packages
// that know, and prints what they answer. It holds no rule of its own.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Streams are the three standard streams of the process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Exit codes of holdfast, the same for every command.
const (
	ExitOK     = 0
	ExitFailed = 1 // the work was tried and failed
	ExitUsage  = 2 // the command line or an input file is wrong; nothing was tried
)

// UsageError marks an error of the command line or of an input file: nothing
// was tried, nothing was changed. It ends with ExitUsage.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, streams Streams, args []string) int {
	root := newRoot(streams)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	_, _ = fmt.Fprintf(streams.Err, "holdfast: %v\n", err)
	if _, usage := errors.AsType[*UsageError](err); usage {
		return ExitUsage
	}
	return ExitFailed
}

func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Kubernetes on one, two or three machines that survives",
		Long: `holdfast builds, installs and looks after Kubernetes clusters whose control
plane survives on one, two or three ordinary machines.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &UsageError{Err: fmt.Errorf("%w\nsee '%s --help'", err, cmd.CommandPath())}
	})
	root.AddCommand(commands(streams)...)
	return root
}
