package status

import (
	"cmp"
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// announcements are the annotations that tell a plan to all hosts: of the Infrastructure object with
// the plan, of Nodes with what their hosts say of it.
var announcements = []struct{ annotation, does, command, page string }{
	{kube.ReaddressAnnotation, "moves the site to other addresses", "holdfast site readdress show", "docs/runbook/readdress.md"},
	{kube.DualStackAnnotation, "gives the site a second address family", "holdfast site dual-stack status", "docs/runbook/dual-stack.md"},
}

// announcement is what the plans of both annotations have in common, word what hosts say of either.
type (
	announcement struct {
		ID, By string
		At     time.Time
	}
	word struct {
		Plan, Words, Problem, Lacks, Way string
		Over                             bool
		Stage                            dualstack.Stage
	}
)

// lock reads which plan holds the lock of all plans.
func (a *API) lock(ctx context.Context, t *answers) error {
	var cm corev1.ConfigMap
	err := a.Reader.Get(ctx, client.ObjectKey{Namespace: replace.LockNamespace, Name: replace.LockName}, &cm)
	switch {
	case apierrors.IsForbidden(err): // the account of a worker or of the dashboard: who holds the lock stays unknown
		return nil
	case err != nil && !absent(err):
		return fmt.Errorf("read the lock of all plans: %w", err)
	}
	h := replace.HolderOf(cm.Data)
	p := standing.Plan{ID: h.ID, Words: h.Words, Since: cm.CreationTimestamp.Time, Command: h.Command, On: h.On, Page: h.Page}
	t.with(func(f *standing.Facts) { f.Lock = standing.Know(p, saidAPI, t.now) })
	return nil
}

// announced returns the plans that the Infrastructure object announces.
func announced(infra *configv1.Infrastructure) []standing.Plan {
	out := []standing.Plan{}
	for _, a := range announcements {
		text := infra.Annotations[a.annotation]
		if text == "" {
			continue
		}
		p := standing.Plan{ID: a.annotation, Command: a.command, Page: a.page}
		if is := state.ParseAnnotation[announcement](text).Value; is.ID != "" {
			p.ID, p.Since, p.Words = is.ID, is.At, fmt.Sprintf("the plan %s of %s %s", is.ID, is.By, a.does)
		} else {
			p.Words = fmt.Sprintf("a plan %s (annotation %s of the Infrastructure object cannot be read)", a.does, a.annotation)
		}
		out = append(out, p)
	}
	return out
}

// plansOf returns what a Node says of plans in which its host has a part.
func plansOf(n *corev1.Node) []standing.PlanSaid {
	out := []standing.PlanSaid{}
	for _, a := range announcements {
		said := state.ParseAnnotation[word](n.Annotations[a.annotation])
		if is := said.Value; said.Known {
			out = append(out, standing.PlanSaid{
				Plan: is.Plan, Words: is.Words, Problem: cmp.Or(is.Problem, is.Lacks), Way: is.Way, Over: is.Over || is.Stage == dualstack.Over,
			})
		}
	}
	return out
}
