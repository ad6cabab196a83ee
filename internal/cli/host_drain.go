package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
)

func newHostDrain(streams Streams) *cobra.Command {
	var f hostFlags
	var dryRun bool
	timeout := time.Hour
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Move the pods of a host to other hosts, and keep new ones away",
		Long: `Has the operator cordon the host and evict its pods, with respect for disruption budgets,
and waits until the host is empty. It says who is in the way. The wish stands until
'holdfast host uncordon', also over reboots. As long as it stands the host counts as one
that is away when others are given their turn. Pods of DaemonSets and of files stay.

A host that is to be empty for itself, such as for a configuration, a reboot or updates, goes
on without this command. It stays empty after that as long as the wish stands; the command
says so.

Interrupting the command leaves the wish. A drain ends neither by time nor by force. While a
pod is in the way, run the command again to wait on; take the wish back by
'holdfast host uncordon NAME'; or delete the pod, whatever its budget says, by
'kubectl delete pod --namespace NAMESPACE POD'.

Exit codes: 0 the host is empty (with --dry-run: nobody would be in the way); 3 somebody
was in the way until the timeout (with --dry-run: would be); 4 the pods still moved at the
timeout; 7 refused, because no other host takes pods, or all others are cordoned; 1 it
failed; 2 wrong usage.`,
		Example: `  holdfast host drain worker-1 --dry-run
  holdfast host drain worker-1
  holdfast host drain worker-1 --timeout 10m
  holdfast host uncordon worker-1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open(cmd.Context(), positive(timeout))
			if err != nil {
				return err
			}
			name := args[0]
			if dryRun {
				return dryEmpty(cmd.Context(), c, streams.Out, f.output, name, time.Now())
			}
			if err := wantEmpty(cmd.Context(), c, name, time.Now(), streams.Err); err != nil {
				return err
			}
			follow := follow{c, streams.Err, timeout, "holdfast host uncordon " + name}
			n, err := follow.until(cmd.Context(), name, isEmpty)
			if err != nil {
				return err
			}
			return reportHost(n).print(streams.Out, f.output)
		},
	}
	f.register(cmd)
	f.completeHosts(cmd)
	timeoutFlag(cmd, &timeout)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing; say which pods would move, and who would be in the way")
	return cmd
}

// wantEmpty writes the wish, unless it stands there already. Of a host that is emptied anyway it says that the
// wish is another one: whoever only wants to wait for that drain would have the host cordoned for good.
func wantEmpty(ctx context.Context, c client.Client, name string, now time.Time, say io.Writer) error {
	var own string
	err := changeNode(ctx, c, name, func(n *corev1.Node) error {
		own = drain.OwnWish(n)
		if n.Annotations[drain.Wanted] != "" {
			return nil
		}
		nodes, err := hostNodes(ctx, c)
		if err != nil {
			return err
		}
		if err := nobodyTakes(name, drain.Foresee(drain.Facts{Now: now, Node: n, Others: otherNodes(nodes, name)})); err != nil {
			return err
		}
		return annotate(ctx, c, n, map[string]*string{drain.Wanted: new(now.UTC().Format(time.RFC3339))}, false)
	})
	if err == nil && own != "" {
		_, _ = fmt.Fprintln(say, besideOwn(name, own))
	}
	return err
}

// besideOwn says what a drain that somebody wants does to a host that itself is to be empty.
func besideOwn(name, own string) string {
	return fmt.Sprintf("%s. That goes on without 'holdfast host drain', whose wish keeps the host empty after it, too, until: holdfast host uncordon %s", own, name)
}

// nobodyTakes is the refusal of a drain whose pods nobody would take; nil if somebody would.
func nobodyTakes(name string, p drain.Preview) error {
	switch {
	case p.Nowhere:
		return coded(command.ExitRefused, "refused, nothing was changed: no other host takes pods, so those of %s would only end. Its reboot needs no drain: holdfast host reboot %s", name, name)
	case p.AllCordoned != "":
		return coded(command.ExitRefused, "refused, nothing was changed: no other host takes pods now, so those of %s would run nowhere: %s", name, p.AllCordoned)
	}
	return nil
}

func otherNodes(nodes []corev1.Node, name string) []corev1.Node {
	var out []corev1.Node
	for _, n := range nodes {
		if n.Name != name {
			out = append(out, n)
		}
	}
	return out
}

// isEmpty reports whether a host is empty as an administrator wants it.
func isEmpty(n *corev1.Node) (bool, error) {
	switch {
	case n.Annotations[drain.Wanted] == "":
		return false, coded(command.ExitFailed, "somebody took the wish back: %s takes pods again", n.Name)
	case drain.HasWanted(n.Annotations) && !n.Spec.Unschedulable:
		return false, coded(command.ExitRefused, "no other host takes pods, so those of %s stay", n.Name)
	default:
		return drain.HasWanted(n.Annotations), nil
	}
}
