package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// withoutBackupFlag declares the flag by which an administrator goes without a backup.
func withoutBackupFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "without-backup", false, "go on without a good backup")
}

// nodeLister is what backupFirst has of the API.
type nodeLister interface {
	Nodes(ctx context.Context) ([]state.Node, error)
}

// backupFirst has a site take a backup before a step that cannot be taken back.
type backupFirst struct {
	// without is true if the administrator goes without a backup, dryRun if nothing may be changed.
	without, dryRun bool
	// take has a control plane take a backup, and returns once that is good.
	take func(ctx context.Context) error
	out  io.Writer
}

// before returns once the site has a good backup that is young enough, and refuses the step if it
// gets none.
func (b backupFirst) before(ctx context.Context, c nodeLister, now func() time.Time) error {
	return b.unless(ctx, func() (string, error) { return lacksBackup(ctx, c, now()) })
}

// unless does the same. lacks says why the step has to wait for a backup; empty if it need not.
func (b backupFirst) unless(ctx context.Context, lacks func() (string, error)) error {
	if b.without {
		return nil
	}
	why, err := lacks()
	if why == "" || err != nil {
		return err
	}
	if b.dryRun {
		_, err := fmt.Fprintf(b.out, "%s: it would take one first\n", why)
		return err
	}
	_, _ = fmt.Fprintf(b.out, "%s: it takes one first\n", why)
	if err := b.take(ctx); err != nil {
		return coded(command.ExitRefused, "refused, nothing was changed: %s, and none was taken: %w: %s", why, err, backup.BeforeWay)
	}
	if why, err = lacks(); why == "" || err != nil {
		return err
	}
	return coded(command.ExitRefused, "refused, nothing was changed: %s: %s", why, backup.BeforeWay)
}

// lacksBackup returns why a step that cannot be taken back has to wait for a backup; empty if it
// need not.
func lacksBackup(ctx context.Context, c nodeLister, now time.Time) (string, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return "", err
	}
	return backup.BeforeOf(nodes, now), nil
}

// takingBackup returns a function that has the site at a place take a backup, on a host; empty for
// any control plane.
func takingBackup(p place.Flags, streams Streams, host, gone, reason string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		f := backupNowFlags{backupFlags: backupFlags{hostFlags{place: p}}, host: host, gone: gone, reason: reason, timeout: backupTime}
		c, err := f.open(ctx)
		if err != nil {
			return err
		}
		_, err = f.take(ctx, c, streams)
		return err
	}
}
