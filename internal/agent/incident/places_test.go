package incident

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/holdfast/holdfast/internal/decide/incident"
)

func TestWhereAPodRunsIsReadFromIt(t *testing.T) {
	at := metav1.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at}, Spec: corev1.PodSpec{NodeName: "cp-1"}}
		change(p)
		return p
	}
	plain := decide.Pod{Node: "cp-1", Created: at.Time}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want func(*decide.Pod)
	}{
		"one that waits": {pod(func(*corev1.Pod) {}), func(*decide.Pod) {}},
		"one that is ready": {pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at}}
		}), func(p *decide.Pod) { p.Ready = at.Time }},
		"one that is not ready": {pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at}}
		}), func(*decide.Pod) {}},
		"one of a DaemonSet":  {pod(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet"}} }), func(p *decide.Pod) { p.Bound = true }},
		"a static one":        {pod(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Node"}} }), func(p *decide.Pod) { p.Bound = true }},
		"one of a set":        {pod(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet"}} }), func(*decide.Pod) {}},
		"one that is done":    {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), func(p *decide.Pod) { p.Ends = true }},
		"one that is deleted": {pod(func(p *corev1.Pod) { p.DeletionTimestamp = &at }), func(p *decide.Pod) { p.Ends = true }},
	} {
		want := plain
		c.want(&want)
		if diff := cmp.Diff(want, placeOf(c.pod)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
