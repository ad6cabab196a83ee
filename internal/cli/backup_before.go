package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// withoutBackupFlag declares the flag by which an administrator goes without a backup. host replace
// and topology apply have the same one.
func withoutBackupFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "without-backup", false, "go on without a good backup")
}

// nodeLister is what backupBefore has of the API.
type nodeLister interface {
	Nodes(ctx context.Context) ([]state.Node, error)
}

// backupBefore refuses a step that cannot be taken back unless the site has a good backup that is
// young enough.
func backupBefore(ctx context.Context, c nodeLister, now time.Time, without bool) error {
	if without {
		return nil
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	if why := backup.Before(backup.NewestOf(nodes, now), now); why != "" {
		return coded(command.ExitRefused, "refused, nothing was changed: %s: %s", why, backup.BeforeWay)
	}
	return nil
}
