package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

// startFlags holds the flags of `upgrade start`.
type startFlags struct {
	verbFlags
	sourceFlags
	soak, by string
	skip     []string
}

func newUpgradeStart(streams Streams) *cobra.Command {
	f := startFlags{verbFlags: verbFlags{timeout: 2 * time.Hour}}
	cmd := &cobra.Command{
		Use:   "start DIGEST",
		Short: "Take the site to a release, one host after the other",
		Long: `Wants that the site runs a release, and follows it until all hosts do. A release is named
by its digest: sha256:HEX, or REPOSITORY@sha256:HEX. Before it asks, it shows which host
follows which. holdfast-operator has every host fetch the release, asks the gates
('holdfast upgrade check'), has a control plane take a backup where no good one of the last
24 hours is there, and gives one host after the other its turn. A host that is not well in
time goes back by itself, and the upgrade waits for a person.

The way back stays open until the site was seen healthy for the soak, or a person types
'holdfast upgrade commit'. Until then: 'holdfast upgrade rollback'.

Interrupting the command ends the following, not the upgrade. Run again with the same
digest it follows again, and adds gates that are skipped.

Exit codes: 0 all hosts run it; 3 it waited for something at the timeout; 4 it was under
way at the timeout; 7 refused, nothing was changed; 8 not confirmed; 6 too little is
known; 1 it failed, or goes back; 2 wrong usage.`,
		Example: `  holdfast upgrade start sha256:0a1b... --dry-run
  holdfast upgrade start registry.example.com/holdfast/release@sha256:0a1b... --from-registry registry.example.com/holdfast/release
  holdfast upgrade start sha256:0a1b... --from-folder /media/stick/release --soak off
  holdfast upgrade start sha256:0a1b... --skip 'backup=the nightly one is whole' --yes --no-wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start, mistakes := f.start(args[0], time.Now())
			c, err := f.open(cmd.Context(), mistakes)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, streams, start)
		},
	}
	f.registerVerb(cmd, true, true)
	f.completeDigests(cmd)
	f.registerSources(cmd)
	cmd.Flags().StringVar(&f.soak, "soak", "", `for how long the site is to be seen healthy before the way back is closed, or "off" (default: as ClusterVersion says, else 24h)`)
	cmd.Flags().StringArrayVar(&f.skip, "skip", nil, "skip a gate, as GATE=REASON; the history keeps the reason")
	cmd.Flags().StringVar(&f.by, "by", "", "who skips a gate (default: the user who ran sudo, or is logged in)")
	_ = cmd.RegisterFlagCompletionFunc("skip", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		for _, g := range people.SkippableGates() {
			out = append(out, g+"=")
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	_ = cmd.RegisterFlagCompletionFunc("soak", cobra.FixedCompletions([]string{"24h", "off"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// start reads the command line. The error has every mistake of it.
func (f startFlags) start(image string, now time.Time) (people.Start, error) {
	s := people.Start{Soak: f.soak, Sources: f.sources()}
	var errs []error
	var err error
	s.Image, err = people.ParseImage(image)
	errs = append(errs, err, positive(f.timeout))
	if f.soak != "" {
		if _, _, err := annotation.ParseSoak(f.soak); err != nil {
			errs = append(errs, fmt.Errorf("--%w", err))
		}
	}
	errs = append(errs, f.mistakes())
	by := f.by
	if by == "" {
		by = login()
	}
	for _, text := range f.skip {
		o, err := people.ParseSkip(text, by, now)
		errs = append(errs, err)
		s.Overrides = append(s.Overrides, o)
	}
	return s, errors.Join(errs...)
}

func (f startFlags) run(ctx context.Context, c client.Client, streams Streams, start people.Start) error {
	return f.carryOut(ctx, c, streams, "the upgrade", false, func(u people.Upgrade) (people.Change, string, error) {
		change, err := u.Start(start)
		return change, people.Digest(start.Image), err
	})
}
