package removal

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// docs/facts/loss.md#hard-cases-of-loss, L90: somebody's budget lets none of his pods go. It is
// named before anything is written, and nothing about a host that is off waits for it.
func TestL90ABudgetThatHoldsAHostIsNamedBeforeItsRemoval(t *testing.T) {
	all := intstr.FromString("100%")
	budget := policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "never", Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 2, CurrentHealthy: 2, DesiredHealthy: 2, DisruptionsAllowed: 0},
	}
	held := func(f *Facts) {
		f.Pods[0].Labels = map[string]string{"app": "web"}
		f.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		f.Budgets = []policyv1.PodDisruptionBudget{budget}
	}
	p := Foresee(worker().with(held))
	if !strings.Contains(p.InTheWay, "shop/web") || !strings.Contains(p.InTheWay, "PodDisruptionBudget never lets none go") {
		t.Errorf("the plan says of who is in the way: %q", p.InTheWay)
	}
	if p := Foresee(off().with(held)); p.InTheWay != "" {
		t.Errorf("the pods of a host that is off are deleted and not evicted, so no budget counts: %q", p.InTheWay)
	}
	if p := Foresee(worker()); p.InTheWay != "" {
		t.Errorf("without a budget somebody is in the way: %q", p.InTheWay)
	}
}
