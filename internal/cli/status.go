package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/standing"
	gathering "github.com/holdfast/holdfast/internal/report/status"
)

// statusFlags holds the flags of `holdfast status`.
type statusFlags struct {
	place  place.Flags
	output string
	watch  bool
	every  time.Duration
}

func newStatus(streams Streams) *cobra.Command {
	f := statusFlags{every: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the cluster, and what to do",
		Long: `Shows the state of the cluster on one screen: whether it would survive the loss of a
host and why not; what is wrong, what that means and which commands help; each host
with its power, role, record, kubelet and etcd member; how well the fencing of each
host is proven; who holds the virtual IPs; the last incidents.

It asks the API through a kubeconfig. On a control plane it also asks the daemons of
the host (as root), which need no API, and with --hosts those of other hosts. It
shows the source of each fact, answers within two seconds even if a source hangs,
and changes nothing. Only where the API alone knows the hosts and is slow, it waits up
to eight seconds more.

--watch repeats it: a terminal is redrawn, other outputs get one line for each
change. Ctrl-C ends it.

Exit codes: 0 healthy, as far as this number of control planes allows; 3 the cluster
takes writes, but is not redundant or needs attention; 4 no writes now, and it
recovers by itself; 5 no writes, and an administrator is needed; 6 too little is
known; 1 the command failed; 2 wrong usage.`,
		Example: `  holdfast status
  sudo holdfast status -o wide                on a control plane, also without API
  holdfast status --kubeconfig store-17/auth/kubeconfig --watch
  holdfast status --lab default -o json | jq .redundancy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, streams) },
	}
	formatFlag(cmd, &f.output)
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareLab(cmd)
	f.place.DeclareHosts(cmd)
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show the state again and again")
	cmd.Flags().DurationVar(&f.every, "interval", f.every, "pause between two rounds of --watch")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command, streams Streams) error {
	var mistake error
	if f.every < minInterval {
		mistake = fmt.Errorf("--interval %s: must be %s or more", f.every, minInterval)
	}
	if err := f.place.Check(mistake); err != nil {
		return err
	}
	waits := func() {
		if command.IsTerminal(streams.Err) {
			_, _ = fmt.Fprintf(streams.Err, "The API has not answered yet; waiting up to %s.\n", gathering.Patience)
		}
	}
	if f.watch {
		waits = nil // the next round comes anyway
	}
	look, err := newViewReader(cmd.Context(), &f.place, waits)
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

// minInterval keeps a watch from becoming a load.
const minInterval = 200 * time.Millisecond

func printView(out io.Writer, format string, v standing.View) error {
	switch format {
	case "json", "yaml":
		return printData(out, format, v)
	}
	_, err := io.WriteString(out, standing.Text(v, page.Style{Colour: command.IsTerminal(out), Wide: format == "wide"}))
	return err
}
