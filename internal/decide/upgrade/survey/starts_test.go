package survey_test

import (
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// given returns a pod that a host was given so long ago, and that has its sandbox or not.
func given(name string, ago time.Duration, has corev1.ConditionStatus, change func(*corev1.Pod)) corev1.Pod {
	at := metav1.NewTime(noon.Add(-ago))
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: "cp-1"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	if has != "" {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: has, LastTransitionTime: at})
	}
	if change != nil {
		change(&p)
	}
	return p
}

// TestU38_AHostOfTheNewReleaseThatStartsNoPodIsNamed, and no other one: its switch was ten
// minutes ago.
func TestU38_AHostOfTheNewReleaseThatStartsNoPodIsNamed(t *testing.T) {
	const no, yes = corev1.ConditionFalse, corev1.ConditionTrue
	accepted := parachute.Journal{Step: parachute.Accepted, Switched: noon.Add(-10 * time.Minute)}
	stuck := []string{"cp-1 (shop/b waits since 11:55:00)"}
	for what, c := range map[string]struct {
		journal parachute.Journal
		pods    []corev1.Pod
		want    []string
	}{
		"it was given none":                  {accepted, nil, nil},
		"one waits":                          {accepted, []corev1.Pod{given("b", 5*time.Minute, no, nil)}, stuck},
		"two wait, and the longest is named": {accepted, []corev1.Pod{given("a", 3*time.Minute, no, nil), given("b", 5*time.Minute, no, nil)}, stuck},
		"another one was started":            {accepted, []corev1.Pod{given("b", 5*time.Minute, no, nil), given("c", 4*time.Minute, yes, nil)}, nil},
		"one was started by the old release": {accepted, []corev1.Pod{given("b", 5*time.Minute, no, nil), given("c", time.Hour, yes, nil)}, stuck},
		"one waits since before the switch":  {accepted, []corev1.Pod{given("b", time.Hour, no, nil)}, nil},
		"one that goes away waits":           {accepted, []corev1.Pod{given("b", 5*time.Minute, no, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })}, nil},
		"one without a network of its own":   {accepted, []corev1.Pod{given("b", 5*time.Minute, no, func(p *corev1.Pod) { p.Spec.HostNetwork = true })}, nil},
		"one is on another host":             {accepted, []corev1.Pod{given("b", 5*time.Minute, no, func(p *corev1.Pod) { p.Spec.NodeName = "cp-2" })}, nil},
		"kubelet does not say":               {accepted, []corev1.Pod{given("b", 5*time.Minute, "", nil)}, nil},
		"the host is on its way":             {parachute.Journal{Step: parachute.Proving, Switched: accepted.Switched}, []corev1.Pod{given("b", 5*time.Minute, no, nil)}, nil},
		"the way back is closed":             {parachute.Journal{Step: parachute.Accepted, Switched: accepted.Switched, Closed: true}, []corev1.Pod{given("b", 5*time.Minute, no, nil)}, nil},
	} {
		seen := survey.Seen{Now: noon, Nodes: []corev1.Node{node(t, "cp-1", time.Minute, func(h *annotation.Host) { h.Journal = c.journal })}}
		seen.Slow.Starts = state.Known(survey.Starts(c.pods))
		if got := survey.Of(seen).Facts.Sandboxes; !got.Known || !slices.Equal(got.Value, c.want) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := survey.Of(survey.Seen{Now: noon, Nodes: []corev1.Node{node(t, "cp-1", 0, nil)}}).Facts.Sandboxes; got.Known {
		t.Errorf("pods were not read: %+v", got)
	}
}

// TestU66_AConversionWhoseWebhookGoesWithOneHostIsNamed.
func TestU66_AConversionWhoseWebhookGoesWithOneHostIsNamed(t *testing.T) {
	kind := func(strategy string, served ...bool) *unstructured.Unstructured {
		versions := []any{}
		for _, s := range served {
			versions = append(versions, map[string]any{"served": s})
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "widgets.example.com"},
			"spec": map[string]any{
				"versions": versions,
				"conversion": map[string]any{"strategy": strategy, "webhook": map[string]any{"clientConfig": map[string]any{
					"service": map[string]any{"namespace": "p", "name": "s"},
				}}},
			},
		}}
	}
	host := "cp-1"
	on := []discoveryv1.EndpointSlice{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "p", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
		Endpoints:  []discoveryv1.Endpoint{{NodeName: &host}},
	}}
	for what, c := range map[string]struct {
		kind *unstructured.Unstructured
		want []string
	}{
		"a webhook converts":        {kind("Webhook", true, true), []string{"the conversion of widgets.example.com (on cp-1)"}},
		"one version is served":     {kind("Webhook", true, false), []string{}},
		"nothing is converted":      {kind("None", true, true), []string{}},
		"it is outside, by its URL": {without(kind("Webhook", true, true)), []string{}},
		"a kind that says nothing":  {&unstructured.Unstructured{Object: map[string]any{}}, []string{}},
	} {
		var hooks []survey.Webhook
		if hook, converts := survey.Conversion(c.kind); converts {
			hooks = append(hooks, hook)
		}
		if got := survey.FailClosed(hooks, on, 2); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", what, got)
		}
	}
	if hook, _ := survey.Conversion(kind("Webhook", true, true)); hook.Failure != nil && *hook.Failure == admissionv1.Ignore {
		t.Error("nobody reads an object that is not converted")
	}
}

func without(u *unstructured.Unstructured) *unstructured.Unstructured {
	unstructured.RemoveNestedField(u.Object, "spec", "conversion", "webhook")
	return u
}
