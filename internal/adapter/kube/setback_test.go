package kube

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// operatorOf is a Deployment as an installation applies it.
func operatorOf(image, env string) []byte {
	return fmt.Appendf(nil, `apiVersion: apps/v1
kind: Deployment
metadata:
  namespace: default
  name: setback
  labels: {app: setback}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: setback}}
  template:
    metadata: {labels: {app: setback}}
    spec:
      containers:
      - name: operator
        image: %s
        env: [{name: %s, value: "1"}]
`, image, env)
}

// TestADeploymentIsSetBackToWhatItWas plays the controller of Deployments, which the API of the
// test does not have. The owner of the fields stays the same, so a later release can take them
// away.
func TestADeploymentIsSetBackToWhatItWas(t *testing.T) {
	c := ofServer(t)
	b := c.Bringer()
	ref := state.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "setback"}
	deployments, sets := c.set.AppsV1().Deployments("default"), c.set.AppsV1().ReplicaSets("default")
	t.Cleanup(func() { _, _ = b.Delete(t.Context(), ref) })
	get := func() *appsv1.Deployment {
		t.Helper()
		d, err := deployments.Get(t.Context(), "setback", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i, image := range []string{"old:1", "new:2"} {
		if err := b.Apply(t.Context(), ref, operatorOf(image, "ONLY_"+strings.ToUpper(image[:3]))); err != nil {
			t.Fatal(err)
		}
		d := get()
		if i == 1 {
			break // its ReplicaSet is not there yet
		}
		if back, err := b.SetBack(t.Context(), "default", "setback"); err != nil || back {
			t.Errorf("the first one has nothing before it: %v, %v", back, err)
		}
		template := *d.Spec.Template.DeepCopy()
		template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "abc"
		_, err := sets.Create(t.Context(), &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Name: "setback-abc", Labels: template.Labels, Annotations: map[string]string{revisionOf: "1"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID}},
			},
			Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if missing, err := b.RolledOut(t.Context(), "default", "setback"); err != nil || missing != "0 of 1 pods of setback are available" {
		t.Errorf("%q, %v", missing, err)
	}
	if back, err := b.SetBack(t.Context(), "default", "setback"); err != nil || !back {
		t.Fatalf("%v, %v", back, err)
	}
	d := get()
	container := d.Spec.Template.Spec.Containers[0]
	if container.Image != "old:1" || len(container.Env) != 1 || container.Env[0].Name != "ONLY_OLD" || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType ||
		len(d.Spec.Template.Labels) != 1 || d.Labels["app"] != "setback" {
		t.Errorf("%+v", d.Spec)
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	if _, err := deployments.UpdateStatus(t.Context(), d, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if missing, err := b.RolledOut(t.Context(), "default", "setback"); err != nil || missing != "" {
		t.Errorf("%q, %v", missing, err)
	}
	if err := b.Apply(t.Context(), ref, operatorOf("newer:3", "ONLY_NEWER")); err != nil {
		t.Fatal(err)
	}
	if env := get().Spec.Template.Spec.Containers[0].Env; len(env) != 1 || env[0].Name != "ONLY_NEWER" {
		t.Errorf("what was set back cannot be taken away: %+v", env)
	}
}

func TestWhyAPodDoesNotRun(t *testing.T) {
	status := func(c corev1.ContainerState, last *corev1.ContainerStateTerminated) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "cp-1"}}
		p.Name = "x"
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: c, LastTerminationState: corev1.ContainerState{Terminated: last}}}
		return p
	}
	unscheduled := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no room"}}}}
	unscheduled.Name = "x"
	ended := &corev1.ContainerStateTerminated{ExitCode: 2}
	for want, p := range map[string]*corev1.Pod{
		"":                                 status(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, nil),
		"pod x has no host: no room":       unscheduled,
		"pod x on cp-1: ErrImageNeverPull": status(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull"}}, nil),
		"pod x on cp-1: CrashLoopBackOff, its last run ended with code 2": status(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, ended),
		"pod x on cp-1: its last run ended with code 2":                   status(corev1.ContainerState{Terminated: ended}, nil),
	} {
		if got := broken(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
