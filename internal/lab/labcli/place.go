package labcli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/labprogram"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

func newPlace(streams command.Streams, name *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "place",
		Short: "Print the paths of a lab's kubeconfig, log and hosts, for other programs",
		Long: `Prints the paths of the kubeconfig and the log of a lab, and for each host the folder
with its files and the words to put before a command that is to run there. 'holdfast
status', 'doctor', 'incidents', 'dashboard' and 'support-bundle' read it for --lab.
The folder of a host is valid for one boot, and is missing while the host is off.`,
		Example: `  holdfast lab place
  holdfast lab place -o json | jq -r '.hosts[] | select(.name == "cp-1").root'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, c, err := openLab(cmd, *name)
			if err != nil {
				return err
			}
			p, err := placeOf(cmd.Context(), b, c)
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(streams.Out, p)
			}
			return printPlace(streams.Out, p)
		},
	}
	command.OutputFlag(cmd, &output)
	return cmd
}

func placeOf(ctx context.Context, b *lab.Lab, c *lab.Client) (labprogram.Place, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return labprogram.Place{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return labprogram.Place{}, err
	}
	p := placeFrom(b, st, self)
	if p.Kubeconfig, err = b.WriteKubeconfig(ctx, c); err != nil {
		p.NoKubeconfig = err.Error()
	}
	return p, nil
}

// placeFrom returns the place of a lab without its kubeconfig, from its
// daemon's status and the program that runs commands on its hosts.
func placeFrom(b *lab.Lab, st lab.DaemonStatus, program string) labprogram.Place {
	p := labprogram.Place{Name: b.Layout.Spec.Name, Log: b.LogPath(), Hosts: []labprogram.Host{}}
	exec := []string{program, "exec", "--name", p.Name}
	planes := b.ControlPlanes() // a spare one that the site does not know is none
	for _, h := range b.Layout.Hosts {
		out := labprogram.Host{
			Name: h.Name, ControlPlane: slices.ContainsFunc(planes, func(c lab.Host) bool { return c.ID == h.ID }),
			Exec: slices.Concat(exec, []string{h.Name, "--"}), Enter: slices.Concat(exec, []string{"--enter", h.Name, "--"}),
		}
		i := slices.IndexFunc(st.Hosts, func(s lab.HostStatus) bool { return s.Name == h.Name && s.PID != 0 })
		if i >= 0 {
			out.Root = fmt.Sprintf("/proc/%d/root", st.Hosts[i].PID)
		}
		p.Hosts = append(p.Hosts, out)
	}
	return p
}

func printPlace(out io.Writer, p labprogram.Place) error {
	kubeconfig := p.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = "none: " + p.NoKubeconfig
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "kubeconfig\t%s\nlog\t%s\n\nHOST\tFILES\n", kubeconfig, p.Log)
	for _, h := range p.Hosts {
		root := h.Root
		if root == "" {
			root = "- (it is off)"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\n", h.Name, root)
	}
	return w.Flush()
}
