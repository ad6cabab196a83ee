package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The requests of a replacement. The agent makes them as the administrator, because its own
// account may not delete nodes and pods.

// PodsOn returns the pods that are bound to a node.
func (c *Client) PodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", node, err)
	}
	return list.Items, nil
}

// DeletePodsOn deletes all pods that are bound to a node, without waiting for a kubelet.
// The caller must know that the host is off.
func (c *Client) DeletePodsOn(ctx context.Context, node string) error {
	pods, err := c.PodsOn(ctx, node)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if err := c.deletePod(ctx, &p); err != nil {
			return err
		}
	}
	return nil
}

// deletePod deletes the pod with this UID, not a later one of its name.
func (c *Client) deletePod(ctx context.Context, p *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.set.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// DeleteNode deletes a node if it still has this UID. It is no error if it has not, or if
// there is none.
func (c *Client) DeleteNode(ctx context.Context, name, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.set.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(uid)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	return nil
}

// DeleteSecret deletes a Secret. It is no error if there is none.
func (c *Client) DeleteSecret(ctx context.Context, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.set.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Lock creates a ConfigMap, unless there is one: of two that create it, etcd lets one win.
func (c *Client) Lock(ctx context.Context, namespace, name string, data map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := c.set.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Unlock deletes a ConfigMap whose key has a value; one of another value stays.
func (c *Client) Unlock(ctx context.Context, namespace, name, key, value string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects := c.set.CoreV1().ConfigMaps(namespace)
	got, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err == nil && got.Data[key] != value {
		return nil
	}
	if err == nil {
		err = objects.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(got.UID)}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Volumes returns all PersistentVolumes.
func (c *Client) Volumes(ctx context.Context) ([]corev1.PersistentVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	return list.Items, nil
}

// RestartPods deletes the pods that a selector of labels names. Their controller makes
// others, which read their configuration anew.
func (c *Client) RestartPods(ctx context.Context, namespace, selector string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list pods of %s with %s: %w", namespace, selector, err)
	}
	for _, p := range list.Items {
		if err := c.deletePod(ctx, &p); err != nil {
			return err
		}
	}
	return nil
}
