package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

// waitForLab waits for the hosts with a live view, and on failure collects
// their logs.
func waitForLab(ctx context.Context, streams Streams, b *lab.Lab, c *lab.Client, timeout time.Duration) error {
	view := newView(streams.Err)
	err := b.Wait(ctx, c, timeout, func(hosts []lab.HostProgress, since time.Duration) {
		lines := make([]viewLine, 0, len(hosts))
		for _, h := range hosts {
			lines = append(lines, viewLine{h.Name, h.Doing()})
		}
		view.show(lines, since)
	})
	view.end()
	if err != nil {
		return errors.Join(err, bundle(ctx, streams, b, c))
	}
	if _, err := b.WriteKubeconfig(ctx, c); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "lab %s is up; try:\n  %s -- get nodes\n  %s\n", b.Layout.Spec.Name,
		labLine(b, "kubectl"), labLine(b, "status"))
	return err
}

// labLine is a command line that a person can copy, with the program as it
// was called.
func labLine(b *lab.Lab, verb string) string {
	line := os.Args[0] + " lab " + verb
	if name := b.Layout.Spec.Name; name != defaultLab {
		line += " --name " + name
	}
	return line
}

// bundle collects logs after a failure. A person who interrupted the wait
// wants none.
func bundle(ctx context.Context, streams Streams, b *lab.Lab, c *lab.Client) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it is the reason of the wait's end already
	}
	dir, reason, err := b.Collect(ctx, c)
	if err != nil {
		return fmt.Errorf("collect the hosts' logs: %w", err)
	}
	_, err = fmt.Fprintf(streams.Err, "likely reason: %s\nlogs of all hosts: %s\n", reason, dir)
	return err
}
