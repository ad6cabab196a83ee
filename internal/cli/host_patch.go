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

// patchFlags holds the flags of `host patch`.
type patchFlags struct {
	rebootFlags
	noReboot, held bool
}

// how is what a wish says beside its time.
func (f patchFlags) how() string {
	switch {
	case f.noReboot:
		return rollout.NoReboot
	case f.held:
		return rollout.HeldToo
	default:
		return ""
	}
}

func newHostPatch(streams Streams) *cobra.Command {
	f := patchFlags{rebootFlags: rebootFlags{timeout: 3 * time.Hour}}
	cmd := &cobra.Command{
		Use:   "patch NAME",
		Short: "Install the updates of a host's distribution in its turn, and boot it if they need that",
		Long: `Wants the updates that the host's distribution has, and follows that. The host gets its
turn as for a reboot. It fetches the updates with apt-get or dnf while its pods still run;
if that fails nothing was changed. Then its pods move, the updates are installed, the host
boots itself if its distribution wants that, and takes pods again once it is ready.

No package is removed, and files of the configuration that somebody has changed stay. What
the release brings, and on two control planes what etcd runs on (Corosync, Pacemaker,
podman, runc), is left out and named. The result stands at the node until the next patch.

With --held, what etcd runs on is updated too: everything else first, and these packages while
the host boots, before Corosync and Pacemaker start, as etcd has left in order then and the
other host serves. Another release of Pacemaker, another major release of Corosync, and podman
5.8 over an earlier one are refused before anything changes. Do the other host right after.

Interrupting the command leaves the wish; --cancel takes it back. What the package manager
has begun it ends all the same.

Exit codes: 0 the updates are installed, or there are none (with --dry-run: the host would
get its turn now, and nobody would be in the way); 3 it waited for something at the timeout
(with --dry-run: it would wait, or somebody would be in the way); 4 it was on its way at
the timeout; 1 it failed, or somebody took the wish back; 2 wrong usage.`,
		Example: `  holdfast host patch cp-2 --dry-run
  holdfast host patch cp-2
  holdfast host patch worker-1 --no-reboot
  holdfast host patch cp-2 --held
  holdfast host patch cp-2 --cancel`,
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
	cmd.Flags().BoolVar(&f.noReboot, "no-reboot", false, "do not boot the host, also if its distribution wants that")
	cmd.Flags().BoolVar(&f.held, "held", false, "on one of two control planes update what etcd runs on too, while the host boots")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait until the updates are installed")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "change nothing; say whether the host would get its turn now, and which pods would move")
	f.windowFlags(cmd)
	return cmd
}

func (f patchFlags) mistakes() error {
	var both error
	if f.cancel && f.noReboot {
		both = errors.New("--cancel: cannot be combined with --no-reboot")
	}
	if f.held && (f.cancel || f.noReboot) {
		both = errors.Join(both, errors.New("--held: cannot be combined with --cancel or --no-reboot: what etcd runs on changes while the host boots"))
	}
	return errors.Join(both, f.rebootFlags.mistakes())
}

func (f patchFlags) run(ctx context.Context, c client.Client, streams Streams, name string) error {
	kind := rollout.Wish{Patch: true}
	switch {
	case f.dryRun:
		return f.dry(ctx, c, streams.Out, name, kind)
	case f.cancel:
		return cancelWish(ctx, c, streams, f.output, name, kind, "updates")
	}
	wish, err := wantWish(ctx, c, name, kind, rollout.Ask(time.Now(), f.inWindow, f.how()), f.reason)
	if err != nil {
		return err
	}
	if f.noReboot && !strings.HasSuffix(wish, rollout.NoReboot) {
		_, _ = fmt.Fprintf(streams.Err, "%s is followed, which somebody wants already: it boots if the updates need that\n", name)
	}
	if f.held && !strings.HasSuffix(wish, rollout.HeldToo) {
		_, _ = fmt.Fprintf(streams.Err, "%s is followed, which somebody wants already without --held: what etcd runs on is left out; to begin anew: holdfast host patch %s --cancel\n", name, name)
	}
	if f.noWait {
		return asked{Host: name, Wish: wish}.print(streams, f.output, fmt.Sprintf("updates of %s are wanted; to follow them: holdfast host show %[1]s", name))
	}
	n, err := follow{c, streams.Err, f.timeout, "holdfast host patch " + name + " --cancel"}.until(ctx, name, isPatched(wish))
	if err != nil {
		return err
	}
	return reportHost(n).print(streams.Out, f.output)
}

// isPatched reports whether updates are over and the host takes pods again, as far as
// nobody else wants it to be empty. Updates that failed are an error.
func isPatched(wish string) func(*corev1.Node) (bool, error) {
	return func(n *corev1.Node) (bool, error) {
		a := n.Annotations
		done := a[rollout.PatchDone] == wish
		if !done && a[rollout.PatchWanted] != wish {
			return false, fmt.Errorf("somebody took the wish back, and %s gets no updates", n.Name)
		}
		if why, failed := strings.CutPrefix(a[rollout.PatchResult], wish+" failed: "); done && failed {
			return false, coded(command.ExitFailed, "the updates of %s: %s", n.Name, why)
		}
		_, ours := a[drain.CordonedBy]
		return done && (!ours || a[drain.Wanted] != ""), nil
	}
}
