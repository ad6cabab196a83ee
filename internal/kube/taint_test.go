package kube

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/holdfast/holdfast/internal/decide/outofservice"
)

var tainted = outofservice.Verdict{Action: outofservice.Add, Mark: "cp-1 2026-11-20T09:00:00Z"}

func nodeWith(taints ...corev1.Taint) *corev1.Node {
	ready := metav1.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "cp-2", ResourceVersion: "7", Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: ready, LastHeartbeatTime: ready},
		}},
	}
}

func TestANodeIsTaintedAndFreedAndKeepsWhatOthersPutThere(t *testing.T) {
	added := metav1.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)
	for name, foreign := range map[string][]corev1.Taint{
		"no other taint": nil,
		"others":         {{Key: "example.com/db", Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "n", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}},
	} {
		t.Run(name, func(t *testing.T) {
			set := fake.NewClientset(nodeWith(foreign...))
			c := &Client{set: set}
			for _, v := range []outofservice.Verdict{tainted, {Action: outofservice.Remove}} {
				before, err := c.NodeService(t.Context(), "cp-2")
				if err != nil {
					t.Fatal(err)
				}
				if err := c.PatchNode(t.Context(), "cp-2", outofservice.Patch(before, v)); err != nil {
					t.Fatal(err)
				}
				after, err := c.NodeService(t.Context(), "cp-2")
				if err != nil {
					t.Fatal(err)
				}
				want := outofservice.Apply(before, v)
				if diff := cmp.Diff(want.Taints, after.Taints); diff != "" && len(want.Taints)+len(after.Taints) > 0 {
					t.Errorf("%s: %s", v.Action, diff)
				}
				if diff := cmp.Diff(want.Annotations, after.Annotations); diff != "" {
					t.Errorf("%s: %s", v.Action, diff)
				}
			}
		})
	}
}

func TestAPatchOfAnOldViewIsRefused(t *testing.T) {
	set := fake.NewClientset(nodeWith(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}))
	c := &Client{set: set}
	before, err := c.NodeService(t.Context(), "cp-2")
	if err != nil {
		t.Fatal(err)
	}
	changed := nodeWith(corev1.Taint{Key: "b", Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule})
	if _, err := set.CoreV1().Nodes().Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.PatchNode(t.Context(), "cp-2", outofservice.Patch(before, tainted)); err == nil {
		t.Error("applied to another list of taints")
	}
	if n, err := c.NodeService(t.Context(), "cp-2"); err != nil || len(n.Taints) != 2 {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestNodesAreWatchedForTheirReadiness(t *testing.T) {
	set := fake.NewClientset(nodeWith())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got []outofservice.Node
	_ = (&Client{set: set}).WatchNodeServices(ctx, func(nodes []outofservice.Node) {
		got = nodes
		cancel()
	})
	if len(got) != 1 || !got[0].Ready || got[0].ReadySince.Hour() != 8 {
		t.Errorf("%+v", got)
	}
}
