package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/standing"
	gathering "github.com/holdfast/holdfast/internal/report/status"
)

// statusFlags holds the flags of `holdfast status`.
type statusFlags struct {
	place
	output string
	watch  bool
	every  time.Duration
}

func newStatus(streams Streams) *cobra.Command {
	f := statusFlags{every: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say where the cluster stands, and what to do",
		Long: `Says on one screen where the cluster stands: whether it would survive the loss of
a host and why not, what is wrong, what that means and what to type; each host with
its power, role, record, kubelet and member of etcd; how far it is proven that each
can be fenced; who holds the virtual IPs; the last incidents.

It asks the API by a kubeconfig. On a control plane it asks the daemons there too
(as root), which need no API, and says which of them told what. It answers within
two seconds, whatever hangs, and changes nothing.

--watch looks again and again: a terminal is redrawn, elsewhere each change is a
line. Ctrl-C ends it.

Exit codes: 0 all is well, as far as this number of control planes can be; 3 the
cluster takes writes, and is not redundant or something needs a look; 4 no writes
now, and it goes on by itself; 5 no writes, and a person is needed; 6 too little
could be seen; 1 the command failed; 2 wrong usage.`,
		Example: `  holdfast status
  sudo holdfast status -o wide                on a control plane, also without API
  holdfast status --kubeconfig store-17/auth/kubeconfig --watch
  holdfast status --lab default -o json | jq .redundancy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, streams) },
	}
	formatFlag(cmd, &f.output)
	f.flags(cmd)
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "look again and again")
	cmd.Flags().DurationVar(&f.every, "interval", f.every, "how long to wait between two looks")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command, streams Streams) error {
	if err := f.check(f.every); err != nil {
		return err
	}
	look, err := f.open(cmd)
	if err != nil {
		return err
	}
	if f.watch {
		return newWatching(streams.Out, f.output).run(cmd.Context(), look, f.every)
	}
	v, err := look(cmd.Context())
	if err != nil {
		return err
	}
	if err := printView(streams.Out, f.output, v); err != nil {
		return err
	}
	return status(v.Status)
}

// looker reads the view of a cluster once.
type looker func(ctx context.Context) (standing.View, error)

// lookWith returns a looker that reads through the given gatherer.
func lookWith(g *gathering.Gatherer) looker {
	return func(ctx context.Context) (standing.View, error) { return standing.Describe(g.Gather(ctx)), nil }
}

func printView(out io.Writer, format string, v standing.View) error {
	switch format {
	case "json", "yaml":
		return printData(out, format, v)
	}
	_, err := io.WriteString(out, standing.Text(v, page.Style{Colour: command.IsTerminal(out), Wide: format == "wide"}))
	return err
}
