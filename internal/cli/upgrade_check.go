package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

func newUpgradeCheck(streams Streams) *cobra.Command {
	var f hostFlags
	cmd := &cobra.Command{
		Use:   "check [DIGEST]",
		Short: "Show what stands in the way of an upgrade, and what helps",
		Long: `Asks all gates of an upgrade, and shows for each that is closed of which host, why, and
what opens it. Without a digest it asks about the release that is wanted, or about any
next one. It changes nothing.

It knows what the hosts and holdfast-operator tell in the API. What only the operator
knows, of etcd and Pacemaker for example, is open where the operator says so, and
otherwise unknown. -o wide shows every gate.

Exit codes: 0 nothing stands in the way; 3 only what an administrator can skip, or what
the operator alone knows of; 4 it opens by itself; 5 somebody has to act; 6 something is
not known; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast upgrade check
  holdfast upgrade check sha256:0a1b... -o wide
  holdfast upgrade check -o json | jq '.gates[] | select(.verdict != "ok")'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var mistake error
			image := ""
			if len(args) > 0 {
				image, mistake = people.ParseImage(args[0])
			}
			c, err := f.open(cmd.Context(), mistake)
			if err != nil {
				return err
			}
			return checkUpgrade(cmd.Context(), c, streams.Out, f.output, people.Digest(image))
		},
	}
	f.register(cmd)
	f.completeDigests(cmd)
	return cmd
}

func checkUpgrade(ctx context.Context, c client.Reader, out io.Writer, format, digest string) error {
	u, err := gatherUpgrade(ctx, c, time.Now())
	if err != nil {
		return err
	}
	check := u.Check(digest)
	if format == "json" || format == "yaml" {
		err = printData(out, format, check)
	} else {
		_, err = io.WriteString(out, check.Text(page.Style{Colour: command.IsTerminal(out), Wide: format == "wide"}))
	}
	if err != nil {
		return err
	}
	switch check.Worst() {
	case people.Person:
		return exitWith(command.ExitPerson)
	case people.Waits:
		return exitWith(command.ExitRecovers)
	case people.Skippable:
		return exitWith(command.ExitAttention)
	case people.Unknown:
		return exitWith(command.ExitUnknown)
	case people.Open:
	}
	return nil
}
