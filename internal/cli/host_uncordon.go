package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
)

func newHostUncordon(streams Streams) *cobra.Command {
	var f hostFlags
	timeout := time.Minute
	cmd := &cobra.Command{
		Use:   "uncordon NAME",
		Short: "Let a host take pods again",
		Long: `Takes the wish of 'holdfast host drain' back, and a cordon that a person made with
kubectl. It refuses while the host itself is to be empty for a configuration or a reboot:
the host would be cordoned again at once. Pods do not move back by themselves.

Exit codes: 0 the host takes pods; 4 it did not yet at the timeout; 7 refused; 1 it
failed; 2 wrong usage.`,
		Example: `  holdfast host uncordon worker-1`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open(cmd.Context(), positive(timeout))
			if err != nil {
				return err
			}
			name := args[0]
			if err := uncordon(cmd.Context(), c, name); err != nil {
				return err
			}
			follow := follow{c, streams.Err, timeout, "holdfast host drain " + name}
			n, err := follow.until(cmd.Context(), name, func(n *corev1.Node) (bool, error) { return !n.Spec.Unschedulable, nil })
			if err != nil {
				return err
			}
			return reportHost(n).print(streams.Out, f.output)
		},
	}
	f.register(cmd)
	f.completeHosts(cmd)
	timeoutFlag(cmd, &timeout)
	return cmd
}

// uncordon takes the wish of an administrator back, and the cordon of a person. The
// operator takes its own away.
func uncordon(ctx context.Context, c client.Client, name string) error {
	return changeNode(ctx, c, name, func(n *corev1.Node) error {
		a := n.Annotations
		if drain.Empties(a[drain.Desired]) {
			return coded(command.ExitRefused, "refused, nothing was changed: %s itself is to be empty (%s); see: holdfast host show %s. A wanted reboot is taken back by: holdfast host reboot %s --cancel",
				name, a[drain.Desired], name, name)
		}
		_, ours := a[drain.CordonedBy]
		values := map[string]*string{}
		if a[drain.Wanted] != "" {
			values[drain.Wanted] = nil
		}
		if len(values) == 0 && !n.Spec.Unschedulable {
			return nil
		}
		return annotate(ctx, c, n, values, n.Spec.Unschedulable && !ours)
	})
}
