package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/resolver"
	"github.com/holdfast/holdfast/internal/agent/wipe"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/wiping"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/ownplace"
)

// wipeFlags holds the flags of wipe.
type wipeFlags struct {
	disks               []string
	isRemoved, output   string
	giveUp, dryRun, yes bool
}

func newWipe(streams command.Streams) *cobra.Command {
	var f wipeFlags
	cmd := &cobra.Command{
		Use:   "wipe",
		Short: "Take Holdfast and Kubernetes off this host, so that it can be installed again",
		Long: `Stops the units of Holdfast and Kubernetes on this host, and deletes their files, the data
of pods, containers and etcd, the pod network and its tables. It shows everything that it
finds before it asks. Packages, programs of the release, accounts and disks stay; a disk
goes too if --disk names it and nothing uses it.

It refuses while the cluster counts on this host: remove the host first, from another one,
with 'holdfast host remove'. Where the cluster cannot be asked, state with --is-removed NAME
that the host was removed. --give-up-cluster wipes a host whose whole cluster is given up,
with all its data; stop the other hosts first.

If a wipe was cut off, run the same command again: it goes on, and asks nothing. It asks
again if it failed or was interrupted before it ended the agent of this host, or if the
agent runs again after a boot: the host lives on then. Boot the host afterwards: some
rules of the kernel end only then.

Exit codes: 0 the host is wiped; 7 refused, nothing was changed; 8 not confirmed, nothing
was changed; 1 it failed, and can be run again; 2 wrong usage.`,
		Example: `  sudo holdfast-agent wipe --dry-run
  sudo holdfast-agent wipe
  sudo holdfast-agent wipe --yes --disk /dev/disk/by-id/ata-QEMU_HARDDISK_QM00002`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("wipe changes this host: run it as root")}
			}
			return runWipe(cmd.Context(), streams, f)
		},
	}
	command.OutputFlag(cmd, &f.output)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.disks, "disk", nil, "wipe this disk too, named below /dev/disk/by-id; may be repeated")
	flags.StringVar(&f.isRemoved, "is-removed", "", "state that this host was removed from a cluster that cannot be asked: its name")
	flags.BoolVar(&f.giveUp, "give-up-cluster", false, "state that the whole cluster is given up, with all its data")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would be deleted and what stays, and change nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask for the name of the host")
	return cmd
}

// wipeReport lists what a wipe finds on the host.
type wipeReport struct {
	Host    string   `json:"host"`
	Deletes []string `json:"deletes"`
	Disks   []string `json:"disks,omitempty"`
	Stays   []string `json:"stays"`
	Refused []string `json:"refused,omitempty"`
	Wiped   bool     `json:"wiped"`
}

func runWipe(ctx context.Context, streams command.Streams, f wipeFlags) error {
	name, err := host.Name()
	if err != nil {
		return err
	}
	mistakes := wiping.Disks(f.disks)
	if f.isRemoved != "" && f.isRemoved != name {
		mistakes = append(mistakes, fmt.Errorf("--is-removed %s: must be the name of this host, %s", f.isRemoved, name))
	}
	if err := errors.Join(mistakes...); err != nil {
		return &command.UsageError{Err: err}
	}
	facts := wipeFacts(ctx, name)
	facts.GiveUp, facts.Removed = f.giveUp, f.isRemoved == name
	w := wiper(streams, f.disks)
	report, err := findings(name, w, facts)
	if err != nil {
		return err
	}
	if f.dryRun {
		err = report.print(streams.Out, f.output)
	}
	if len(report.Refused) > 0 {
		return errors.Join(err, &command.Coded{Code: command.ExitRefused, Err: fmt.Errorf("refused, nothing was changed:\n  %s", strings.Join(report.Refused, "\n  "))})
	}
	if f.dryRun || err != nil {
		return err
	}
	if !f.yes && !facts.Begun {
		if err := confirmWipe(ctx, streams, name, report); err != nil {
			return err
		}
	}
	boot, _, err := observe.Boot()
	if err != nil {
		return err
	}
	if err := w.Begin(ctx, wipe.Journal{Host: name, By: os.Getenv("SUDO_USER"), At: time.Now().UTC(), Boot: boot}); err != nil {
		return err
	}
	if err := w.Wipe(ctx); err != nil {
		return err
	}
	report.Wiped = true
	return report.print(streams.Out, f.output)
}

func findings(name string, w *wipe.Wiper, facts wiping.Facts) (wipeReport, error) {
	found, err := w.Finds()
	r := wipeReport{Host: name, Deletes: append([]string{}, found...), Disks: w.Disks, Stays: w.Inventory.Stays}
	for _, g := range wiping.Gates(facts) {
		r.Refused = append(r.Refused, g.String())
	}
	return r, err
}

// confirmWipe asks for the name of the host.
func confirmWipe(ctx context.Context, streams command.Streams, name string, r wipeReport) error {
	return command.Agreed(ctx, streams, r.text()+"To delete all that, type the name of this host: ", name)
}

func (r wipeReport) print(out io.Writer, format string) error {
	if format == "json" {
		return command.PrintJSON(out, r)
	}
	text := r.text()
	if r.Wiped {
		text = r.Host + " is wiped: boot it, then it can be installed again\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

func (r wipeReport) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "the wipe deletes these on %s, and stops the units, pods and interfaces of Kubernetes:\n", r.Host)
	for _, p := range r.Deletes {
		out.WriteString("  " + p + "\n")
	}
	for _, d := range r.Disks {
		out.WriteString("  all of disk " + d + "\n")
	}
	out.WriteString("these stay:\n")
	for _, s := range r.Stays {
		out.WriteString("  " + s + "\n")
	}
	return out.String()
}

// wiper returns the Wiper of this host. It reads the site before the wipe deletes it.
func wiper(streams command.Streams, disks []string) *wipe.Wiper {
	w := &wipe.Wiper{
		Root: "/", Inventory: wiping.All(), Disks: disks, Run: host.Local, Mounts: wipe.Mounts, Unmount: wipe.Unmount, Sync: host.SyncFilesystem,
		Resolver: func(ctx context.Context) error {
			_, err := resolver.New(resolver.Options{Root: "/"}).Remove(ctx)
			return err
		},
		Say: func(format string, args ...any) { _, _ = fmt.Fprintf(streams.Err, format+"\n", args...) },
	}
	if s, err := readSite(); err == nil {
		w.VIPs = s.VIPs()
	}
	return w
}

// wipeFacts looks at this host, and asks its cluster about it.
func wipeFacts(ctx context.Context, name string) wiping.Facts {
	f := wiping.Facts{Host: name, Begun: wipe.Begun("/"), Site: host.Exists(site.Path) || host.Exists(state.KubeletKubeconfig), Data: host.Exists(state.EtcdDataDir + "/member")}
	if s, err := readSite(); err == nil {
		f.ControlPlane = s.Role.ControlPlane()
	}
	if f.Begun || !f.Site {
		return f
	}
	api, err := wipeAPI()
	if err != nil {
		f.Why = err.Error()
		return f
	}
	n, err := api.Node(ctx, name)
	if err != nil {
		f.Why = err.Error()
		return f
	}
	machine := ownplace.Machine()
	f.Node = state.Known(nodeStanding(n, machine))
	if list, err := api.Retired(ctx, name); err == nil { // else the Node alone counts
		board, _, _ := fence.OwnIdentity() // without one the machine id alone counts
		f.Retired = takenOut(list, n, name, machine, board)
	}
	return f
}

// wipeAPI opens this host's cluster.
func wipeAPI() (*kube.Client, error) {
	s, err := readSite()
	if err != nil {
		s = nil
	}
	return ownplace.API(s)
}

// nodeStanding says how the cluster knows the host. A Node of its name on another machine
// belongs to another host.
func nodeStanding(n *corev1.Node, machine string) wiping.Node {
	switch {
	case n == nil, another(n, machine):
		return wiping.Gone
	case kube.NodeOf(n).Ready:
		return wiping.Ready
	}
	return wiping.NotReady
}

func another(n *corev1.Node, machine string) bool {
	says := n.Status.NodeInfo.MachineID
	return says != "" && machine != "" && says != machine
}

// takenOut says who took this machine out, by the cluster's list; empty if nobody did. While
// the Node is this machine's, its removal has not ended, or the host was added again. board is the
// UUID of this machine's board: a replacement of one of two knows no more of a host whose Node was
// deleted before, nor does a plan for a third one that was taken back before it had a Node. Where the machine id is known, the board does not count: another installation on it
// may be a member again.
func takenOut(list retired.List, n *corev1.Node, name, machine, board string) string {
	h, listed := list.Of(name)
	own := machine != "" && h.Machine == machine || h.Machine == "" && board != "" && strings.EqualFold(h.System, board)
	switch {
	case !listed || !own:
		return ""
	case n == nil && h.Open(), n != nil && another(n, machine):
		return h.String()
	}
	return ""
}
