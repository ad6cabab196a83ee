package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/model/retired"
)

// Retired returns the list of hosts that were taken out of the cluster, as far as it is about
// this name. An entry that cannot be read is an error.
func (c *Client) Retired(ctx context.Context, name string) (retired.List, error) {
	data, err := c.ConfigMap(ctx, retired.Namespace, retired.ConfigMap)
	value, listed := data[name]
	if err != nil || !listed {
		return nil, err
	}
	return retired.Read(map[string]string{name: value})
}

// Retire writes the entry of a host, and does not change those of others.
func (c *Client) Retire(ctx context.Context, h retired.Host) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch, err := h.Patch()
	if err != nil {
		return err
	}
	maps := c.set.CoreV1().ConfigMaps(retired.Namespace)
	empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: retired.ConfigMap}}
	_, err = maps.Patch(ctx, retired.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		if _, err := maps.Create(ctx, empty, metav1.CreateOptions{FieldManager: fieldManager}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create ConfigMap %s/%s: %w", retired.Namespace, retired.ConfigMap, err)
		}
		_, err = maps.Patch(ctx, retired.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", retired.Namespace, retired.ConfigMap, err)
	}
	return nil
}

// GiveAgain closes the entry of a name, because the name is given to a host again. It does
// nothing if there is no open entry. It does not need to read the entries of other hosts.
func (c *Client) GiveAgain(ctx context.Context, name string, now time.Time) error {
	list, err := c.Retired(ctx, name)
	h, listed := list.Of(name)
	if err != nil || !listed || !h.Open() {
		return err
	}
	h.Again = now
	return c.Retire(ctx, h)
}
