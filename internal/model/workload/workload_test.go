package workload_test

import (
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/model/workload"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	var out T
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestWhatAPodSaysOfItself(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]workload.Readiness{
		`{}`: {},
		`{"status":{"conditions":[{"type":"Initialized","status":"True"}]}}`:                                                          {},
		`{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-27T12:00:00Z"}]}}`:                    {Said: true, Ready: true, Since: at},
		`{"status":{"conditions":[{"type":"Ready","status":"Unknown","lastTransitionTime":"2026-11-27T12:00:00Z"}]}}`:                 {Said: true, Since: at},
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-11-27T12:00:00Z"}]}}`: {Said: true, Since: at},
	} {
		got := workload.ReadinessOf(read[corev1.Pod](t, text))
		if got.Said != want.Said || got.Ready != want.Ready || !got.Since.Equal(want.Since) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestADeploymentIsRolledOutOnceOnlyPodsOfItsTemplateAreThere changes one thing after the other.
func TestADeploymentIsRolledOutOnceOnlyPodsOfItsTemplateAreThere(t *testing.T) {
	const whole = `{"metadata":{"generation":3},"spec":{"replicas":2,"template":{"spec":{"containers":[{"image":"a:1"},{"image":"b:1"}]}}},"status":{"observedGeneration":3,"replicas":2,"updatedReplicas":2,"availableReplicas":2}}`
	if p := workload.OfDeployment(read[appsv1.Deployment](t, whole)); !p.RolledOut() || p.Image != "a:1" || p.Wanted != 2 || p.Enough {
		t.Errorf("%+v", p)
	}
	for what, change := range map[string]func(*appsv1.Deployment){
		"its template was not seen yet": func(d *appsv1.Deployment) { d.Generation = 4 },
		"one pod is of the former":      func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 },
		"one is not available": func(d *appsv1.Deployment) {
			d.Status.AvailableReplicas = 1
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
		},
		"a former one is left":  func(d *appsv1.Deployment) { d.Status.Replicas = 3 },
		"one that nobody wants": func(d *appsv1.Deployment) { d.Spec.Replicas = nil },
		"one is missing":        func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) },
	} {
		d := read[appsv1.Deployment](t, whole)
		change(d)
		if p := workload.OfDeployment(d); p.RolledOut() || p.Enough != (what == "one is not available") {
			t.Errorf("%s: %+v", what, p)
		}
	}
	set := workload.OfDaemonSet(read[appsv1.DaemonSet](t, `{"metadata":{"generation":2},"spec":{"template":{"spec":{"containers":[{"image":"f:1"}]}}},"status":{"observedGeneration":1,"desiredNumberScheduled":3,"updatedNumberScheduled":1,"numberAvailable":2}}`))
	if set != (workload.Pods{Wanted: 3, Updated: 1, Available: 2, Unseen: true, Image: "f:1"}) {
		t.Errorf("%+v", set)
	}
}
