package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/backup/objects"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// backupDiffFlags holds the flags of `backup diff`.
type backupDiffFlags struct {
	lookFlags
	place       place.Flags
	output      string
	resources   []string
	status, all bool
}

func newBackupDiff(streams Streams) *cobra.Command {
	var f backupDiffFlags
	cmd := &cobra.Command{
		Use:   "diff FILE [FILE2]",
		Short: "Show which objects differ between a backup and another one, or the living cluster",
		Long: `Compares the objects of a backup with those of a later one or, without a second file, with those
of the living cluster. It changes nothing. + is an object that the backup does not have, - one that
is no longer there, and ~ one that is there and differs; -o wide shows the fields that differ. What
is secret is named and never shown.

It leaves out what changes by itself: statuses (--status compares them, too), versions, times,
managed fields, events, leases, endpoints, certificate requests, and objects that a controller of
Kubernetes makes, such as the pods of a Deployment (--all compares these, too). An API fills in
defaults when it reads an object, so after an upgrade of Kubernetes a new default is a difference.

Exit codes: 0 nothing differs; 3 something differs; 6 nothing differs, and something could not be
compared; 1 the backup is damaged, or the API does not answer; 2 wrong usage; 7 refused: a backup is
not of the site of --authority.`,
		Example: `  holdfast backup diff backup.tar
  holdfast backup diff backup.tar -n shop -o wide
  holdfast backup diff monday.tar.age tuesday.tar.age --identity owner.key
  holdfast backup diff backup.tar --resources deployments,configmaps -n shop -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), streams, args)
		},
	}
	formatFlag(cmd, &f.output)
	f.register(cmd)
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareLab(cmd)
	cmd.Flags().StringSliceVar(&f.resources, "resources", nil, "compare these alone: types, or TYPE/NAME, comma-separated")
	cmd.Flags().BoolVar(&f.status, "status", false, "compare statuses, too")
	cmd.Flags().BoolVar(&f.all, "all", false, "compare what changes by itself, too")
	_ = cmd.RegisterFlagCompletionFunc("resources", cobra.NoFileCompletions)
	cmd.ValidArgsFunction = completeBackupFile(2)
	return cmd
}

// backupDiffed is what `backup diff` prints.
type backupDiffed struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Authorities say of which site each backup is.
	Authorities []string              `json:"authorities"`
	Differences []objects.Difference  `json:"differences"`
	NotCompared []objects.NotCompared `json:"notCompared,omitempty"`
	// Unread are keys of the backups that could not be read.
	Unread []objects.Unread `json:"unread,omitempty"`
}

func (f *backupDiffFlags) run(ctx context.Context, streams Streams, args []string) error {
	wants, err := wantsOf(f.resources)
	if err != nil {
		return &UsageError{Err: fmt.Errorf("--resources: %w", err)}
	}
	if len(args) == 1 || f.place.Lab != "" {
		if err := f.place.Check(); err != nil {
			return err
		}
	}
	if f.cluster, err = f.named(ctx, len(args) == 2); err != nil {
		return err
	}
	c := objects.Compare{Selector: objects.Selector{Namespace: f.namespace, Wants: wants}, Status: f.status, All: f.all}
	before, err := f.read(ctx, streams, args[0], &c)
	if err != nil {
		return err
	}
	out := backupDiffed{From: before.of, Authorities: []string{before.authority}, Unread: before.unread}
	if len(args) == 2 {
		after, err := f.read(ctx, streams, args[1], &c)
		if err != nil {
			return err
		}
		out.To, out.Unread = after.of, append(out.Unread, after.unread...)
		out.Authorities = append(out.Authorities, after.authority)
		out.Differences = c.Diff(before.objects, after.objects)
	} else if err := f.living(ctx, c, before.objects, &out); err != nil {
		return err
	}
	return out.print(streams.Out, f.output)
}

// named returns the kubeconfig of the cluster that the flags name; empty if they name none. Without that of a lab the
// backup would be compared with the authority of another site. Two files need no lab: if it cannot be asked, nobody
// compares them.
func (f *backupDiffFlags) named(ctx context.Context, files bool) (string, error) {
	if f.place.Lab == "" || files && f.authority != "" {
		return f.place.Kubeconfig, nil
	}
	access, err := f.place.OpenAPI(ctx)
	if err != nil && files {
		return os.DevNull, nil // it has no certificate
	}
	return access.Kubeconfig, err
}

// wantsOf reads --resources: types and TYPE/NAME may stand beside each other.
func wantsOf(resources []string) (out []objects.Want, err error) {
	var mistakes []error
	for _, one := range resources {
		wants, err := objects.Wants([]string{one})
		out, mistakes = append(out, wants...), append(mistakes, err)
	}
	return out, errors.Join(mistakes...)
}

// comparedBackup has what is compared of a backup.
type comparedBackup struct {
	of, authority string
	objects       []objects.Object
	unread        []objects.Unread
}

// read reads what is compared of a backup, and learns the names of its custom resources.
func (f *backupDiffFlags) read(ctx context.Context, streams Streams, file string, c *objects.Compare) (out comparedBackup, err error) {
	b, err := f.openKnown(ctx, streams, file)
	if err != nil {
		return out, err
	}
	c.Names = b.names
	found, err := b.readAndClose(ctx, c.Takes)
	return comparedBackup{b.of(), b.authority, found.Objects, unreadIn(found.Unread, f.namespace)}, err
}

// living compares with the living cluster.
func (f *backupDiffFlags) living(ctx context.Context, c objects.Compare, stored []objects.Object, out *backupDiffed) error {
	api, err := f.openLiving(ctx)
	if err != nil {
		return err
	}
	resources, silent, err := api.Resources()
	if err != nil {
		return err
	}
	var serves []objects.Serves
	for _, r := range resources {
		serves = append(serves, objects.Serves{Kind: objects.Kind{Group: r.Group, Version: r.Version, Kind: r.Kind, Resource: r.Resource}, Namespaced: r.Namespaced})
	}
	plan, not := c.Plan(stored, serves)
	for _, group := range sorted(silent) {
		not = append(not, objects.NotCompared{Resource: group, Why: firstLine(silent[group].Error())})
	}
	living, failed := f.list(ctx, api, c, plan)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	not = append(not, failed...)
	stored = slices.DeleteFunc(stored, func(o objects.Object) bool {
		return slices.ContainsFunc(not, func(n objects.NotCompared) bool { return n.Resource == o.String() })
	})
	out.To, out.NotCompared, out.Differences = "the living cluster", not, c.Diff(stored, living)
	return nil
}

func (f *backupDiffFlags) openLiving(ctx context.Context) (*kube.Living, error) {
	access, err := f.place.OpenAPI(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := access.Config()
	if err != nil {
		return nil, err
	}
	return kube.NewLiving(cfg)
}

// list lists what is compared of a living cluster, and the resources that it does not give.
func (f *backupDiffFlags) list(ctx context.Context, api *kube.Living, c objects.Compare, plan []objects.Serves) (living []objects.Object, failed []objects.NotCompared) {
	for _, s := range plan {
		r := kube.Resource{GroupVersionResource: schema.GroupVersionResource{Group: s.Group, Version: s.Version, Resource: s.Resource}}
		var some []objects.Object
		err := api.Each(ctx, r, f.namespace, func(content map[string]any) {
			if o := objects.Of(s.Resource, content); c.Takes(o) {
				some = append(some, o)
			}
		})
		if err != nil {
			failed = append(failed, objects.NotCompared{Resource: s.String(), Why: firstLine(err.Error())})
			continue
		}
		living = append(living, some...)
	}
	return living, failed
}

// print prints the result, and returns the exit code.
func (d backupDiffed) print(out io.Writer, format string) error {
	var err error
	if format == "json" || format == "yaml" {
		err = printData(out, format, d)
	} else {
		err = d.text(out, format == "wide")
	}
	switch {
	case err != nil:
		return err
	case len(d.Differences) > 0:
		return exitWith(command.ExitAttention)
	case len(d.NotCompared) > 0 || len(d.Unread) > 0:
		return exitWith(command.ExitUnknown)
	}
	return nil
}

// signs stand before the differences.
var signs = map[objects.Change]string{objects.Added: "+", objects.Removed: "-", objects.Changed: "~"}

// mostValue is how much of a value is shown, in characters.
const mostValue = 100

func (d backupDiffed) text(out io.Writer, wide bool) error {
	_, _ = fmt.Fprintf(out, "from %s\nto   %s\n", d.From, d.To)
	for _, line := range d.Authorities {
		_, _ = fmt.Fprintf(out, "authority: %s\n", line)
	}
	counts := map[objects.Change]int{objects.Added: 0, objects.Removed: 0, objects.Changed: 0}
	for i, one := range d.Differences {
		counts[one.Change]++
		if i == 0 || d.Differences[i-1].Namespace != one.Namespace {
			_, _ = fmt.Fprintf(out, "\n%s\n", namespaceTitle(one.Namespace))
		}
		_, _ = fmt.Fprintf(out, "  %s %s %s%s\n", signs[one.Change], one.Kind, one.Name, remarks(one, wide))
		if wide {
			printFields(out, one.Fields)
		}
	}
	_, err := fmt.Fprintf(out, "\n%d added, %d removed, %d changed\n", counts[objects.Added], counts[objects.Removed], counts[objects.Changed])
	for _, n := range d.NotCompared {
		_, _ = fmt.Fprintf(out, "not compared: %s: %s\n", n.Resource, n.Why)
	}
	printUnread(out, d.Unread)
	return err
}

func namespaceTitle(namespace string) string {
	if namespace == "" {
		return "without a namespace"
	}
	return "namespace " + namespace
}

// remarks says what else there is to know of a difference.
func remarks(d objects.Difference, wide bool) string {
	var out []string
	if d.Again {
		out = append(out, "deleted and made again")
	}
	if !wide {
		for _, f := range d.Fields {
			out = append(out, f.Path)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + page.OneLine(strings.Join(out, ", "), mostValue)
}

func printFields(out io.Writer, fields []objects.Field) {
	for _, f := range fields {
		from, to := orDash(page.OneLine(f.From, mostValue)), orDash(page.OneLine(f.To, mostValue))
		if f.Secret {
			from, to = "(hidden)", "(hidden)"
		}
		_, _ = fmt.Fprintf(out, "      %s: %s -> %s\n", f.Path, from, to)
	}
}
