package machineconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// turns gives hosts their turn for a reboot or updates, says for what others wait, and removes
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
		written := n.DeepCopy()
		if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("write what becomes of the wish for %s: %w", s.Host, err)
		}
		g.nodes[s.Host] = written // a host may have two wishes
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
	wish := rollout.WishOfKind(n.Annotations, s.Patch)
	names := wish.Names()
	what := turnWords[wish.Patch]
	switch {
	case s.Wish != "":
		values[rollout.RebootWanted], values[rollout.RebootReason] = new(rollout.Ask(now, true, "")), new(rollout.ByDistribution+s.Wish)
		values[rollout.RequiredWished] = &s.Wish
		return values, "RebootWanted", "the host is to boot in its turn, because its distribution wants that: " + s.Wish
	case s.Remains != "":
		values[rollout.RequiredWished] = &s.Remains
		return values, "", ""
	case s.Forget:
		remove(rollout.RequiredWished)
		return values, "", ""
	case s.Over && wish.Done:
		remove(names.Wanted, names.Reason, names.Given, names.Waits)
		done := what.done + wish.Wanted
		if result := n.Annotations[rollout.PatchResult]; wish.Patch && result != "" {
			done = strings.TrimPrefix(result, wish.Wanted+" ")
		}
		return values, what.reason + "Done", done
	case s.Over:
		remove(names.Reason, names.Given, names.Waits)
		return values, what.reason + "TakenBack", what.back
	case s.Give:
		remove(names.Waits)
		values[names.Given] = new(rollout.About(wish.Wanted, now.UTC().Format(time.RFC3339)))
		return values, what.reason + "Given", what.given
	}
	remove(names.Given)
	if waits := rollout.About(wish.Wanted, s.Waits); n.Annotations[names.Waits] != waits {
		values[names.Waits] = &waits
	}
	return values, "", ""
}

// turnWords are those of events, by whether a wish is for updates.
var turnWords = map[bool]struct{ reason, done, back, given string }{
	false: {"Reboot", "the host has booted and is ready, as somebody wanted at ", "nobody wants a reboot of the host any more", "the host boots, once its pods have moved"},
	true:  {"Patch", "the updates are over that somebody wanted at ", "nobody wants updates of the host any more", "the host fetches the updates of its distribution, and installs them once its pods have moved"},
}
