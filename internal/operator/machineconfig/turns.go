package machineconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// turns gives hosts their turn for a reboot, says for what others wait, and removes
// wishes that were carried out. Each write holds only for the node that was read:
// somebody may have taken the wish back, or wants another one.
func (r *Reconciler) turns(ctx context.Context, g *gathered, steps []rollout.WishStep) error {
	for _, s := range steps {
		n := g.nodes[s.Host]
		values, reason, note := turn(n, s, g.site.Now)
		if len(values) == 0 {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": values}})
		if err != nil {
			return err
		}
		if err := r.Client.Patch(ctx, n.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("write what becomes of the reboot of %s: %w", s.Host, err)
		}
		if reason != "" {
			r.event(ctx, n, corev1.EventTypeNormal, reason, note)
		}
	}
	return nil
}

// turn returns what changes in the annotations of a node, and its event.
func turn(n *corev1.Node, s rollout.WishStep, now time.Time) (values map[string]*string, reason, note string) {
	values = map[string]*string{}
	remove := func(names ...string) {
		for _, name := range names {
			if _, has := n.Annotations[name]; has {
				values[name] = nil
			}
		}
	}
	wish := rollout.WishOf(n.Annotations)
	switch {
	case s.Over && wish.Done:
		remove(rollout.RebootWanted, rollout.RebootReason, rollout.RebootGiven, rollout.RebootWaits)
		return values, "RebootDone", "the host has booted since somebody wanted that at " + wish.Wanted + ", and is ready"
	case s.Over:
		remove(rollout.RebootReason, rollout.RebootGiven, rollout.RebootWaits)
		return values, "RebootTakenBack", "nobody wants a reboot of the host any more"
	case s.Give:
		remove(rollout.RebootWaits)
		values[rollout.RebootGiven] = new(rollout.About(wish.Wanted, now.UTC().Format(time.RFC3339)))
		return values, "RebootGiven", "the host boots, once its pods have moved"
	}
	remove(rollout.RebootGiven)
	if waits := rollout.About(wish.Wanted, s.Waits); n.Annotations[rollout.RebootWaits] != waits {
		values[rollout.RebootWaits] = &waits
	}
	return values, "", ""
}
