package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/contents"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup/objects"
	model "github.com/holdfast/holdfast/internal/model/backup"
)

// backupInspectFlags holds the flags of `backup inspect`.
type backupInspectFlags struct {
	lookFlags
	output  string
	secrets bool
}

func newBackupInspect(streams Streams) *cobra.Command {
	var f backupInspectFlags
	cmd := &cobra.Command{
		Use:   "inspect FILE [TYPE[/NAME]...]",
		Short: "Look into a backup: what it is of, and which objects it has",
		Long: `Reads a backup file and changes nothing. It needs no site, no etcd and no other program.
Without a type it says where the backup is from and counts its objects. With types and names,
given as for kubectl, it lists or prints these objects as etcd stored them. Without --namespace
it looks at all namespaces.

It decrypts what API servers encrypted, with the keys in the backup, and hides the contents of
Secrets unless you give --show-secrets. While the command runs, a temporary folder has the
database, readable by you alone.

Keys that cannot be read are counted and named. A build of another Kubernetes version may not
know all fields of an object: then it says so at that object.

Exit codes: 0 everything was read; 3 some keys could not be read, or have fields that this build
does not know; 1 there is no such object, or the backup is damaged; 2 wrong usage; 7 refused: it is
not of the site of --authority.`,
		Example: `  holdfast backup inspect 20261125T031700Z-cp-1.tar.age --identity owner.key
  holdfast backup inspect backup.tar -n shop
  holdfast backup inspect backup.tar deployments,configmaps -n shop
  holdfast backup inspect backup.tar configmap/prices -n shop -o yaml
  holdfast backup inspect backup.tar secret tls -n shop -o yaml --show-secrets
  holdfast backup inspect backup.tar -o json | jq '.counts[] | select(.namespace == "shop")'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), streams, args[0], args[1:])
		},
	}
	formatFlag(cmd, &f.output)
	f.register(cmd)
	cmd.Flags().BoolVar(&f.secrets, "show-secrets", false, "print the contents of Secrets, too")
	return cmd
}

func (f *backupInspectFlags) run(ctx context.Context, streams Streams, file string, args []string) error {
	wants, err := objects.Wants(args)
	if err != nil {
		return &UsageError{Err: err}
	}
	b, err := f.openKnown(ctx, streams, file)
	if err != nil {
		return err
	}
	if len(wants) == 0 {
		return f.summarize(ctx, streams, b)
	}
	return f.show(ctx, streams, b, objects.Selector{Namespace: f.namespace, Wants: wants, Names: b.names})
}

// inspected is what `backup inspect` prints about a whole backup.
type inspected struct {
	ID    string      `json:"id"`
	Entry model.Entry `json:"entry"`
	origin
	// told says of which site it is.
	told     string
	Database contents.Stats   `json:"database"`
	Counts   []objects.Count  `json:"counts"`
	Objects  int              `json:"objects"`
	Unread   []objects.Unread `json:"unread,omitempty"`
	// Encrypted counts objects that are encrypted in etcd, and Partial those with fields that
	// this build does not know.
	Encrypted int `json:"encrypted"`
	Partial   int `json:"partial,omitempty"`
	// Internal counts keys that API servers write for themselves, and Foreign those of others.
	Internal int `json:"internal"`
	Foreign  int `json:"foreign"`
}

func (f *backupInspectFlags) summarize(ctx context.Context, streams Streams, b *openedBackup) error {
	out := inspected{ID: b.ID, Entry: b.Entry, origin: b.origin, told: b.authority, Database: b.Stats()}
	var counter objects.Counter
	found, err := b.readAndClose(ctx, func(o objects.Object) bool {
		if f.namespace == "" || o.Namespace == f.namespace {
			counter.Add(o)
			out.Objects++
			out.Encrypted += count(o.Encrypted)
			out.Partial += count(o.Partial)
		}
		return false // only the counts are kept
	})
	if err != nil {
		return err
	}
	out.Counts, out.Internal, out.Foreign = counter.Counts(), found.Internal, found.Foreign
	out.Unread = unreadIn(found.Unread, f.namespace)
	if f.output == "json" || f.output == "yaml" {
		err = printData(streams.Out, f.output, out)
	} else {
		err = out.print(streams.Out, f.namespace, f.output == "wide")
	}
	if err == nil && (len(out.Unread) > 0 || out.Partial > 0) {
		return exitWith(command.ExitAttention)
	}
	return err
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// print prints the summary for people.
func (i inspected) print(out io.Writer, namespace string, wide bool) error {
	e, d := i.Entry, i.Database
	_, _ = fmt.Fprintf(out, "backup %s of %s, site %s\n  taken      %s (%s)\n  of         Holdfast %s, Kubernetes %s, etcd %s\n  good       %s\n  authority  %s\n",
		e.ID, e.Host, e.Site, timestamp(e.Taken), orDash(e.Reason), orDash(e.Release.Version), orDash(e.Release.Kubernetes), orDash(e.Release.Etcd), strings.TrimSuffix(yesNo(e.Good)+": "+e.Why(), ": "), i.told)
	_, _ = fmt.Fprintf(out, "  revision   %d; changes before %d are forgotten\n  database   %s, with %d keys in %s and %d revisions\n",
		d.Revision, d.Compacted, bytesOf(d.Size), d.Keys, bytesOf(d.Values), d.Revisions)
	where := ""
	if namespace != "" {
		where = " of namespace " + namespace
	}
	_, _ = fmt.Fprintf(out, "  objects    %d%s, %d of them encrypted\n", i.Objects, where, i.Encrypted)
	_, _ = fmt.Fprintf(out, "  beside     %d keys that API servers write for themselves, %d of other programs\n\n", i.Internal, i.Foreign)
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	i.table(w, namespace, wide)
	if err := w.Flush(); err != nil {
		return err
	}
	if i.Partial > 0 {
		_, _ = fmt.Fprintf(out, "%d objects have fields that this build does not know: use the holdfast of the site's release\n", i.Partial)
	}
	printUnread(out, i.Unread)
	return nil
}

// table prints counts by resource and by namespace, or, if wide, by both.
func (i inspected) table(w io.Writer, namespace string, wide bool) {
	if wide || namespace != "" {
		_, _ = fmt.Fprintln(w, "NAMESPACE\tRESOURCE\tVERSION\tOBJECTS\tSIZE")
		for _, c := range i.Counts {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", orDash(c.Namespace), c.String(), c.Version, c.Objects, bytesOf(c.Size))
		}
		return
	}
	sums := func(head string, key func(objects.Count) string) {
		_, _ = fmt.Fprintf(w, "%s\tOBJECTS\tSIZE\n", head)
		by := map[string]objects.Count{}
		for _, c := range i.Counts {
			sum := by[key(c)]
			by[key(c)] = objects.Count{Objects: sum.Objects + c.Objects, Size: sum.Size + c.Size}
		}
		for _, name := range sorted(by) {
			_, _ = fmt.Fprintf(w, "%s\t%d\t%s\n", orDash(name), by[name].Objects, bytesOf(by[name].Size))
		}
	}
	sums("RESOURCE", func(c objects.Count) string { return c.String() })
	_, _ = fmt.Fprintln(w, "\t\t")
	sums("NAMESPACE", func(c objects.Count) string { return c.Namespace })
}

// show prints the objects that are asked for.
func (f *backupInspectFlags) show(ctx context.Context, streams Streams, b *openedBackup, s objects.Selector) error {
	found, err := b.readAndClose(ctx, s.Fits)
	if err != nil {
		return err
	}
	unread, partial := unreadIn(found.Unread, f.namespace), 0
	for i, o := range found.Objects {
		partial += count(o.Partial)
		if !f.secrets {
			found.Objects[i] = o.Hidden()
		}
	}
	printUnread(streams.Err, unread)
	missing := missingWants(s, found.Objects)
	if len(found.Objects) > 0 {
		if err := f.print(streams, found.Objects, s); err != nil {
			return err
		}
	}
	switch {
	case missing != nil:
		return missing
	case len(unread) > 0 || partial > 0:
		return exitWith(command.ExitAttention)
	}
	return nil
}

// missingWants returns an error that names everything that was asked for and is not there.
func missingWants(s objects.Selector, found []objects.Object) error {
	missing := s.Missing(found)
	if len(missing) == 0 {
		return nil
	}
	names := make([]string, 0, len(missing))
	for _, w := range missing {
		names = append(names, w.String())
	}
	where := "the backup"
	if s.Namespace != "" {
		where = "namespace " + s.Namespace + " of the backup"
	}
	return coded(command.ExitFailed, "%s has no %s", where, strings.Join(names, ", "))
}

// print prints objects: a table, or the objects themselves.
func (f *backupInspectFlags) print(streams Streams, found []objects.Object, s objects.Selector) error {
	if f.output == "json" || f.output == "yaml" {
		return printObjects(streams.Out, f.output, found, len(s.Wants) == 1 && s.Wants[0].Name != "")
	}
	w := tabwriter.NewWriter(streams.Out, 0, 4, 2, ' ', 0)
	head := "NAMESPACE\tRESOURCE\tNAME\tCREATED\tSIZE"
	if f.output == "wide" {
		head += "\tREVISION\tENCRYPTED\tUNKNOWN FIELDS"
	}
	_, _ = fmt.Fprintln(w, head)
	for _, o := range found {
		line := fmt.Sprintf("%s\t%s\t%s\t%s\t%s", orDash(o.Namespace), o.String(), o.Name, orDash(o.Created()), bytesOf(o.Size))
		if f.output == "wide" {
			line += fmt.Sprintf("\t%d\t%s\t%s", o.Revision, yesNo(o.Encrypted), yesNo(o.Partial))
		}
		_, _ = fmt.Fprintln(w, line)
	}
	return w.Flush()
}

// printObjects prints objects as kubectl does: one alone as itself, others as a list. It leaves
// out who wrote which field.
func printObjects(out io.Writer, format string, found []objects.Object, one bool) error {
	items := make([]any, 0, len(found))
	for _, o := range found {
		items = append(items, o.WithoutManagers().Content)
	}
	if one && len(items) == 1 {
		return printData(out, format, items[0])
	}
	return printData(out, format, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

// sorted returns the keys of a map in their order.
func sorted[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}
