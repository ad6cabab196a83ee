package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// How old may be what costs more to find out: with an upgrade that is wanted or under way,
// and without. Comparing the data of etcd reads all of them.
const (
	slowUnderWay  = 20 * time.Second
	slowAtRest    = 10 * time.Minute
	equalUnderWay = time.Minute
	equalAtRest   = 6 * time.Hour
	// equalGrace is for how long the last answer counts while there is no new one: large data are
	// compared at a compaction, of which there is one every five minutes, and two must be seen.
	equalGrace = 15 * time.Minute
)

// kept is what was read and may be some minutes old. Another process reads it anew.
type kept struct {
	// moment tells states of an upgrade apart: with another one everything is read anew.
	moment      string
	at, equalAt time.Time
	slow        survey.Slow
	equal       state.Fact[bool]
	uses        memory
	// took names the API servers that have taken in this moment what lies there, and
	// conversions are the webhooks that convert objects, read in it.
	took        map[string]bool
	conversions []survey.Webhook
	convertedAt time.Time
}

// compare asks whether the data of all members are equal, if the last answer is older than a limit, is
// of another moment, or says nothing.
func (k *kept) compare(now time.Time, limit time.Duration, other bool, ask func() state.Fact[bool]) {
	age := now.Sub(k.equalAt).Abs()
	if !other && age < limit && k.equal.Known {
		return
	}
	if answer := ask(); answer.Known || other || age >= limit+equalGrace {
		k.equal, k.equalAt = answer, now
	}
}

// moment is another text for each host that took a step, and each step of the site.
func (g *gathered) moment() string {
	out := []string{g.book.record.Upgrade, fmt.Sprint(g.book.record.Turns), fmt.Sprint(g.book.record.Started, g.book.record.Returning)}
	for _, n := range g.seen.Nodes {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				out = append(out, n.Name, string(c.Status))
			}
		}
	}
	return strings.Join(out, " ")
}

// slow adds what is read less often.
func (r *Reconciler) slow(ctx context.Context, g *gathered, addresses map[string]string) error {
	now, k := g.seen.Now, &r.kept
	limit, equalLimit := slowAtRest, equalAtRest
	if g.book.record.Started || g.version.Spec.DesiredUpdate != nil && !settled(g) {
		limit, equalLimit = slowUnderWay, equalUnderWay
	}
	moment := g.moment()
	other := moment != k.moment
	k.compare(now, equalLimit, other, func() state.Fact[bool] {
		if len(g.seen.Etcd) != len(addresses) { // one that does not answer would keep all waiting
			return state.Fact[bool]{}
		}
		return r.Equal(ctx, addresses)
	})
	if other {
		k.took, k.convertedAt = nil, time.Time{}
	}
	if other || now.Sub(k.at).Abs() >= limit {
		s, err := r.readSlow(ctx, g, addresses)
		if err != nil {
			return err
		}
		k.slow, k.at = s, now
	}
	k.moment = moment
	g.seen.Equal, g.seen.Slow = k.equal, k.slow
	return nil
}

// settled reports whether the release that is wanted is the one of the last look.
func settled(g *gathered) bool {
	h := g.version.Status.History
	return len(h) > 0 && h[0].CompletionTime != nil && strings.HasSuffix(g.version.Spec.DesiredUpdate.Image, h[0].Image)
}

func (r *Reconciler) readSlow(ctx context.Context, g *gathered, addresses map[string]string) (survey.Slow, error) {
	var s survey.Slow
	var budgets policyv1.PodDisruptionBudgetList
	err := r.Live.List(ctx, &budgets)
	if s.Budgets, err = known(survey.Budgets(budgets.Items), err, "list PodDisruptionBudgets"); err != nil {
		return s, err
	}
	var pods corev1.PodList
	err = r.Live.List(ctx, &pods)
	if s.Immovable, err = known(survey.Immovable(pods.Items), err, "list pods"); err != nil {
		return s, err
	}
	s.Starts = state.Fact[[]survey.Start]{Known: s.Immovable.Known, Value: survey.Starts(pods.Items)}
	if s.Webhooks, err = r.webhooks(ctx, g); err != nil {
		return s, err
	}
	s.Refused = r.refused(ctx, addresses)
	if s.Stored, err = r.stored(ctx, g); err != nil {
		return s, err
	}
	r.uses(ctx, g, addresses)
	hosts := slices.Sorted(maps.Keys(addresses))
	if len(r.kept.uses.Since) > 0 {
		s.Deprecated, s.Observed = state.Known(r.kept.uses.Uses), r.kept.uses.observed(g.seen.Now, hosts)
	}
	return s, nil
}

// uses adds what API servers say to what they said since the last upgrade.
func (r *Reconciler) uses(ctx context.Context, g *gathered, addresses map[string]string) {
	running := survey.Of(g.seen).Site.Running
	answers := r.Deprecated(ctx, addresses)
	if running == "" || len(answers) == 0 {
		r.kept.uses = g.book.uses
		return
	}
	r.kept.uses = g.book.uses.learn(running, g.seen.Now, answers)
}

// webhooks names those that would hold an upgrade while one host is away.
func (r *Reconciler) webhooks(ctx context.Context, g *gathered) (state.Fact[[]string], error) {
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	var serving discoveryv1.EndpointSliceList
	for what, list := range map[string]client.ObjectList{"ValidatingWebhookConfigurations": &validating, "MutatingWebhookConfigurations": &mutating} {
		if err := r.Live.List(ctx, list); err != nil {
			return known([]string(nil), err, "list "+what)
		}
	}
	var hooks []survey.Webhook
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			hooks = append(hooks, survey.Webhook{Name: w.Name, Failure: w.FailurePolicy, Client: w.ClientConfig, Selector: w.NamespaceSelector, Rules: w.Rules})
		}
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			hooks = append(hooks, survey.Webhook{Name: w.Name, Failure: w.FailurePolicy, Client: w.ClientConfig, Selector: w.NamespaceSelector, Rules: w.Rules})
		}
	}
	converting, err := r.conversions(ctx)
	if err != nil || !converting.Known {
		return state.Fact[[]string]{}, err
	}
	hooks = append(hooks, converting.Value...)
	if len(hooks) > 0 {
		if err := r.Live.List(ctx, &serving); err != nil {
			return known([]string(nil), err, "list EndpointSlices")
		}
	}
	return state.Known(survey.FailClosed(hooks, serving.Items, len(g.seen.Nodes))), nil
}

// definition is the kind of definitions of kinds.
var definition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// stored lists the versions in which objects of the kinds are stored that the release
// brings. It reads them one by one: all definitions of a site may be many megabytes.
func (r *Reconciler) stored(ctx context.Context, g *gathered) (state.Fact[[]string], error) {
	out := []string{}
	for _, name := range kindsOf(survey.Of(g.seen)) {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(definition)
		err := r.Live.Get(ctx, client.ObjectKey{Name: name}, crd)
		if client.IgnoreNotFound(err) != nil {
			return known([]string(nil), err, "read the definition of "+name)
		}
		versions, _, err := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
		if err != nil {
			return state.Fact[[]string]{}, nil //nolint:nilerr // what cannot be read is unknown
		}
		for _, v := range versions {
			out = append(out, name+"/"+v)
		}
	}
	return state.Known(out), nil
}

// kindsOf names the definitions of the releases.
func kindsOf(v survey.Survey) []string {
	var out []string
	add := func(r gate.Release) {
		for _, stored := range r.StoredVersions {
			if name, _, ok := strings.Cut(stored, "/"); ok && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	add(v.Facts.From)
	if v.Facts.To != nil {
		add(*v.Facts.To)
	}
	return out
}
