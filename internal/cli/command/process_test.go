package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// pipes returns both ends of a pipe.
func pipes(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// A command that looks at no error of its writes ends, too. What it has deferred is done.
func TestAProgramWhoseOutputNobodyReadsEndsQuietlyAndInOrder(t *testing.T) {
	for _, sentence := range []string{"it returns the error of the write", "it waits for the end of its context"} {
		reads, out := pipes(t)
		says, errs := pipes(t)
		if err := reads.Close(); err != nil {
			t.Fatal(err)
		}
		tidy := false
		run := func(ctx context.Context, streams Streams, args []string) int {
			root := &cobra.Command{Use: "tool"}
			root.AddCommand(&cobra.Command{Use: "show", RunE: func(cmd *cobra.Command, _ []string) error {
				defer func() { tidy = true }()
				_, err := io.WriteString(streams.Out, "a line\n")
				if sentence == "it returns the error of the write" {
					return fmt.Errorf("print: %w", err)
				}
				<-cmd.Context().Done()
				return errors.New("interrupted: to go on: tool show")
			}})
			return Run(ctx, root, streams, args)
		}
		code := process(run, os.Stdin, out, errs, []string{"show"})
		if err := errs.Close(); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(says)
		if code != 141 || !tidy || len(said) > 0 || err != nil {
			t.Errorf("%s: exit code %d, tidy %t, said %q, %v", sentence, code, tidy, said, err)
		}
	}
}

func TestATerminalThatIsClosedEndsAProgramInOrderUnlessNohupIgnoresIt(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		_, out := pipes(t)
		if ignored {
			signal.Ignore(syscall.SIGHUP)
			t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
		} else { // whoever runs the tests may ignore it
			taken := make(chan os.Signal, 1)
			signal.Notify(taken, syscall.SIGHUP)
			t.Cleanup(func() { signal.Stop(taken) })
		}
		code := process(func(ctx context.Context, _ Streams, _ []string) int {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Error(err)
			}
			if !ignored {
				<-ctx.Done()
			}
			if ctx.Err() != nil {
				return ExitFailed
			}
			return ExitOK
		}, os.Stdin, out, out, nil)
		if want := map[bool]int{false: ExitFailed, true: ExitOK}[ignored]; code != want {
			t.Errorf("ignored %t: exit code %d, want %d", ignored, code, want)
		}
	}
}
