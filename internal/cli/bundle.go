package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/redact"
	"github.com/holdfast/holdfast/internal/model/payload"
	support "github.com/holdfast/holdfast/internal/report/bundle"
)

// bundleFlags selects what is collected and where it is written.
type bundleFlags struct {
	place  place.Flags
	output string
	since  time.Duration
	dryRun bool
	// gather finds the things to collect. Tests replace it.
	gather func(ctx context.Context, f *bundleFlags) (gathered, error)
	now    func() time.Time
}

// gathered lists the sources of a bundle.
type gathered struct {
	name  string // of the cluster or host, as part of the file's name
	items []support.Item
	hosts []place.Host // hosts whose secrets must be known
	notes []string
}

// defaultSince is the default age of the oldest journal entries: a weekend.
const defaultSince = 72 * time.Hour

func newSupportBundle(streams Streams) *cobra.Command {
	return newSupportBundleWith(streams, &bundleFlags{gather: gatherBundle, now: time.Now})
}

func newSupportBundleWith(streams Streams, f *bundleFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect diagnostic data of this cluster into one file, without its secrets",
		Long: `Collects objects and events of the cluster, and from its hosts records, journals,
Pacemaker's configuration and status, the state of the network and versions. It
writes one compressed file that only its owner can read. An index in the file lists
what was collected, and what was not and why.

The file holds no secrets: of Secrets only the names are read, and files of keys,
tokens and accounts are left out. All text then passes a filter that removes the
hosts' secrets, also in base64, and whatever looks like a secret. Check the file
all the same before you pass it on: it holds names of hosts, addresses and names of
workloads.

On a control plane it collects from that host and from the API; elsewhere from
the API of a kubeconfig, and with --hosts also from these hosts.`,
		Example: `  sudo holdfast support-bundle
  holdfast support-bundle --kubeconfig site.kubeconfig --hosts cp-1,cp-2
  sudo holdfast support-bundle --lab default -o /tmp/bundle.tar.gz
  holdfast support-bundle --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.run(cmd, streams)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "the file to write; empty for holdfast-support-NAME-TIME.tar.gz in the current folder")
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareLab(cmd)
	f.place.DeclareHosts(cmd)
	flags.DurationVar(&f.since, "since", defaultSince, "how far back journals go")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list what would be collected, and collect nothing")
	return cmd
}

// check returns all mistakes of the command line at once.
func (f *bundleFlags) check() error {
	var mistakes []error
	if f.since < time.Minute {
		mistakes = append(mistakes, fmt.Errorf("--since %s: must be 1m or more", f.since))
	}
	if f.output != "" {
		if _, err := os.Stat(f.output); err == nil {
			mistakes = append(mistakes, fmt.Errorf("--output %s: the file exists already and is not overwritten", f.output))
		}
		if info, err := os.Stat(filepath.Dir(f.output)); err != nil || !info.IsDir() {
			mistakes = append(mistakes, fmt.Errorf("--output %s: %s is not a folder", f.output, filepath.Dir(f.output)))
		}
	}
	return f.place.Check(mistakes...)
}

func (f *bundleFlags) run(cmd *cobra.Command, streams Streams) error {
	ctx := cmd.Context()
	g, err := f.gather(ctx, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		return printPlan(streams.Out, g)
	}
	name := "holdfast-support-" + g.name + "-" + f.now().UTC().Format("20060102T150405Z")
	path := cmp.Or(f.output, name+".tar.gz")
	known, problems := learnSecrets(ctx, g.hosts)
	m := support.Maker{
		Name: name, Now: f.now(), By: payload.Version, Notes: append(g.notes, problems...), Redact: redact.New(known...),
		Told: func(e support.Entry) { printEntry(streams.Err, e) },
	}
	var index support.Index
	// WriteAtomic writes to a temporary name, so an incomplete file is removed.
	err = host.WriteAtomic(path, 0o600, func(w io.Writer) error {
		var err error
		index, err = m.Write(ctx, w, g.items)
		return err
	})
	if err != nil {
		return fmt.Errorf("support bundle: %w", err)
	}
	return f.report(streams, path, index)
}

func (f *bundleFlags) report(streams Streams, path string, index support.Index) error {
	for _, n := range index.Notes {
		_, _ = fmt.Fprintf(streams.Err, "note: %s\n", n)
	}
	if n := index.Failures(); n > 0 {
		_, _ = fmt.Fprintf(streams.Err, "%d of %d items could not be collected, or only in part: INDEX.txt in the file says why\n", n, len(index.Entries))
	}
	_, err := fmt.Fprintln(streams.Out, path)
	if err == nil && !slices.ContainsFunc(index.Entries, func(e support.Entry) bool { return e.Bytes > 0 }) {
		return errors.New("support bundle: nothing could be collected")
	}
	return err
}

// learnSecrets reads the secrets of all hosts in parallel, so that they can be
// redacted.
func learnSecrets(ctx context.Context, hosts []place.Host) (known, problems []string) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, h := range hosts {
		all.Go(func() {
			secrets, missing := support.Secrets(ctx, h.Read)
			mu.Lock()
			defer mu.Unlock()
			known = append(known, secrets...)
			for _, m := range missing {
				problems = append(problems, h.Name+": "+m)
			}
		})
	}
	all.Wait()
	slices.Sort(problems)
	return known, problems
}

func printEntry(out io.Writer, e support.Entry) {
	switch {
	case e.Absent:
	case e.CutOff != "":
		_, _ = fmt.Fprintf(out, "  %-8s %s: cut off after %s\n", e.From, e.What, e.CutOff)
	case e.Failed != "":
		_, _ = fmt.Fprintf(out, "  %-8s %s: not collected\n", e.From, e.What)
	default:
		_, _ = fmt.Fprintf(out, "  %-8s %s\n", e.From, e.What)
	}
}

func printPlan(out io.Writer, g gathered) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, i := range g.items {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", i.From, i.Path, i.What)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range g.notes {
		if _, err := fmt.Fprintf(out, "note: %s\n", n); err != nil {
			return err
		}
	}
	return nil
}
