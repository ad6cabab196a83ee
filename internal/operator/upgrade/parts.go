package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/workload"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// containerName is the name of the operator's container in its pod.
const containerName = "operator"

// brought reads what the cluster says of its parts, and the operator's own Deployment.
func (r *Reconciler) brought(ctx context.Context, g *gathered) error {
	var cm corev1.ConfigMap
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: parts.MarkNamespace, Name: parts.MarkName}, &cm)
	if client.IgnoreNotFound(err) != nil && !unreadable(err) {
		return fmt.Errorf("read what was brought to the cluster: %w", err)
	}
	if mark, wrong := parts.ReadMark(cm.Data); wrong == nil && client.IgnoreNotFound(err) == nil {
		g.works.mark = state.Known(mark)
	}
	d := &appsv1.Deployment{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: render.Namespace, Name: render.Name}, d)
	if apierrors.IsNotFound(err) || unreadable(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the operator's Deployment: %w", err)
	}
	g.works.operator = d
	return nil
}

// image returns the name of the operator's image in a release; empty if the release is
// not known.
func image(r gate.Release) string {
	if r.Digest == "" {
		return ""
	}
	return payload.Registry + "/" + render.Image + ":v" + r.Version.String()
}

// partsOf returns the parts of the cluster with the release of each, while an upgrade is
// under way.
func partsOf(w works, seen survey.Seen, v survey.Survey) []cluster.Part {
	if !v.Site.Record.Started {
		return nil
	}
	var out []cluster.Part
	for _, name := range parts.Order() {
		p := cluster.Part{Name: name}
		if w.mark.Known {
			p.Release = w.mark.Value.Release(name, v.Site.Record.From)
		}
		starts := ""
		if name == parts.Operator {
			starts = starting(w.operator)
			// Until all parts have settled its host brings it as long as it does not run.
			if !isOf(w.operator, image(v.Releases[p.Release.Value])) || starts != "" && !v.Site.Record.Settled {
				p.Release, starts = state.Fact[string]{}, ""
			}
		}
		if p.Pending = w.Pending(name, v.Releases[p.Release.Value]); starts != "" && p.Pending.Value == "" {
			p.Pending = state.Known(starts)
		}
		p.Undone = undone(seen, annotation.Part{Upgrade: v.Site.Record.Upgrade, Release: v.Site.Record.To, Part: name})
		p.Stuck = undone(seen, annotation.Part{Upgrade: v.Site.Record.Upgrade, Release: v.Site.Record.From, Part: name})
		out = append(out, p)
	}
	return out
}

// undone is why a host has set a part back that it was told to bring, as long as it is told
// so; empty if none has.
func undone(seen survey.Seen, part annotation.Part) string {
	for i := range seen.Nodes {
		wish, err := annotation.Decode[annotation.Part](seen.Nodes[i].Annotations[annotation.PartOf])
		if err != nil || wish.Upgrade != part.Upgrade || wish.Release != part.Release || wish.Part != part.Part {
			continue
		}
		if said, err := annotation.Decode[annotation.Host](seen.Nodes[i].Annotations[annotation.HostOf]); err == nil && said.PartUndone {
			return said.PartFailed
		}
	}
	return ""
}

// isOf reports whether pods of the operator's Deployment are to have an image.
func isOf(d *appsv1.Deployment, image string) bool {
	return d != nil && image != "" && operatorImage(d) == image
}

// starting says which of the operator's pods do not run; empty if all do.
func starting(d *appsv1.Deployment) string {
	if d == nil || workload.OfDeployment(d).RolledOut() {
		return ""
	}
	own := parts.Workload{Pods: workload.OfDeployment(d)}
	return cmp.Or(own.Moving("the operator"), own.Unavailable("the operator"), "the operator: not all of its pods are of the present version")
}

func operatorImage(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == containerName {
			return c.Image
		}
	}
	return ""
}

// bring tells one control plane which part it has to bring, and all others that they have
// none: two must not bring parts at once.
func (r *Reconciler) bring(ctx context.Context, g *gathered, next cluster.Step) error {
	at := g.brings(next)
	text := ""
	if at != "" {
		var err error
		if text, err = annotation.Encode(annotation.Part{Upgrade: g.book.record.Upgrade, Release: next.Release, Part: next.Part, Back: next.Release == g.book.record.From}); err != nil {
			return err
		}
	}
	nodes := slices.Clone(g.seen.Nodes)
	slices.SortStableFunc(nodes, func(a, b corev1.Node) int {
		switch at { // the others first
		case a.Name:
			return 1
		case b.Name:
			return -1
		}
		return 0
	})
	for i := range nodes {
		n, want := &nodes[i], ""
		if n.Name == at {
			want = text
		}
		gave, err := r.give(ctx, n, map[string]string{annotation.PartOf: want})
		if err != nil {
			return err
		}
		if gave && want != "" {
			r.event(ctx, n, corev1.EventTypeNormal, "UpgradePart", fmt.Sprintf("the host brings %s of %s to the cluster", next.Part, next.Release))
		}
	}
	return nil
}

// brings names the control plane that brings the part of a step, empty if none can or no
// part is brought.
func (g *gathered) brings(next cluster.Step) string {
	if next.Do != cluster.Bring {
		return ""
	}
	now := ""
	for _, n := range g.seen.Nodes {
		if n.Annotations[annotation.PartOf] != "" {
			now = n.Name
		}
	}
	return parts.Choose(g.survey.Facts.Hosts, next.Release, now)
}

// withPart returns a step as people read it: with why its part is not brought. A part that
// failed is tried again, and a person should look.
func (g *gathered) withPart(next cluster.Step) cluster.Step {
	if next.Do != cluster.Bring {
		return next
	}
	at := g.brings(next)
	if at == "" {
		next.Do = cluster.Pause
		next.Why += fmt.Sprintf(": no control plane is ready and has release %s whole", next.Release)
		return next
	}
	i := slices.IndexFunc(g.seen.Nodes, func(n corev1.Node) bool { return n.Name == at && n.Annotations[annotation.PartOf] != "" })
	if i < 0 {
		return next // it is about to be told
	}
	said, err := annotation.Decode[annotation.Host](g.seen.Nodes[i].Annotations[annotation.HostOf])
	if err == nil && said.PartFailed != "" && g.seen.Now.Sub(said.At).Abs() <= survey.Silence {
		next.Do = cluster.Pause
		next.Why += fmt.Sprintf(": %s could not bring it, and tries again: %s", at, said.PartFailed)
	}
	return next
}
