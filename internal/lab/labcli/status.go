package labcli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

func newStatus(streams command.Streams, name *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show hosts, power, network, cluster and the faults in force",
		Example: `  holdfast lab status
  holdfast lab status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, c, err := openLab(cmd, *name)
			if err != nil {
				return err
			}
			status, err := b.Status(cmd.Context(), c)
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(streams.Out, status)
			}
			return printStatus(streams.Out, status)
		},
	}
	command.OutputFlag(cmd, &output)
	return cmd
}

func printStatus(out io.Writer, s lab.Status) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	printHosts(w, s)
	if len(s.VIPs) > 0 {
		_, _ = fmt.Fprint(w, "\nVIP\tHOLDER\n")
		for _, vip := range slices.Sorted(maps.Keys(s.VIPs)) {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", vip, orNone(s.VIPs[vip]))
		}
	}
	if len(s.Etcd) > 0 {
		_, _ = fmt.Fprint(w, "\nETCD\tID\tROLE\n")
		for _, m := range s.Etcd {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", m.Name, m.ID, m.Role)
		}
	}
	if len(s.Nodes) > 0 {
		_, _ = fmt.Fprint(w, "\nNODE\tSTATUS\tROLES\n")
		for _, n := range s.Nodes {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", n.Name, n.Ready, n.Roles)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printRest(out, s)
}

func printHosts(w io.Writer, s lab.Status) {
	_, _ = fmt.Fprint(w, "HOST\tROLE\tPOWER\tSINCE\tBMC\tMACHINE NIC\tFENCING NIC\tINSTALL\n")
	for _, h := range s.Daemon.Hosts {
		since := "-"
		if !h.Since.IsZero() {
			since = time.Since(h.Since).Round(time.Second).String()
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.Name, h.Role, h.Power, since, h.BMC,
			upDown(h.MachineLink), upDown(h.FencingLink), s.Installed[h.Name])
	}
}

func printRest(out io.Writer, s lab.Status) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\nAPI on this machine: https://%s\nmachine network: %s\n", s.Daemon.API, spaced(s.Networks))
	if s.Pacemaker != "" {
		fmt.Fprintf(&text, "\n%s\n", s.Pacemaker)
	}
	if len(s.Daemon.Faults) == 0 {
		text.WriteString("faults in force: none\n")
	}
	for _, f := range s.Daemon.Faults {
		fmt.Fprintf(&text, "fault in force: %s (since %s)\n", f, f.Since.Format(time.TimeOnly))
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&text, "note: %s\n", n)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "nobody"
	}
	return strings.Join(list, ", ")
}
