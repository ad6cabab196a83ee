package upgrade

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// definitionsAtOnce bounds how many definitions of kinds are in memory at once: each may be
// hundreds of kilobytes.
const definitionsAtOnce = 20

// conversionsLife is how long the list is taken for true while nothing else changes.
const conversionsLife = time.Hour

// conversions lists the webhooks that convert objects between versions of their kind. They
// are read once in a moment of an upgrade: all definitions of a site may be many megabytes.
func (r *Reconciler) conversions(ctx context.Context) (state.Fact[[]survey.Webhook], error) {
	k := &r.kept
	if age := r.Now().Sub(k.convertedAt); age >= 0 && age < conversionsLife {
		return state.Known(k.conversions), nil
	}
	var out []survey.Webhook
	for next := ""; ; {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(definition.GroupVersion().WithKind(definition.Kind + "List"))
		err := r.Live.List(ctx, list, client.Limit(definitionsAtOnce), client.Continue(next))
		if err != nil {
			return known([]survey.Webhook(nil), err, "list definitions of kinds")
		}
		for i := range list.Items {
			if hook, converts := survey.Conversion(&list.Items[i]); converts {
				out = append(out, hook)
			}
		}
		if next = list.GetContinue(); next == "" {
			break
		}
	}
	k.conversions, k.convertedAt = out, r.Now()
	return state.Known(out), nil
}
