package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

// checkFlags holds the flags of vip check.
type checkFlags struct {
	vipFlags
	api, ingress string
}

func newVIPCheck(streams Streams) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Show the virtual IPs, every rule for them, and the progress of each host",
		Long: `Shows the requested and the actual virtual IPs of the cluster, whether its spec keeps
every rule, who holds which address, and which host is behind. With --api and
--ingress it checks these as second pair instead, as vip add --dry-run does.

Exit codes: 0 everything is in order, or the pair could be added; 3 a rule is broken,
a host is behind or a virtual IP does not answer; 6 too little is known; 7 the
addresses would be refused; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast vip check
  holdfast vip check -o json
  holdfast vip check --api fd98::5 --ingress fd98::6`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.api != "" || f.ingress != "" {
				if err := vipPair([]string{f.api, f.ingress}); err != nil {
					return err
				}
			}
			c, err := f.open(cmd.Context(), streams)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, streams)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.api, "api", "", "check this API VIP as part of a second pair; needs --ingress")
	cmd.Flags().StringVar(&f.ingress, "ingress", "", "check this ingress VIP as part of a second pair; needs --api")
	return cmd
}

func (f *checkFlags) run(ctx context.Context, c *vipCluster, streams Streams) error {
	s, report, err := c.gather(ctx)
	if err != nil {
		return err
	}
	spec := s.Spec
	if f.api != "" {
		if spec, err = s.WithPair(f.api, f.ingress); err != nil && !errors.Is(err, vips.ErrNothingToDo) {
			return err
		}
	}
	d, err := c.judge(ctx, spec, vips.Examine)
	if err != nil {
		return err
	}
	out := vipOutcome{Outcome: d.Outcome, API: spec.API, Ingress: spec.Ingress, Pending: d.Pending, Checks: d.Checks(), Conditions: report.Conditions}
	err = out.err()
	if f.api == "" {
		out.Rollout = &report.Extension.Rollout
		err = errors.Join(err, out.broken(), vipsBehind(out))
	}
	return errors.Join(f.print(streams.Out, out), err)
}

// vipsBehind returns an error if the cluster does not have its VIPs yet.
func vipsBehind(o vipOutcome) error {
	if o.Outcome == vips.Unmanaged {
		return nil
	}
	if len(o.Conditions) == 0 {
		return coded(command.ExitUnknown, "holdfast-operator has not reported on virtual IPs; check that it runs: kubectl -n openshift-etcd get pods")
	}
	if !o.Rollout.Applied || !o.Rollout.Everywhere {
		return coded(command.ExitAttention, "%s", o.Rollout.Words())
	}
	return nil
}

func (f *vipFlags) print(w io.Writer, o vipOutcome) error {
	if f.output == "json" {
		return command.PrintJSON(w, o)
	}
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "API VIPs      %s\ningress VIPs  %s\noutcome       %s\n", orDash(strings.Join(o.API, ", ")),
		orDash(strings.Join(o.Ingress, ", ")), o.words())
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	printChecks(t, o.Checks)
	printRollout(t, o)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (o vipOutcome) words() string {
	words := string(o.Outcome)
	if o.Changed {
		words += ", written into the spec"
	}
	if o.Seconds > 0 {
		words += fmt.Sprintf(", complete after %.1f s", o.Seconds)
	}
	return words
}

func printChecks(w io.Writer, checks []vips.Check) {
	if len(checks) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "\nCHECK\tRULE")
	for _, c := range checks {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", c.Verdict, c.Sentence)
		for _, detail := range c.Details {
			_, _ = fmt.Fprintf(w, "\t  %s\n", detail)
		}
	}
}

func printRollout(w io.Writer, o vipOutcome) {
	if o.Rollout == nil || len(o.Rollout.Hosts) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "\nHOST\tREADY\tHAS THEM\tHOLDS\tWAITING FOR")
	for _, h := range o.Rollout.Hosts {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.Name, yesNo(h.Ready), yesNo(h.Applied), addressList(h.Holds), orDash(h.Waiting))
	}
	_, _ = fmt.Fprintln(w, "\nVIP\tFOR\tHOLDER\tANSWERS\tWAITING FOR")
	for _, v := range o.Rollout.VIPs {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.Address, v.Role, orDash(v.Holder), yesNo(v.Answers), orDash(v.Waiting))
	}
	_, _ = fmt.Fprintln(w, "\nCONDITION\tSTATUS\tREASON\tMESSAGE")
	for _, c := range o.Conditions {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, orDash(c.Message))
	}
}

func addressList[T interface{ String() string }](list []T) string {
	var words []string
	for _, a := range list {
		words = append(words, a.String())
	}
	return orDash(strings.Join(words, ","))
}
