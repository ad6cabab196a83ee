package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
)

// Agreed asks an administrator, and is an error unless the answer is the one that is wanted.
func Agreed(ctx context.Context, streams Streams, question, want string) error {
	answer, err := Ask(ctx, streams, question)
	if err == nil && answer != want {
		err = notConfirmed("not confirmed: nothing was changed")
	}
	return err
}

// Ask reads one line from an administrator. End of input counts as no answer, and an interrupt ends
// the wait.
func Ask(ctx context.Context, streams Streams, question string) (string, error) {
	_, _ = io.WriteString(streams.Err, question)
	lines := make(chan string, 1)
	go func() {
		defer close(lines)
		if line, err := bufio.NewReader(streams.In).ReadString('\n'); err == nil || line != "" {
			lines <- strings.TrimSpace(line)
		}
	}()
	select {
	case <-ctx.Done():
		return "", Interrupted()
	case line, ok := <-lines:
		if !ok {
			return "", notConfirmed("no answer on standard input, nothing was changed: pass the answer as a flag, which --help names")
		}
		return line, nil
	}
}

// Interrupted is the end of a question that was interrupted before anything was changed.
func Interrupted() error { return notConfirmed("interrupted: nothing was changed") }

func notConfirmed(text string) error { return &Coded{Code: ExitNotConfirmed, Err: errors.New(text)} }
