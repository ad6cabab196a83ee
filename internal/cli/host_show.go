package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/page"
)

func newHostShow(streams Streams) *cobra.Command {
	var f hostFlags
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show what one host does now, and for what it waits",
		Long: `Shows one host, its wishes, what it does now and for what it waits. It changes nothing.

Exit codes: 0 the host is ready and takes pods; 3 it does not, or has work to do; 1 it
failed; 2 wrong usage.`,
		Example: `  holdfast host show cp-2
  holdfast host show cp-2 -o yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			n, err := hostNode(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			r := reportHost(n)
			if err := r.print(streams.Out, f.output); err != nil {
				return err
			}
			if !r.quiet() {
				return exitWith(command.ExitAttention)
			}
			return nil
		},
	}
	f.register(cmd)
	f.completeHosts(cmd)
	return cmd
}

func (r hostReport) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, r)
	}
	w := page.Writer{Style: page.Style{Wide: format == "wide"}, Width: page.Broad}
	if format == "wide" {
		w.Width = 10 * page.Broad
	}
	for _, row := range [][2]string{
		{"host", r.Name},
		{"roles", orDash(r.Roles)},
		{"ready", yesNo(r.Ready)},
		{"takes pods", yesNo(r.TakesPods)},
		{"does", orDash(r.Does)},
		{"waits for", r.Waits},
		{"reboot wanted", r.RebootWanted},
		{"because", r.RebootReason},
		{"last reboot", r.RebootDone},
		{"reboot required", r.RebootRequired},
		{"updates wanted", r.PatchWanted},
		{"because", r.PatchReason},
		{"last updates", r.PatchResult},
		{"drain wanted", r.DrainWanted},
		{"cordoned for", r.CordonedFor},
		{"configuration", r.Configuration},
	} {
		if row[1] != "" {
			w.Beside(fmt.Sprintf("%-17s", row[0]), row[1])
		}
	}
	_, err := io.WriteString(out, w.String())
	return err
}
