package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

func newUpgradeStatus(streams Streams) *cobra.Command {
	var f hostFlags
	watch, every := false, 2*time.Second
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far an upgrade is, what holds it, and what runs where",
		Long: `Shows how far an upgrade is and what holds it, which release runs on each host and what
the host does, when it returns by itself, whether the way back is open, what to type, and
the history of the site. It changes nothing.

--watch prints it once, and then a line for each change. Ctrl-C ends it.

Exit codes: 0 no upgrade is under way, or all hosts run the new release and only the
commit is left; 3 something holds it; 4 it is under way; 6 too little is known; 1 it
failed; 2 wrong usage.`,
		Example: `  holdfast upgrade status
  holdfast upgrade status --watch
  holdfast upgrade status -o json | jq .wayBack`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var mistake error
			if every < minInterval {
				mistake = fmt.Errorf("--interval %s: must be %s or more", every, minInterval)
			}
			c, err := f.open(cmd.Context(), mistake)
			if err != nil {
				return err
			}
			if watch {
				return watchUpgrade(cmd.Context(), c, streams.Out, f.output, every)
			}
			return showUpgrade(cmd.Context(), c, streams.Out, f.output)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the state again and again")
	cmd.Flags().DurationVar(&every, "interval", every, "pause between two rounds of --watch")
	return cmd
}

func showUpgrade(ctx context.Context, c client.Reader, out io.Writer, format string) error {
	u, err := gatherUpgrade(ctx, c, time.Now())
	if err != nil {
		return err
	}
	s := u.Status()
	if err := printUpgrade(out, format, s); err != nil {
		return err
	}
	switch {
	case s.Phase == "":
		return exitWith(command.ExitUnknown)
	case s.Held != "" || s.Refused != "":
		return exitWith(command.ExitAttention)
	case s.Phase != cluster.Idle && s.Phase != cluster.Proving:
		return exitWith(command.ExitRecovers)
	}
	return nil
}

// watchUpgrade prints the state, and then its changes, until it is interrupted, which is
// the normal end.
func watchUpgrade(ctx context.Context, c client.Reader, out io.Writer, format string, every time.Duration) error {
	var last *people.Status
	for {
		s, err := upgradeFollow{cluster: c}.look(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was interrupted
		}
		switch {
		case err != nil && last == nil:
			return err
		case err != nil: // the API server may be the one that is upgraded
			_, _ = fmt.Fprintf(out, "%s the API does not answer: %s\n", time.Now().UTC().Format("15:04:05Z"), firstLine(err.Error()))
		default:
			if err := showChange(out, format, last, s); err != nil {
				return err
			}
			last = &s
		}
		if host.Sleep(ctx, every) != nil {
			return nil //nolint:nilerr // it was interrupted
		}
	}
}

// showChange prints what is new: the whole at first, and for a program always.
func showChange(out io.Writer, format string, before *people.Status, s people.Status) error {
	if before == nil && format != "json" {
		return printUpgrade(out, format, s)
	}
	changes := []string{""}
	if before != nil {
		changes = before.Changes(s)
	}
	switch {
	case len(changes) == 0:
		return nil
	case format == "json":
		return json.NewEncoder(out).Encode(s)
	case format == "yaml":
		_, _ = io.WriteString(out, "---\n")
		return printData(out, format, s)
	}
	for _, change := range changes {
		if _, err := fmt.Fprintf(out, "%s %s\n", s.At.UTC().Format("15:04:05Z"), change); err != nil {
			return err
		}
	}
	return nil
}
