package labcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

// waitForLab waits for the hosts with a live view. If it fails, it collects
// their logs.
func waitForLab(ctx context.Context, streams command.Streams, b *lab.Lab, c *lab.Client, timeout time.Duration) error {
	view := command.NewView(streams.Err)
	err := b.Wait(ctx, c, timeout, func(hosts []lab.HostProgress, since time.Duration) {
		lines := make([]command.ViewLine, 0, len(hosts))
		for _, h := range hosts {
			lines = append(lines, command.ViewLine{Host: h.Name, Doing: h.Doing()})
		}
		view.Show(lines, since)
	})
	view.End()
	if err != nil {
		return errors.Join(err, bundle(ctx, streams, b, c))
	}
	if _, err := b.WriteKubeconfig(ctx, c); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "lab %s is up; try:\n  %s -- get nodes\n  %s\n", b.Layout.Spec.Name,
		labLine(os.Args[0], b, "kubectl"), labLine(os.Args[0], b, "status"))
	return err
}

// labLine returns a command line for the user to copy, with the program as it
// was called: holdfast lies beside holdfast-lab, and hands over to it.
func labLine(called string, b *lab.Lab, verb string) string {
	line := strings.TrimSuffix(called, "-lab") + " lab " + verb
	if name := b.Layout.Spec.Name; name != defaultLab {
		line += " --name " + name
	}
	return line
}

// bundle collects logs after a failure. A user who interrupted the wait wants
// none.
func bundle(ctx context.Context, streams command.Streams, b *lab.Lab, c *lab.Client) error {
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
