package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

func newHostList(streams Streams) *cobra.Command {
	var f hostFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show what each host does now, and for what it waits",
		Long: `Shows each host, whether it is ready and takes pods, what it does now and for what it
waits. It changes nothing.

Exit codes: 0 every host is ready and takes pods; 3 one does not, or has work to do;
1 it failed; 2 wrong usage.`,
		Example: `  holdfast host list
  holdfast host list -o wide
  holdfast host list -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			return listHosts(cmd.Context(), c, streams.Out, f.output)
		},
	}
	f.register(cmd)
	return cmd
}

func listHosts(ctx context.Context, c client.Reader, out io.Writer, format string) error {
	nodes, err := hostNodes(ctx, c)
	if err != nil {
		return err
	}
	list := hostList{Hosts: []hostReport{}}
	for i := range nodes {
		list.Hosts = append(list.Hosts, reportHost(&nodes[i]))
	}
	return list.print(out, format)
}

// hostList is what `host list` prints.
type hostList struct {
	Hosts []hostReport `json:"hosts"`
}

// hostReport is what is told of one host.
type hostReport struct {
	Name  string `json:"name"`
	Roles string `json:"roles,omitempty"`
	Ready bool   `json:"ready"`
	// TakesPods is false while the host is cordoned.
	TakesPods bool   `json:"takesPods"`
	Does      string `json:"does,omitempty"`
	Waits     string `json:"waits,omitempty"`
	// RebootWanted is an open wish for a reboot, and RebootReason why. RebootDone is
	// the last one that was carried out.
	RebootWanted string `json:"rebootWanted,omitempty"`
	RebootReason string `json:"rebootReason,omitempty"`
	RebootDone   string `json:"rebootDone,omitempty"`
	// PatchWanted is an open wish for updates, and PatchResult what became of the last
	// one that was carried out.
	PatchWanted string `json:"patchWanted,omitempty"`
	PatchReason string `json:"patchReason,omitempty"`
	PatchResult string `json:"patchResult,omitempty"`
	// RebootRequired says whether the distribution wants a reboot, and why: Yes, No or
	// Unknown.
	RebootRequired string `json:"rebootRequired,omitempty"`
	// DrainWanted is since when an administrator wants the host to be empty.
	DrainWanted string `json:"drainWanted,omitempty"`
	// CordonedFor is for what the operator cordoned it.
	CordonedFor   string `json:"cordonedFor,omitempty"`
	Configuration string `json:"configuration,omitempty"`
}

func reportHost(n *corev1.Node) hostReport {
	h, doing, a := rollout.HostOf(n), rollout.Doing(n), n.Annotations
	r := hostReport{
		Name: n.Name, Roles: roles(n), Ready: h.Ready, TakesPods: !h.Unschedulable, Does: doing.Does, Waits: doing.Waits, RebootDone: a[rollout.RebootDone],
		DrainWanted: a[drain.Wanted], CordonedFor: a[drain.CordonedBy], Configuration: a[rollout.CurrentConfig],
	}
	r.PatchResult, r.RebootRequired = a[rollout.PatchResult], a[rollout.RebootRequired]
	for _, w := range rollout.WishesOf(a) {
		switch {
		case !w.Open():
		case w.Patch:
			r.PatchWanted, r.PatchReason = w.Wanted, a[rollout.PatchReason]
		default:
			r.RebootWanted, r.RebootReason = w.Wanted, a[rollout.RebootReason]
		}
	}
	return r
}

// quiet reports whether a host takes pods and has nothing to do.
func (r hostReport) quiet() bool { return r.Ready && r.TakesPods && r.Does == "" }

func (l hostList) print(out io.Writer, format string) error {
	if err := l.write(out, format); err != nil {
		return err
	}
	for _, h := range l.Hosts {
		if !h.quiet() {
			return exitWith(command.ExitAttention)
		}
	}
	return nil
}

func (l hostList) write(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, l)
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	head := []string{"HOST", "ROLES", "READY", "TAKES PODS", "DOES"}
	if format == "wide" {
		head = append(head, "LAST REBOOT WANTED", "REBOOT REQUIRED", "CONFIGURATION")
	}
	_, _ = fmt.Fprintln(w, strings.Join(append(head, "WAITS FOR"), "\t"))
	for _, h := range l.Hosts {
		row := []string{h.Name, orDash(h.Roles), yesNo(h.Ready), yesNo(h.TakesPods), orDash(h.Does)}
		if format == "wide" {
			row = append(row, orDash(h.RebootDone), orDash(h.RebootRequired), orDash(h.Configuration))
		}
		_, _ = fmt.Fprintln(w, strings.Join(append(row, orDash(h.Waits)), "\t"))
	}
	return w.Flush()
}
