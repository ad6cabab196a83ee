package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/workload"
)

// revisionOf is the annotation in which Kubernetes numbers the ReplicaSets of a Deployment.
const revisionOf = "deployment.kubernetes.io/revision"

// RolledOut says what of a Deployment does not run as its template has it; empty if all does.
func (b *Bringer) RolledOut(ctx context.Context, namespace, name string) (missing string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	d, err := b.set.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get Deployment %s/%s: %w", namespace, name, err)
	}
	has := workload.OfDeployment(d)
	if has.RolledOut() {
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("selector of Deployment %s/%s: %w", namespace, name, err)
	}
	pods, err := b.set.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return "", fmt.Errorf("list the pods of Deployment %s/%s: %w", namespace, name, err)
	}
	missing = fmt.Sprintf("%d of %d pods of %s are available", has.Available, has.Wanted, name)
	for i := range pods.Items {
		if why := broken(&pods.Items[i]); why != "" {
			missing += "; " + why
		}
	}
	return missing, nil
}

// broken says why a pod does not run; empty if it does, or if nobody has said why.
func broken(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		text := fmt.Sprintf("pod %s on %s", p.Name, p.Spec.NodeName)
		end := c.LastTerminationState.Terminated
		if c.State.Terminated != nil {
			end = c.State.Terminated
		}
		switch wait := c.State.Waiting; {
		case wait != nil && end != nil:
			return fmt.Sprintf("%s: %s, its last run ended with code %d", text, wait.Reason, end.ExitCode)
		case wait != nil:
			return text + ": " + wait.Reason
		case end != nil:
			return fmt.Sprintf("%s: its last run ended with code %d", text, end.ExitCode)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s has no host: %s", p.Name, c.Message)
		}
	}
	return ""
}

// SetBack gives a Deployment the pods again that it had before its present template, as
// `kubectl rollout undo` does, and owns its fields as Apply does. It reports whether Kubernetes
// still knows them.
func (b *Bringer) SetBack(ctx context.Context, namespace, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	d, err := b.set.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("get Deployment %s/%s: %w", namespace, name, err)
	}
	sets, err := b.set.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list the ReplicaSets of %s: %w", namespace, err)
	}
	former := formerOf(d, sets.Items)
	if former == nil {
		return false, nil
	}
	spec := d.Spec.DeepCopy()
	spec.Template = *former
	document, err := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": namespace, "name": name, "labels": d.Labels},
		"spec":     spec,
	})
	if err != nil {
		return false, err
	}
	return true, b.Apply(ctx, state.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name}, document)
}

// formerOf returns the template of the newest ReplicaSet of a Deployment that is not of its
// present template, nil if there is none.
func formerOf(d *appsv1.Deployment, sets []appsv1.ReplicaSet) *corev1.PodTemplateSpec {
	var former *corev1.PodTemplateSpec
	newest := 0
	for i := range sets {
		number, err := strconv.Atoi(sets[i].Annotations[revisionOf])
		if err != nil || number <= newest || !slices.ContainsFunc(sets[i].OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == d.UID }) {
			continue
		}
		template := sets[i].Spec.Template.DeepCopy()
		delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		if !equality.Semantic.DeepEqual(*template, d.Spec.Template) {
			former, newest = template, number
		}
	}
	return former
}
