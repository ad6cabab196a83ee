package kube

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetLocked sets keys of a ConfigMap that Lock made, if one of its keys has a value: who holds the
// lock may write into it, and so may those whom its plan concerns. If it is of another value or is
// gone, that is an error, and nothing is written. A write that meets another one is an error, too.
func (c *Client) SetLocked(ctx context.Context, namespace, name, key, value string, data map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects := c.set.CoreV1().ConfigMaps(namespace)
	got, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err == nil && got.Data[key] != value {
		return fmt.Errorf("ConfigMap %s/%s is of %s %q, not %q", namespace, name, key, got.Data[key], value)
	}
	if err == nil {
		want := maps.Clone(got.Data)
		maps.Copy(want, data)
		if maps.Equal(want, got.Data) {
			return nil
		}
		got.Data = want
		_, err = objects.Update(ctx, got, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}
