package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

func newUpgradePause(streams Streams) *cobra.Command {
	var f verbFlags
	cmd := &cobra.Command{
		Use:   "pause REASON",
		Short: "Let no further host begin, and nothing be committed",
		Long: `Pauses an upgrade, or a return. A host that is at work ends its step; no further one
begins, and the way back stays open. The reason is shown to everybody who looks. A pause
ends by 'holdfast upgrade resume' or 'holdfast upgrade rollback'.

Exit codes: 0 it is paused; 7 refused, nothing was changed; 6 too little is known; 1 it
failed; 2 wrong usage.`,
		Example: `  holdfast upgrade pause 'the shop is open'
  holdfast upgrade pause 'cp-2 is slow, looking' --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			reason := strings.Join(strings.Fields(args[0]), " ")
			var mistake error
			if reason == "" {
				mistake = errors.New("REASON: must not be empty; everybody who looks reads it")
			}
			c, err := f.open(cmd.Context(), mistake)
			if err != nil {
				return err
			}
			return f.writes(cmd.Context(), c, streams, func(u people.Upgrade) (people.Change, error) { return u.Pause(reason) })
		},
	}
	f.registerVerb(cmd, false, false)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// writes carries out a verb that asks nothing and follows nothing, and says what it did.
func (f verbFlags) writes(ctx context.Context, c client.Client, streams Streams, decide func(people.Upgrade) (people.Change, error)) error {
	f.yes = true
	v := f.verb(c, streams, decide)
	change, err := v.run(ctx)
	if err != nil || f.dryRun || change.Empty() {
		return err
	}
	if err := v.print(streams.Out, change); err != nil {
		return err
	}
	_, err = fmt.Fprintln(streams.Err, "written; to see it: holdfast upgrade status")
	return err
}
