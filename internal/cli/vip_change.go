package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/decide/vips"
)

// changeFlags holds the flags of a change.
type changeFlags struct {
	vipFlags
	dryRun, noWait bool
}

func (f *changeFlags) register(cmd *cobra.Command) {
	f.vipFlags.register(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show every check and change nothing")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "return as soon as the change is requested")
}

func newVIPAdd(streams Streams) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "add API-VIP INGRESS-VIP",
		Short: "Add a second pair of virtual IPs to the running cluster",
		Long: `Adds a second pair of virtual IPs, of the other address family than the first.

Every rule is checked first, by this command and again by holdfast-operator. For
example: the addresses lie in a machine network and belong to no node and no gateway;
every host that may have to hold one has an address of that family; and no machine
on the network answers for them, which the control planes test. If a rule is broken,
nothing changes, and all broken rules are shown at once.

Then it waits until every host that is ready has the pair, each address has a holder,
and the API answers at its new address with a certificate for it. A host that is off
catches up when it comes back. The command may be interrupted and repeated.

--dry-run shows every check. It changes nothing except that it asks the hosts through
annotations of their nodes, for some seconds.

Exit codes: 0 the cluster has the pair, or could get it; 4 not complete in time, it
continues by itself; 6 something is unknown, nothing was changed; 7 refused; 1 it
failed; 2 wrong usage.`,
		Example: `  holdfast vip add fd98::5 fd98::6 --dry-run
  holdfast vip add fd98::5 fd98::6
  holdfast vip add fd98::5 fd98::6 -o json --timeout 30s`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := vipPair(args); err != nil {
				return err
			}
			return f.change(cmd.Context(), streams, func(s vips.Snapshot) (vips.Values, error) { return s.WithPair(args[0], args[1]) })
		},
	}
	f.register(cmd)
	return cmd
}

func newVIPRemove(streams Streams) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Remove the second pair of virtual IPs from the running cluster",
		Long: `Removes the second pair of virtual IPs. Connections through it end; the first pair
is not touched. Without a second pair nothing happens.

Exit codes: 0 there is no second pair; 4 not complete in time, it continues by
itself; 6 something is unknown, nothing was changed; 7 refused; 1 it failed; 2 wrong
usage.`,
		Example: `  holdfast vip remove --dry-run
  holdfast vip remove`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.change(cmd.Context(), streams, vips.Snapshot.WithoutPair)
		},
	}
	f.register(cmd)
	return cmd
}

// change applies a target state, which wish makes from the current state.
func (f *changeFlags) change(ctx context.Context, streams Streams, wish func(vips.Snapshot) (vips.Values, error)) error {
	c, err := f.open(ctx, streams)
	if err != nil {
		return err
	}
	return f.changeOn(ctx, c, streams, wish)
}

func (f *changeFlags) changeOn(ctx context.Context, c *vipCluster, streams Streams, wish func(vips.Snapshot) (vips.Values, error)) error {
	s, _, err := c.gather(ctx)
	if err != nil {
		return err
	}
	spec, err := wish(s)
	if err != nil && !errors.Is(err, vips.ErrNothingToDo) {
		return err
	}
	d, err := c.judge(ctx, spec, vips.Decide)
	if err != nil {
		return err
	}
	out := vipOutcome{Outcome: d.Outcome, API: spec.API, Ingress: spec.Ingress, Checks: d.Checks(), Pending: d.Pending}
	err = out.err()
	if err == nil && !f.dryRun {
		err = f.carryOut(ctx, c, s, spec, &out)
	}
	return errors.Join(f.print(streams.Out, out), err)
}

// carryOut writes the target state if it differs, and waits until it is
// applied.
func (f *changeFlags) carryOut(ctx context.Context, c *vipCluster, s vips.Snapshot, spec vips.Values, out *vipOutcome) error {
	began := c.now()
	if !s.Spec.Equal(spec) {
		if err := c.write(ctx, spec); err != nil {
			return err
		}
		out.Changed = true
	}
	if f.noWait {
		return nil
	}
	report, err := c.follow(ctx, spec)
	if err != nil {
		return err
	}
	out.Conditions, out.Rollout = report.Conditions, &report.Extension.Rollout
	out.Seconds = c.now().Sub(began).Seconds()
	return nil
}
