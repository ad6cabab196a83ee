package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// rebootFlags holds the flags of `host reboot`.
type rebootFlags struct {
	hostFlags
	timeout                time.Duration
	reason                 string
	noWait, dryRun, cancel bool
	inWindow               bool
}

func newHostReboot(streams Streams) *cobra.Command {
	f := rebootFlags{timeout: time.Hour}
	cmd := &cobra.Command{
		Use:   "reboot NAME",
		Short: "Boot a host in its turn, with its pods on other hosts",
		Long: `Wants a reboot of the host, and follows it. The host gets its turn where it would get a
new configuration: one host at a time, a control plane only while the cluster carries on
without it, no host of a paused pool. Then its pods move, it boots itself, and takes pods
again once it is ready. Its configuration goes first, and a boot for that serves both.
With --in-window it waits for the maintenance window of its pool first.

Interrupting the command leaves the wish; --cancel takes it back, which counts until the
host boots. A drain ends neither by time nor by force. While a pod is in the way, run the
command again to wait on; take the wish back; or delete the pod, whatever its budget says, by
'kubectl delete pod --namespace NAMESPACE POD'.

Exit codes: 0 the host has booted and is ready (with --dry-run: it would boot now, and
nobody would be in the way); 3 it waited for something at the timeout (with --dry-run: it
would wait, or somebody would be in the way); 4 it was on its way at the timeout; 1 it
failed, or somebody took the wish back; 2 wrong usage.`,
		Example: `  holdfast host reboot cp-2 --dry-run
  holdfast host reboot cp-2 --reason 'new kernel'
  holdfast host reboot cp-2 --no-wait
  holdfast host reboot cp-2 --cancel`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open(cmd.Context(), f.mistakes())
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, streams, args[0])
		},
	}
	f.register(cmd)
	f.completeHosts(cmd)
	timeoutFlag(cmd, &f.timeout)
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people who look at the host")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait until the host has booted")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "change nothing; say whether the host would boot now, and which pods would move")
	f.windowFlags(cmd)
	return cmd
}

// windowFlags registers what reboots and updates have in common.
func (f *rebootFlags) windowFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.inWindow, "in-window", false, "wait for the maintenance window of the host's pool")
	cmd.Flags().BoolVar(&f.cancel, "cancel", false, "take the wish back")
}

func (f rebootFlags) mistakes() error {
	var both error
	if f.cancel && (f.dryRun || f.noWait || f.inWindow || f.reason != "") {
		both = errors.New("--cancel: cannot be combined with --dry-run, --in-window, --no-wait or --reason")
	}
	return errors.Join(both, positive(f.timeout))
}

func (f rebootFlags) run(ctx context.Context, c client.Client, streams Streams, name string) error {
	switch {
	case f.dryRun:
		return f.dry(ctx, c, streams.Out, name, rollout.Wish{})
	case f.cancel:
		return cancelWish(ctx, c, streams, f.output, name, rollout.Wish{}, "a reboot")
	}
	wish, err := wantWish(ctx, c, name, rollout.Wish{}, rollout.Ask(time.Now(), f.inWindow, ""), f.reason)
	if err != nil {
		return err
	}
	if f.noWait {
		return asked{Host: name, Wish: wish}.print(streams, f.output, fmt.Sprintf("the reboot of %s is wanted; to follow it: holdfast host show %[1]s", name))
	}
	n, err := follow{c, streams.Err, f.timeout, "holdfast host reboot " + name + " --cancel"}.until(ctx, name, hasBooted(wish))
	if err != nil {
		return err
	}
	return reportHost(n).print(streams.Out, f.output)
}

// wantWish writes a wish of a kind, and returns it. One that is open already is
// followed.
func wantWish(ctx context.Context, c client.Client, name string, kind rollout.Wish, wanted, reason string) (wish string, err error) {
	names := kind.Names()
	err = changeNode(ctx, c, name, func(n *corev1.Node) error {
		if open := rollout.WishOfKind(n.Annotations, kind.Patch); open.Open() {
			wish = open.Wanted
			return nil
		}
		wish = wanted
		values := map[string]*string{names.Wanted: &wish}
		if reason = strings.TrimSpace(reason); reason != "" {
			values[names.Reason] = &reason
		}
		return annotate(ctx, c, n, values, false)
	})
	return wish, err
}

// hasBooted reports whether a wish was carried out and the host takes pods again, as
// far as nobody else wants it to be empty.
func hasBooted(wish string) func(*corev1.Node) (bool, error) {
	return func(n *corev1.Node) (bool, error) {
		a := n.Annotations
		done := a[rollout.RebootDone] == wish
		if !done && a[rollout.RebootWanted] != wish {
			return false, fmt.Errorf("somebody took the wish back, and %s does not boot", n.Name)
		}
		_, ours := a[drain.CordonedBy]
		return done && (!ours || a[drain.Wanted] != ""), nil
	}
}

// cancelWish takes a wish of a kind back.
func cancelWish(ctx context.Context, c client.Client, streams Streams, format, name string, kind rollout.Wish, what string) error {
	names := kind.Names()
	err := changeNode(ctx, c, name, func(n *corev1.Node) error {
		if n.Annotations[names.Wanted] == "" {
			return coded(command.ExitFailed, "nobody wants %s of %s", what, name)
		}
		return annotate(ctx, c, n, map[string]*string{names.Wanted: nil, names.Reason: nil}, false)
	})
	if err != nil {
		return err
	}
	n, err := hostNode(ctx, c, name)
	if err != nil {
		return err
	}
	return reportHost(n).print(streams.Out, format)
}
