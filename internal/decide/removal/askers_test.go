package removal

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// docs/facts/loss.md#hard-cases-of-loss, L22: a Deployment asks for a host by its name, and its
// pods would wait for that host for ever.
func TestL22WhoAsksForAHostByItsNameIsNamedBeforeItGoes(t *testing.T) {
	selector := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: value} }
	}
	affinity := func(terms ...[]string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			required := &corev1.NodeSelector{}
			for _, values := range terms {
				required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: values},
				}})
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
		}
	}
	noted := func(fields string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Subresource: "status"}, {FieldsV1: metav1.NewFieldsV1(fields)}}
		}
	}
	for what, c := range map[string]struct {
		kind   string
		change func(*corev1.Pod)
		told   bool
	}{
		"by the name of its Node":          {"ReplicaSet", noted(`{"f:metadata":{},"f:spec":{"f:containers":{},"f:nodeName":{}}}`), true},
		"by no Node, which it got":         {"ReplicaSet", noted(`{"f:metadata":{"f:nodeName":{}},"f:spec":{"f:containers":{}}}`), false},
		"a file of the host, by its Node":  {"Node", noted(`{"f:spec":{"f:nodeName":{}}}`), false},
		"fields that nobody can read":      {"ReplicaSet", noted(`{`), false},
		"anywhere":                         {"ReplicaSet", func(*corev1.Pod) {}, false},
		"by a selector":                    {"ReplicaSet", selector("w-1"), true},
		"another host by a selector":       {"ReplicaSet", selector("w-2"), false},
		"by an affinity":                   {"StatefulSet", affinity([]string{"w-1"}), true},
		"one of two hosts":                 {"StatefulSet", affinity([]string{"w-1", "w-2"}), false},
		"this host or else another one":    {"StatefulSet", affinity([]string{"w-1"}, []string{"w-2"}), false},
		"an affinity without terms":        {"StatefulSet", affinity(), false},
		"a DaemonSet, which goes with it":  {"DaemonSet", affinity([]string{"w-1"}), false},
		"a file of the host, goes with it": {"Node", selector("w-1"), false},
	} {
		f := worker().with(func(f *Facts) {
			p := pod("db", c.kind)
			c.change(&p)
			f.Pods = []corev1.Pod{p}
		})
		const want = "change what makes shop/db: it asks for w-1 by its name, and starts nowhere else"
		after := Foresee(f).After
		if slices.Contains(after, want) != c.told || !strings.HasPrefix(after[len(after)-1], "the host itself goes on") {
			t.Errorf("%s: %q", what, after)
		}
	}
	gone := worker().with(func(f *Facts) { f.Node = nil })
	if after := Foresee(gone).After; len(after) != 1 {
		t.Errorf("without a Node: %q", after)
	}
}
