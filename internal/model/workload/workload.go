// Package workload reads what Kubernetes says of pods and of what makes them.
package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Readiness is what a pod says of itself. A pod that has said nothing yet is neither ready nor
// known not to be.
type Readiness struct {
	Said, Ready bool
	// Since is when that changed last.
	Since time.Time
}

// ReadinessOf returns the readiness of a pod.
func ReadinessOf(p *corev1.Pod) Readiness {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return Readiness{Said: true, Ready: c.Status == corev1.ConditionTrue, Since: c.LastTransitionTime.Time}
		}
	}
	return Readiness{}
}

// Ready reports whether a pod says that it is ready.
func Ready(p *corev1.Pod) bool { return ReadinessOf(p).Ready }

// Pods is what Kubernetes says of the pods of one thing.
type Pods struct {
	// Wanted is how many there shall be. Available and Updated of them are available and of the
	// present template; Old are of an earlier one.
	Wanted, Available, Updated, Old int
	// Enough is true if fewer than the wanted pods are available, and Kubernetes takes that for
	// enough.
	Enough bool
	// Unseen is true while Kubernetes has not looked at the present template.
	Unseen bool
	// Image is that of the first container: what the pod is for.
	Image string
}

// OfDeployment returns what Kubernetes says of a Deployment.
func OfDeployment(d *appsv1.Deployment) Pods {
	out, s := Pods{Wanted: 1}, d.Status
	if d.Spec.Replicas != nil {
		out.Wanted = int(*d.Spec.Replicas)
	}
	out.Available, out.Updated, out.Old = int(s.AvailableReplicas), int(s.UpdatedReplicas), int(s.Replicas-s.UpdatedReplicas)
	for _, c := range s.Conditions {
		out.Enough = out.Enough || c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
	}
	out.Unseen, out.Image = s.ObservedGeneration < d.Generation, imageOf(&d.Spec.Template)
	return out
}

// OfDaemonSet returns what Kubernetes says of a DaemonSet. Of pods of an earlier template it says
// no more than that not all are of the present one.
func OfDaemonSet(d *appsv1.DaemonSet) Pods {
	s := d.Status
	return Pods{
		Wanted: int(s.DesiredNumberScheduled), Available: int(s.NumberAvailable), Updated: int(s.UpdatedNumberScheduled),
		Unseen: s.ObservedGeneration < d.Generation, Image: imageOf(&d.Spec.Template),
	}
}

// RolledOut reports whether all pods are there, available and of the present template, and no other
// one is left.
func (p Pods) RolledOut() bool {
	return !p.Unseen && p.Updated == p.Wanted && p.Available == p.Wanted && p.Old <= 0
}

func imageOf(t *corev1.PodTemplateSpec) string {
	if len(t.Spec.Containers) == 0 {
		return ""
	}
	return t.Spec.Containers[0].Image
}
