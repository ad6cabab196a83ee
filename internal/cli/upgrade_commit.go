package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

func newUpgradeCommit(streams Streams) *cobra.Command {
	f := verbFlags{timeout: time.Hour}
	cmd := &cobra.Command{
		Use:   "commit",
		Short: "Close the way back now, and complete the upgrade",
		Long: `Ends the soak. It closes the way back to the old release: the functional level and our
formats rise, host by host, and then only restoring a backup of etcd leads back. Where no
good one of the last 24 hours is there, a control plane takes one first. It is for an upgrade
of which all hosts and parts run the new release, and follows it to its end.

Interrupting the command ends the following, not the commit.

Exit codes: 0 the upgrade is complete; 3 it waited for something at the timeout; 4 it was
under way at the timeout; 7 refused, nothing was changed; 8 not confirmed; 6 too little is
known; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast upgrade commit --dry-run
  holdfast upgrade commit`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open(cmd.Context(), positive(f.timeout))
			if err != nil {
				return err
			}
			return f.commit(cmd.Context(), c, streams)
		},
	}
	f.registerVerb(cmd, true, true)
	return cmd
}

func (f verbFlags) commit(ctx context.Context, c client.Client, streams Streams) error {
	return f.carryOut(ctx, c, streams, "the commit", true, func(u people.Upgrade) (people.Change, string, error) {
		change, err := u.Commit()
		return change, u.Record.To, err
	})
}
