package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newEtcd(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Show how much space etcd has, and have a member give space back",
		Long: `etcd's file never shrinks by itself, and at its quota etcd takes no writes. The agents of the
control planes defragment a member that has much to gain, one after the other, and mend an etcd
that is full if that can be done. They leave the only member to you.`,
	}
	cmd.AddCommand(newEtcdStatus(streams), newEtcdDefragment(streams))
	return cmd
}

// spaceSite is what is known of the space of etcd at a site.
type spaceSite struct {
	Hosts []etcdspace.Host
	// Ready is true for control planes whose kubelet reports.
	Ready map[string]bool
}

// gatherSpaces reads what the control planes report about the space of etcd.
func gatherSpaces(ctx context.Context, c client.Reader) (spaceSite, error) {
	out := spaceSite{Ready: map[string]bool{}}
	nodes, err := hostNodes(ctx, c)
	if err != nil {
		return out, err
	}
	for i := range nodes {
		n := &nodes[i]
		if _, control := n.Labels[state.LabelControlPlane]; control {
			out.Hosts = append(out.Hosts, etcdspace.HostOf(n.Name, n.Annotations))
			out.Ready[n.Name] = rollout.HostOf(n).Ready
		}
	}
	return out, nil
}

// host returns a control plane.
func (s spaceSite) host(name string) (etcdspace.Host, bool) {
	for _, h := range s.Hosts {
		if h.Name == name {
			return h, true
		}
	}
	return etcdspace.Host{}, false
}

// spacesOf asks the API, and on a control plane its agent, which knows more and needs no API.
func spacesOf(ctx context.Context, f *hostFlags) ([]etcdspace.Host, error) {
	var site spaceSite
	c, err := f.open(ctx)
	if err == nil {
		limited, stop := context.WithTimeout(ctx, lookLimit)
		defer stop()
		site, err = gatherSpaces(limited, c)
	}
	p, wrong := f.place.Open(ctx)
	if r, is := spaceHere(time.Now()); is && wrong == nil && p.Here != nil {
		return r.Over(site.Hosts), nil
	}
	return site.Hosts, err
}

// spaceHere returns what the agent of this host found, if it is one of a control plane that works.
func spaceHere(now time.Time) (etcdspace.Report, bool) {
	r, err := host.ReadState[etcdspace.Report](state.EtcdSpacePath)
	return r, err == nil && r.Host != "" && now.Sub(r.At).Abs() <= etcdspace.Fresh
}

func newEtcdStatus(streams Streams) *cobra.Command {
	var f hostFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show size, use and quota of each member of etcd, and what is done about it",
		Long: `Shows how large the database of each member is, how much of it is in use, its quota, and what the
agents do next or wait for. The control planes write that to their nodes when it changes; sizes
are written when they moved by a twentieth of the quota.

On a control plane as root it shows what the agent found seconds ago, also while etcd is full or
the API is away.

Exit codes: 0 nothing is to be done; 3 a member is short of space, or its defragmentation fails;
4 etcd is full, and is mended by itself; 5 etcd is full, and a person is needed; 6 no control
plane reports anything; 1 nobody answers; 2 wrong usage.`,
		Example: `  holdfast etcd status
  sudo holdfast etcd status                on a control plane, also without API
  holdfast etcd status -o json | jq -r '.hosts[] | select(.size > 1e9) | .host'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hosts, err := spacesOf(cmd.Context(), &f)
			if err != nil {
				return err
			}
			return printSpaces(streams.Out, f.output, time.Now(), hosts)
		},
	}
	f.register(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// spaceLine is the report of a control plane, for programs.
type spaceLine struct {
	Host   string `json:"host"`
	Silent string `json:"silent,omitempty"`
	etcdspace.Summary
}

// spaceReport is what `etcd status` prints for programs.
type spaceReport struct {
	Hosts    []spaceLine         `json:"hosts"`
	Troubles []etcdspace.Trouble `json:"troubles"`
}

// printSpaces prints what the hosts say, and returns the exit code.
func printSpaces(out io.Writer, format string, now time.Time, hosts []etcdspace.Host) error {
	r := spaceReport{Hosts: []spaceLine{}, Troubles: append([]etcdspace.Trouble{}, etcdspace.Troubles(hosts)...)}
	known := false
	for _, h := range hosts {
		r.Hosts, known = append(r.Hosts, spaceLine{h.Name, h.Silent, h.Summary}), known || h.Silent == ""
	}
	var err error
	if format == "json" || format == "yaml" {
		err = printData(out, format, r)
	} else {
		err = printSpaceTable(out, now, hosts, format == "wide")
	}
	switch {
	case err != nil:
		return err
	case !known:
		return exitWith(command.ExitUnknown)
	}
	return spaceCode(r.Troubles)
}

// spaceCode returns the exit code for troubles, the worst first.
func spaceCode(list []etcdspace.Trouble) error {
	code := command.ExitOK
	for _, t := range list {
		switch {
		case t.Kind == etcdspace.Full && t.Mends:
			return exitWith(command.ExitRecovers)
		case t.Kind == etcdspace.Full:
			return exitWith(command.ExitPerson)
		case t.Kind != etcdspace.Waste:
			code = command.ExitAttention
		}
	}
	if code == command.ExitOK {
		return nil
	}
	return exitWith(code)
}

func printSpaceTable(out io.Writer, now time.Time, hosts []etcdspace.Host, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	head := "HOST\tSIZE\tIN USE\tQUOTA\tOF QUOTA\tLAST DEFRAGMENTED"
	if wide {
		head += "\tIF ASKED"
	}
	_, _ = fmt.Fprintln(w, head)
	for _, h := range hosts {
		if h.Silent != "" || h.Quota == 0 {
			_, _ = fmt.Fprintf(w, "%s\t-\t-\t-\t-\t-\n", h.Name)
			continue
		}
		line := fmt.Sprintf("%s\t%s\t%s\t%s\t%d %%\t%s", h.Name, mebibytes(h.Size), mebibytes(h.InUse), mebibytes(h.Quota), h.Percent(), lastDefragmented(now, h.Done))
		if wide {
			line += "\t" + orDash(h.IfAsked.Why)
		}
		_, _ = fmt.Fprintln(w, line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, line := range spaceLines(hosts) {
		_, _ = fmt.Fprintln(out, line)
	}
	return nil
}

// spaceLines says what is done and what is wrong. Hosts mostly say the same.
func spaceLines(hosts []etcdspace.Host) []string {
	var out []string
	said := map[string]bool{}
	for _, h := range hosts {
		text := h.Silent
		if text == "" {
			text = h.Next()
		}
		if text != "" && !said[text] {
			said[text] = true
			out = append(out, h.Name+": "+text)
		}
	}
	for _, t := range etcdspace.Troubles(hosts) {
		out = append(out, "! "+orDash(string(t.Kind))+prefixed(" ", t.Subject)+": "+t.Why)
	}
	return out
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

func lastDefragmented(now time.Time, d etcdspace.Done) string {
	if d.At.IsZero() {
		return "-"
	}
	return page.Duration(max(now.Sub(d.At), 0)) + " ago"
}
