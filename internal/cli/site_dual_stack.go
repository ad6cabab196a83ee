package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/model/config"
)

func newDualStack(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dual-stack",
		Short: "Give a living site of one address family the second one",
		Long: `A site that was installed with one address family gets the second one while it serves.
In a copy of the site's install-config.yaml add one network of the other family at the end of
networking.machineNetwork, clusterNetwork and serviceNetwork, and change nothing else. Give every
host an address in the new machine network, and a default route of that family at the interface
of the other one.

The first family stays the primary one. Neither of them is taken away again.`,
	}
	cmd.AddCommand(newDualStackPlan(streams), newDualStackApply(streams), newDualStackStatus(streams))
	return cmd
}

func newDualStackPlan(streams Streams) *cobra.Command {
	var f readdressFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show each step and what it means, and change nothing",
		Long: `Compares an edited install-config.yaml with this site, and shows what happens and in which
order. It changes nothing.

Exit codes: 0 the site can get the second family; 7 not now, and why; 1 it failed; 2 the file is
refused, and each reason is named with its field.`,
		Example: `  holdfast site dual-stack plan --install-config shop.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := f.dualStack(cmd.Context(), streams)
			if err != nil {
				return err
			}
			if err := d.show(); err != nil {
				return err
			}
			return d.free(cmd.Context())
		},
	}
	f.dualStackFile(cmd)
	_ = cmd.MarkFlagRequired("install-config")
	return cmd
}

func newDualStackApply(streams Streams) *cobra.Command {
	f := readdressFlags{timeout: time.Hour}
	abort := false
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Give the site the second family, and follow it",
		Long: `Shows each step, asks, and gives the plan to every host. The hosts carry it out by
themselves: this command only follows, and Ctrl-C ends nothing but the following. Typed again
with the same file, it follows on.

It begins when every host has the plan and can have both families. Until then --abort takes it
back; afterwards the plan only goes forward, because Services may have addresses of the second
family. The site takes a backup first, if its newest good one is older than four hours.

Exit codes: 0 the site has both families, or with --abort no host has the plan any more; 3 not at
the timeout: it goes on; 7 refused, because of other work, because there is no good backup or
because it has begun, or somebody took the plan back; 8 not confirmed; 1 it failed; 2 wrong usage, or the file is refused.`,
		Example: `  holdfast site dual-stack apply --install-config shop.yaml
  holdfast site dual-stack apply --abort`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case abort && f.file != "":
				return &UsageError{Err: fmt.Errorf("--abort takes no --install-config")}
			case !abort && f.file == "":
				return &UsageError{Err: fmt.Errorf("--install-config is missing: name the edited file, or --abort")}
			case abort:
				return f.abortDualStack(cmd.Context(), streams)
			}
			return f.applyDualStack(cmd.Context(), streams)
		},
	}
	f.dualStackFile(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&abort, "abort", false, "take the plan back, while it has not begun")
	flags.StringVar(&f.by, "by", "", "who does it")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	withoutBackupFlag(cmd, &f.noBackup)
	timeoutFlag(cmd, &f.timeout)
	return cmd
}

func newDualStackStatus(streams Streams) *cobra.Command {
	var f readdressFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far each host is, what it waits for, and what to type",
		Long: `Shows the plan and what each host says of it.

Exit codes: 0 there is no plan; 4 it goes on, or waits; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast site dual-stack status
  holdfast site dual-stack status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.place.Check(nil); err != nil {
				return err
			}
			a, err := f.cluster(cmd.Context())
			if err != nil {
				return err
			}
			r, err := a.secondFamily(cmd.Context())
			if err != nil {
				return err
			}
			return r.print(streams.Out, f.output)
		},
	}
	f.place.DeclareKubeconfig(cmd)
	command.OutputFlag(cmd, &f.output)
	return cmd
}

func (f *readdressFlags) dualStackFile(cmd *cobra.Command) {
	f.place.DeclareKubeconfig(cmd)
	cmd.Flags().StringVar(&f.file, "install-config", "", "the edited install-config.yaml")
}

// secondFamily is a plan in the making.
type secondFamily struct {
	streams Streams
	access  *moveAccess
	plan    decide.Plan
	backup  backupFirst
}

// dualStack reads the file and compares it with the site.
func (f readdressFlags) dualStack(ctx context.Context, streams Streams) (*secondFamily, error) {
	if err := f.place.Check(nil); err != nil {
		return nil, err
	}
	file, err := f.edited(streams)
	if err != nil {
		return nil, err
	}
	a, err := f.cluster(ctx)
	if err != nil {
		return nil, err
	}
	have, err := a.config(ctx)
	if err != nil {
		return nil, err
	}
	if err := sameCluster(have, file); err != nil {
		return nil, err
	}
	list, err := a.nodes(ctx)
	if err != nil {
		return nil, err
	}
	d := &secondFamily{streams: streams, access: a, backup: f.backupFirst(streams, "before site dual-stack")}
	if d.plan, err = decide.New(have, file, membersOf(list)); err != nil {
		return nil, &UsageError{Err: fmt.Errorf("%s: %w", f.file, err)}
	}
	d.plan.ID, d.plan.By, d.plan.At = strings.ToLower(rand.Text()[:12]), cmp.Or(f.by, login()), time.Now().UTC().Truncate(time.Second)
	return d, nil
}

func membersOf(list []corev1.Node) map[string]decide.Member {
	out := map[string]decide.Member{}
	for _, n := range list {
		m := decide.Member{ControlPlane: kube.NodeOf(&n).ControlPlane()}
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				m.Shares = append(m.Shares, p)
			}
		}
		out[n.Name] = m
	}
	return out
}

// show prints what happens, in its order.
func (d *secondFamily) show() error {
	p := d.plan
	var out strings.Builder
	_, _ = fmt.Fprintf(&out, "hosts get addresses of %s, pods of %s, Services of %s; the first family stays the primary one\n\n", p.Machines, p.Pods.CIDR, p.Services)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "STEP\tWHAT HAPPENS\tWHAT IT MEANS")
	rows := [][2]string{{"every host keeps the plan, and says what it lacks", "nothing changes; apply --abort takes it back"}}
	for _, name := range p.Order() {
		if p.Hosts[name].ControlPlane {
			rows = append(rows, [2]string{"the API server and the controller manager of " + name + " start anew", "from the first of them on the plan only goes forward"})
		}
	}
	rows = append(rows, [2]string{"each Node is made anew as it was, with a second share of the pod network", "pods run on; Services can have addresses of both families"})
	for _, name := range p.Order() {
		rows = append(rows, [2]string{fmt.Sprintf("%s (%s) is drained and boots once", name, p.Hosts[name].Share), "its pods have addresses of both families afterwards"})
	}
	rows = append(rows, [2]string{"the objects of the cluster get both families", "a second pair of virtual IPs may be added: holdfast vip add"})
	for i, r := range rows {
		_, _ = fmt.Fprintf(w, "%d\t%s\t%s\n", i+1, r[0], r[1])
	}
	_ = w.Flush()
	_, err := fmt.Fprint(d.streams.Out, out.String())
	return err
}

// free refuses a plan while something else changes hosts or the site.
func (d *secondFamily) free(ctx context.Context) error {
	if err := d.access.free(ctx); err != nil {
		return err
	}
	infra, err := d.access.infrastructure(ctx)
	if err != nil {
		return err
	}
	if infra.Annotations[kube.ReaddressAnnotation] != "" {
		return coded(command.ExitRefused, "refused, nothing was changed: a move of the site is announced; to follow it: holdfast site readdress show")
	}
	return nil
}

func (f readdressFlags) applyDualStack(ctx context.Context, streams Streams) error {
	if err := f.place.Check(nil); err != nil {
		return err
	}
	a, err := f.cluster(ctx)
	if err != nil {
		return err
	}
	r, err := a.secondFamily(ctx)
	if err != nil {
		return err
	}
	if r.Plan != nil { // typed again
		if err := f.sameFamily(ctx, streams, a, *r.Plan); err != nil {
			return err
		}
		return f.followDualStack(ctx, streams, a, *r.Plan)
	}
	d, err := f.dualStack(ctx, streams)
	if err != nil {
		return err
	}
	if err := d.show(); err != nil {
		return err
	}
	if err := d.free(ctx); err != nil {
		return err
	}
	if !f.yes {
		if err := command.Agreed(ctx, streams, "Every host boots once, and the second family stays for the life of the site. Continue? Type yes: ", "yes"); err != nil {
			return err
		}
	}
	if err := d.announce(ctx); err != nil {
		return err
	}
	return f.followDualStack(ctx, streams, a, d.plan)
}

// sameFamily refuses a file that names other networks than the plan that is announced.
func (f readdressFlags) sameFamily(ctx context.Context, streams Streams, a *moveAccess, p decide.Plan) error {
	file, err := f.edited(streams)
	if err != nil {
		return err
	}
	have, err := a.config(ctx)
	if err != nil {
		return err
	}
	if err := sameCluster(have, file); err != nil {
		return err
	}
	if !p.In(file) {
		return coded(command.ExitRefused, "refused: the plan %s of %s is announced, and brings other networks than %s: hosts get addresses of %s, pods of %s, Services of %s; to follow it: holdfast site dual-stack status", p.ID, p.By, f.file, p.Machines, p.Pods.CIDR, p.Services)
	}
	return nil
}

// announce gives the plan to every host, once the site has a backup. That takes minutes, in which other
// work may begin.
func (d *secondFamily) announce(ctx context.Context) error {
	if err := d.backup.before(ctx, d.access, time.Now); err != nil {
		return err
	}
	if err := d.free(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(d.plan)
	if err != nil {
		return err
	}
	infra, err := d.access.infrastructure(ctx)
	if err != nil {
		return err
	}
	if infra.Annotations[kube.DualStackAnnotation] != "" {
		return coded(command.ExitRefused, "refused: somebody else has announced a plan: holdfast site dual-stack status")
	}
	if err := d.access.write(ctx, infra, map[string]string{kube.DualStackAnnotation: string(data)}); err != nil {
		return fmt.Errorf("announce the plan: %w", err)
	}
	return nil
}

// abortDualStack takes a plan back that has not begun. Of this and the plan's beginning one is
// first: both write the same object, as it was read.
func (f readdressFlags) abortDualStack(ctx context.Context, streams Streams) error {
	if err := f.place.Check(nil); err != nil {
		return err
	}
	a, err := f.cluster(ctx)
	if err != nil {
		return err
	}
	return f.abortAt(ctx, streams, a)
}

func (f readdressFlags) abortAt(ctx context.Context, streams Streams, a *moveAccess) error {
	infra, err := a.infrastructure(ctx)
	if err != nil {
		return err
	}
	r, err := familyReportOf(infra, nil)
	switch {
	case err != nil:
		return err
	case r.Plan == nil:
		return coded(command.ExitRefused, "refused: there is no plan for a second family")
	case r.Plan.Begun:
		return coded(command.ExitRefused, "refused: the plan has begun, and only goes forward: holdfast site dual-stack status")
	}
	if err := a.write(ctx, infra, map[string]string{kube.DualStackAnnotation: ""}); err != nil {
		return fmt.Errorf("take the plan back: %w", err)
	}
	return f.awaitFamily(ctx, streams, a, func(r familyReport) (string, bool) {
		late := r.with(r.any())
		return strings.Join(late, ", "), len(late) == 0
	}, "the plan is taken back: no host has it any more")
}

// followDualStack follows a plan to its end: the site has both families, or somebody took it back.
func (f readdressFlags) followDualStack(ctx context.Context, streams Streams, a *moveAccess, p decide.Plan) error {
	var is *config.InstallConfig
	err := f.awaitFamily(ctx, streams, a, func(r familyReport) (string, bool) {
		if r.Plan != nil && r.Plan.ID == p.ID {
			return r.lines(), false
		}
		if late := r.with(p.ID); len(late) > 0 {
			return strings.Join(late, ", ") + " still has the plan", false
		}
		var err error
		if is, err = a.config(ctx); err != nil {
			return "no host has the plan any more; no answer: " + firstLine(err.Error()), false
		}
		return "", true
	}, "no host has the plan any more")
	if err != nil {
		return err
	}
	if !p.In(is) {
		return coded(command.ExitRefused, "somebody took the plan %s back before it began: the site has one family, and nothing was changed", p.ID)
	}
	_, err = fmt.Fprintln(streams.Err, "the site has both families: holdfast vip add gives it a second pair of virtual IPs")
	return err
}

// awaitFamily looks until done says that nothing is to come, and shows what is waited for.
func (f readdressFlags) awaitFamily(ctx context.Context, streams Streams, a *moveAccess, done func(familyReport) (string, bool), words string) error {
	_, cause := untilDone(ctx, f.timeout, streams, "", a.secondFamily, done, words)
	return notDone(cause, fmt.Sprintf("not at its end at the timeout of %s: it goes on by itself", f.timeout), "holdfast site dual-stack status")
}
