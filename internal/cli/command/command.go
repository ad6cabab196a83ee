// Package command contains what all commands of Holdfast share: the streams,
// the exit codes, and the mapping from errors to exit codes.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// Streams are the three standard streams of the process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// UsageError marks an error in the command line or in an input file: nothing
// was tried and nothing was changed. The exit code is ExitUsage.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Run executes one command line below root and returns the process's exit code.
// It writes an error to the error stream after the command's name. Every
// mistake in the command line itself ends with ExitUsage.
func Run(ctx context.Context, root *cobra.Command, streams Streams, args []string) int {
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.SetFlagErrorFunc(flagError)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	strict(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	// The exit code alone may say everything, and who has closed the output wants no more of it.
	if text := err.Error(); text != "" && !errors.Is(context.Cause(ctx), errUnread) {
		_, _ = fmt.Fprintf(streams.Err, "%s: %s\n", root.Name(), page.Printable(text)) // hosts wrote parts of it
	}
	return ExitCode(err)
}

// strict turns wrong arguments into usage errors in the whole tree. It also
// turns an unknown verb of a group into an error: cobra would print the group's
// help and succeed.
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
				return usageError(cmd, wrongArguments(cmd, args, err))
			}
			return missingFlags(cmd)
		}
	}
	for _, child := range cmd.Commands() {
		strict(child)
	}
}

// wrongArguments names the arguments as the command's usage line does. Cobra gives
// only their number, and calls the argument of a command that takes none an unknown
// command.
func wrongArguments(cmd *cobra.Command, args []string, err error) error {
	_, wanted, _ := strings.Cut(cmd.Use, " ")
	switch {
	case cmd.HasSubCommands() || cobra.OnlyValidArgs(cmd, args) != nil:
		return err // it names the wrong word
	case wanted != "":
		return fmt.Errorf("takes the arguments %s, got %d", wanted, len(args))
	case len(args) > 0:
		return fmt.Errorf("takes no arguments, got %q", args[0])
	}
	return err
}

// flagError turns a wrong flag into a usage error. An unknown verb comes first: its
// flags are unknown too, but only because the verb is.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		if unknown := cmd.ValidateArgs(args); unknown != nil {
			return unknown
		}
	}
	return usageError(cmd, wrongValue(err))
}

// wrongValue says which values a flag takes, where the words of Go's own parser are
// about Go.
func wrongValue(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	switch bad.GetFlag().Value.Type() {
	case "duration":
		return fmt.Errorf("--%s %q: must be a time with its unit, for example 30s or 5m", bad.GetFlag().Name, bad.GetValue())
	case "uint16":
		return fmt.Errorf("--%s %q: must be a number from 0 to 65535", bad.GetFlag().Name, bad.GetValue())
	}
	return err
}

// missingFlags checks the required flags early, because cobra checks them late
// and without marking the error.
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

// Coder is an error that brings its own exit code, for example that of another
// program.
type Coder interface {
	error
	ExitCode() int
}

// ExitCode returns the exit code for an error.
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
