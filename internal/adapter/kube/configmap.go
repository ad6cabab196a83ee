package kube

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfigMaps returns the data of those ConfigMaps of a namespace that have a
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

// ConfigMapsNamed returns the data of the ConfigMaps of one name, by namespace.
func (c *Client) ConfigMapsNamed(ctx context.Context, name string) (map[string]map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return nil, fmt.Errorf("list ConfigMaps %s: %w", name, err)
	}
	out := map[string]map[string]string{}
	for _, m := range list.Items {
		out[m.Namespace] = m.Data
	}
	return out, nil
}

// SwapConfigMap replaces the data of a ConfigMap, if they are as they were before. It
// creates the ConfigMap if there was none.
func (c *Client) SwapConfigMap(ctx context.Context, namespace, name string, before, after map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects := c.set.CoreV1().ConfigMaps(namespace)
	got, err := objects.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && len(before) == 0:
		_, err = objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: after}, metav1.CreateOptions{FieldManager: fieldManager})
	case apierrors.IsNotFound(err), err == nil && !maps.Equal(got.Data, before):
		err = ErrChanged
	case err == nil:
		got.Data = after
		_, err = objects.Update(ctx, got, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return swapped("ConfigMap", namespace, name, err)
}

// PutConfigMap creates a ConfigMap, or replaces its data if they differ. The
// ConfigMap must have only this writer.
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
