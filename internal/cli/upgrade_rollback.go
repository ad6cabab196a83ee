package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

func newUpgradeRollback(streams Streams) *cobra.Command {
	f := verbFlags{timeout: 2 * time.Hour}
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Take the whole site back to the release of before the upgrade",
		Long: `Wants the release of before the upgrade, and follows it until all hosts run that. Parts in
the cluster go back first, then whoever came last; who is at work goes back at once. A
pause ends. A wish that nothing has begun for is taken back.

It refuses once the way back is closed: then only restoring a backup of etcd leads there.
To go on to the new release after all: 'holdfast upgrade start' with its digest.

Interrupting the command ends the following, not the return.

Exit codes: 0 all hosts run it; 3 it waited for something at the timeout; 4 it was under
way at the timeout; 7 refused, nothing was changed; 8 not confirmed; 6 too little is
known; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast upgrade rollback --dry-run
  holdfast upgrade rollback
  holdfast upgrade rollback --yes --no-wait`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open(cmd.Context(), positive(f.timeout))
			if err != nil {
				return err
			}
			return f.rollback(cmd.Context(), c, streams)
		},
	}
	f.registerVerb(cmd, true, true)
	return cmd
}

func (f verbFlags) rollback(ctx context.Context, c client.Client, streams Streams) error {
	return f.carryOut(ctx, c, streams, "the way back", false, func(u people.Upgrade) (people.Change, string, error) {
		change, err := u.Rollback()
		return change, u.Running, err
	})
}
