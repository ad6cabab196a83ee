package rollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/window"
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
			rollout.RebootRequired: "Yes: kernel", rollout.RequiredWished: "glibc", rollout.PatchDone: "x", rollout.PatchResult: "x failed: no route",
		},
	}}
	n.Spec.Unschedulable = true
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}
	want := rollout.Host{
		Name: "w-1", Labels: map[string]string{"a": "b"}, Created: created, Current: "old", Desired: "new", Given: noon,
		State: rollout.Degraded, Reason: "disk", Ready: true, Unschedulable: true, Draining: noon, InTheWay: "default/web", ByHand: true,
		Wish: rollout.Wish{Wanted: "2026-11-23T12:00:00Z", At: noon, From: "boot-1", Left: true}, Waiting: rollout.Waiting{Turn: "holdfast-operator has not decided yet"},
		Required: "kernel", RequiredWished: "glibc", UpdatesFailed: "no route",
	}
	if diff := cmp.Diff(want, rollout.HostOf(n)); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		kind    corev1.NodeConditionType
		trouble string
		pressed bool
	}{
		{corev1.NodeDiskPressure, "its disk is full", false},
		{corev1.NodeNetworkUnavailable, "it has no network", false},
		{corev1.NodeMemoryPressure, "it is short of memory", true},
		{corev1.NodePIDPressure, "it is short of process ids", true},
		{"site.example/Odd", "", false},
	} {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}, {Type: c.kind, Status: corev1.ConditionTrue}}
		n.Annotations = map[string]string{rollout.GivenAt: "yesterday"}
		if h := rollout.HostOf(n); h.Ready || h.Trouble != c.trouble || h.Pressed != c.pressed || !h.Given.IsZero() || h.State != "" || !h.Draining.IsZero() {
			t.Errorf("%s: %+v", c.kind, h)
		}
		n.Status.Conditions[1].Status = corev1.ConditionUnknown
		if h := rollout.HostOf(n); h.Trouble != "" || h.Pressed {
			t.Errorf("nobody knows of %s: %+v", c.kind, h)
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}}
	if h := rollout.HostOf(n); h.Trouble != "it has no network" || h.Pressed {
		t.Errorf("without a network: %+v", h)
	}
	n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	n.Annotations = nil
	if n.Spec.Unschedulable = false; rollout.Doing(n).Does != "it is short of memory" || rollout.Work(n) != "" {
		t.Errorf("short of memory: it does %+v, and its work is %q", rollout.Doing(n), rollout.Work(n))
	}
}

func TestWhatPeopleWriteAtAPoolIsRead(t *testing.T) {
	sunday := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker", Annotations: map[string]string{
		window.Annotation: "Sun 02:00 2h UTC", rollout.Reboot: rollout.ByHand, rollout.RebootRequired: rollout.RebootsRequired,
	}}}
	p.Spec.Paused = true
	want := rollout.Pool{Name: "worker", Paused: true, ByHand: true, BootsRequired: true}
	if diff := cmp.Diff(want, rollout.PoolOf(p, sunday, time.LoadLocation)); diff != "" {
		t.Error(diff)
	}
	want.Closed = "its maintenance window opens at 2026-11-29T02:00:00Z"
	if diff := cmp.Diff(want, rollout.PoolOf(p, sunday.Add(time.Hour), time.LoadLocation)); diff != "" {
		t.Error(diff)
	}
	if !rollout.PoolStateOf(p).Windows || rollout.PoolStateOf(&mcfgv1.MachineConfigPool{}).Windows {
		t.Error("status does not know who has a window")
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rollout.RebootRequired: "No"}}}
	if h := rollout.HostOf(n); !h.NotRequired || h.Required != "" {
		t.Errorf("%+v", h)
	}
	if h := rollout.HostOf(&corev1.Node{}); h.NotRequired {
		t.Error("unknown reads as no")
	}
}
