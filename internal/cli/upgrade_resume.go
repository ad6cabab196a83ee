package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

func newUpgradeResume(streams Streams) *cobra.Command {
	var f verbFlags
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End the pause of an upgrade",
		Long: `Ends what 'holdfast upgrade pause' began. What a gate or a host holds goes on by itself
once the cause is gone, and needs no resume.

Exit codes: 0 nobody pauses it any more; 7 refused, nothing was changed; 6 too little is
known; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast upgrade resume`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			return f.writes(cmd.Context(), c, streams, people.Upgrade.Resume)
		},
	}
	f.registerVerb(cmd, false, false)
	return cmd
}
