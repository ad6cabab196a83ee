// Package command is what every binary of Holdfast shares about being a
// command: its streams, its exit codes, and how an error becomes one of them.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Streams are the three standard streams of the process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// UsageError marks an error of the command line or of an input file: nothing
// was tried, nothing was changed. It ends with ExitUsage.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Run executes one command line below root and returns the process's exit
// code. An error is written to the error stream after the command's name.
// Whatever is wrong with the command line itself ends with ExitUsage.
func Run(ctx context.Context, root *cobra.Command, streams Streams, args []string) int {
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.SetFlagErrorFunc(usageError)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	strict(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if text := err.Error(); text != "" { // an exit code alone may be all there is to say
		_, _ = fmt.Fprintf(streams.Err, "%s: %s\n", root.Name(), text)
	}
	return ExitCode(err)
}

// strict makes wrong arguments a usage error in the whole tree, and an
// unknown verb of a group an error at all: cobra would print the group's help
// and succeed.
func strict(cmd *cobra.Command) {
	switch {
	case cmd.HasSubCommands() && !cmd.Runnable():
		cmd.SuggestionsMinimumDistance = 2
		cmd.Args = knownVerb
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	case cmd.Args != nil:
		check := cmd.Args
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError(cmd, err)
			}
			return missingFlags(cmd)
		}
	}
	for _, child := range cmd.Commands() {
		strict(child)
	}
}

// missingFlags checks early what cobra checks late, to mark it.
func missingFlags(cmd *cobra.Command) error {
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return usageError(cmd, err)
	}
	return nil
}

func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	words := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		words += fmt.Sprintf(", did you mean %s?", strings.Join(near, " or "))
	}
	return usageError(cmd, errors.New(words))
}

func usageError(cmd *cobra.Command, err error) error {
	return &UsageError{Err: fmt.Errorf("%w\nsee '%s --help'", err, cmd.CommandPath())}
}

// Coder is an error that brings its own exit code, as that of a program which
// was run for a person elsewhere.
type Coder interface {
	error
	ExitCode() int
}

// ExitCode returns the exit code that an error ends with.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if own, ok := errors.AsType[Coder](err); ok {
		return own.ExitCode()
	}
	if _, usage := errors.AsType[*UsageError](err); usage {
		return ExitUsage
	}
	return ExitFailed
}
