package kube

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/incident"
)

// ConfigMaps returns the data of the ConfigMaps of a namespace that have a
// label, by name.
func (c *Client) ConfigMaps(ctx context.Context, namespace, label string) (map[string]map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, fmt.Errorf("list ConfigMaps of %s: %w", namespace, err)
	}
	out := map[string]map[string]string{}
	for _, m := range list.Items {
		out[m.Name] = m.Data
	}
	return out, nil
}

// PutConfigMap makes a ConfigMap, or gives it this data where it has other. It
// has one writer.
func (c *Client) PutConfigMap(ctx context.Context, namespace, name string, labels, data map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects := c.set.CoreV1().ConfigMaps(namespace)
	got, err := objects.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: data}, metav1.CreateOptions{FieldManager: fieldManager})
	case err == nil && !maps.Equal(got.Data, data):
		got.Data = data
		_, err = objects.Update(ctx, got, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Places returns where pods run, as far as it tells whether those of a lost
// host run elsewhere.
func (c *Client) Places(ctx context.Context) ([]incident.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	out := make([]incident.Pod, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, placeOf(&list.Items[i]))
	}
	return out, nil
}

func placeOf(p *corev1.Pod) incident.Pod {
	out := incident.Pod{Node: p.Spec.NodeName, Created: p.CreationTimestamp.Time, Ends: p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed}
	for _, o := range p.OwnerReferences {
		out.Bound = out.Bound || o.Kind == "DaemonSet" || o.Kind == "Node"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			out.Ready = c.LastTransitionTime.Time
		}
	}
	return out
}
