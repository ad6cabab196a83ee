package rollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

func TestWhatANodeSaysIsRead(t *testing.T) {
	created := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "w-1", Labels: map[string]string{"a": "b"}, CreationTimestamp: metav1.NewTime(created),
		Annotations: map[string]string{
			rollout.CurrentConfig: "old", rollout.DesiredConfig: "new", rollout.StateOf: "Degraded", rollout.ReasonOf: "disk",
			rollout.GivenAt: "2026-11-23T12:00:00Z", rollout.Reboot: rollout.ByHand,
			drain.Desired: "drain-new", drain.Began: "2026-11-23T12:00:00Z", drain.Waits: "default/web",
			rollout.RebootWanted: "2026-11-23T12:00:00Z", rollout.RebootFrom: "2026-11-23T12:00:00Z boot-1", rollout.RebootWaits: "its turn",
			rollout.RebootRequired: "Yes: kernel", rollout.PatchDone: "x", rollout.PatchResult: "x failed: no route",
		},
	}}
	n.Spec.Unschedulable = true
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}
	want := rollout.Host{
		Name: "w-1", Labels: map[string]string{"a": "b"}, Created: created, Current: "old", Desired: "new", Given: noon,
		State: rollout.Degraded, Reason: "disk", Ready: true, Unschedulable: true, Draining: noon, InTheWay: "default/web", ByHand: true,
		Wish: rollout.Wish{Wanted: "2026-11-23T12:00:00Z", At: noon, From: "boot-1", Left: true}, Required: "kernel", UpdatesFailed: "no route",
	}
	if diff := cmp.Diff(want, rollout.HostOf(n)); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		kind    corev1.NodeConditionType
		trouble string
	}{{corev1.NodeDiskPressure, "its disk is full"}, {corev1.NodeNetworkUnavailable, "it has no network"}, {corev1.NodeMemoryPressure, ""}} {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}, {Type: c.kind, Status: corev1.ConditionTrue}}
		n.Annotations = map[string]string{rollout.GivenAt: "yesterday"}
		if h := rollout.HostOf(n); h.Ready || h.Trouble != c.trouble || !h.Given.IsZero() || h.State != "" || !h.Draining.IsZero() {
			t.Errorf("%s: %+v", c.kind, h)
		}
	}
}
