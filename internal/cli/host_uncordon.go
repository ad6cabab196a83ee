package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/decide/removal"
	"github.com/holdfast/holdfast/internal/model/retired"
)

func newHostUncordon(streams Streams) *cobra.Command {
	var f hostFlags
	timeout := time.Minute
	cmd := &cobra.Command{
		Use:   "uncordon NAME",
		Short: "Let a host take pods again",
		Long: `Takes the wish of 'holdfast host drain' back, and a cordon that a person made with
kubectl. While the host itself is to be empty, such as for a configuration, a reboot or updates,
it stays cordoned, since it would be cordoned again at once: the command then says what ends
that. Pods do not move back by themselves.

It takes the removal of a worker back, too, as long as its Node is there: it deletes the entry
about that Node in ConfigMap kube-system/holdfast-retired, and the taint that told Kubernetes
that the host is off. End a 'holdfast host remove' of the host first: one that still runs begins
anew.

Exit codes: 0 the host takes pods; 4 it did not yet at the timeout; 7 refused, or the host
stays cordoned for itself; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast host uncordon worker-1`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open(cmd.Context(), positive(timeout))
			if err != nil {
				return err
			}
			name := args[0]
			if err := keep(cmd.Context(), c, name, streams.Err); err != nil {
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

// keep lets a host take pods again, and takes its removal back if one was begun. The node is written
// before the entry goes: a removal that runs in that moment then finds a host to empty, and not one to
// delete.
func keep(ctx context.Context, c client.Client, name string, say io.Writer) error {
	n, err := hostNode(ctx, c, name)
	if err != nil {
		return err
	}
	list, _, err := entryOf(ctx, c, name)
	if err != nil {
		return err
	}
	entry, shut := removal.Back(list, n)
	if err := refusedBy(shut); err != nil {
		return err
	}
	own, err := uncordon(ctx, c, name)
	if err != nil {
		return err
	}
	if entry == nil {
		return own.stays()
	}
	if err := attach(ctx, c, name); err != nil {
		return err
	}
	if err := dropEntry(ctx, c, *entry); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(say, "the removal of %s was taken back: ConfigMap %s/%s no longer has its entry\n", name, retired.Namespace, retired.ConfigMap)
	own.changed = true
	return own.stays()
}

// entryOf reads the entry of a name in the list of hosts that were taken out, and the version of the list.
// Entries of other names may be damaged.
func entryOf(ctx context.Context, c client.Reader, name string) (retired.List, string, error) {
	var cm corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: retired.Namespace, Name: retired.ConfigMap}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return nil, "", fmt.Errorf("read ConfigMap %s/%s: %w", retired.Namespace, retired.ConfigMap, err)
	}
	value, listed := cm.Data[name]
	if !listed {
		return nil, cm.ResourceVersion, nil
	}
	list, err := retired.Read(map[string]string{name: value})
	return list, cm.ResourceVersion, err
}

// dropEntry removes an entry, if it still is the one that was read.
func dropEntry(ctx context.Context, c client.Client, was retired.Host) error {
	const tries = 5
	var err error
	for range tries {
		list, version, unread := entryOf(ctx, c, was.Name)
		if unread != nil {
			return unread
		}
		h, listed := list.Of(was.Name)
		switch {
		case !listed:
			return nil
		case h.UID != was.UID || !h.When.Equal(was.When) || !h.Open():
			return fmt.Errorf("somebody else wrote the entry of %s in ConfigMap %s/%s meanwhile: type the command again", was.Name, retired.Namespace, retired.ConfigMap)
		}
		patch, wrong := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "data": map[string]any{was.Name: nil}})
		if wrong != nil {
			return wrong
		}
		o := &corev1.ConfigMap{}
		o.Namespace, o.Name = retired.Namespace, retired.ConfigMap
		if err = c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", retired.Namespace, retired.ConfigMap, err)
	}
	return nil
}

// attach takes the taint away by which a removal told Kubernetes that the host is off. One that an agent
// has set after a fence goes by itself.
func attach(ctx context.Context, c client.Client, name string) error {
	return changeNode(ctx, c, name, func(n *corev1.Node) error {
		taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == outofservice.Key })
		if len(taints) == len(n.Spec.Taints) || n.Annotations[outofservice.Annotation] != "" {
			return nil
		}
		return writeNode(ctx, c, n, map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion}, "spec": map[string]any{"taints": taints}})
	})
}

// ownWish is for what a host itself stays cordoned, empty for nothing. changed is true if something
// else was taken back.
type ownWish struct {
	why     string
	changed bool
}

// stays is the end of a command whose host stays cordoned for itself.
func (w ownWish) stays() error {
	switch {
	case w.why == "":
		return nil
	case w.changed:
		return coded(command.ExitRefused, "what an administrator wanted was taken back, and the host stays cordoned: %s", w.why)
	default:
		return coded(command.ExitRefused, "refused, nothing was changed: %s", w.why)
	}
}

// uncordon takes the wish of an administrator back, and the cordon of a person unless the host
// itself is to be empty. The operator takes its own away.
func uncordon(ctx context.Context, c client.Client, name string) (own ownWish, err error) {
	err = changeNode(ctx, c, name, func(n *corev1.Node) error {
		_, ours := n.Annotations[drain.CordonedBy]
		own = ownWish{why: drain.OwnWish(n)}
		persons := n.Spec.Unschedulable && !ours && own.why == ""
		values := map[string]*string{}
		if n.Annotations[drain.Wanted] != "" {
			values[drain.Wanted], own.changed = nil, true
		}
		if len(values) == 0 && !persons {
			return nil
		}
		return annotate(ctx, c, n, values, persons)
	})
	return own, err
}
