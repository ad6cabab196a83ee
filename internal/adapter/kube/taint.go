package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PatchNode changes a node by a JSON patch. It returns an error if one of the
// patch's tests fails, because the node has changed since it was read.
func (c *Client) PatchNode(ctx context.Context, name string, patch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := c.set.CoreV1().Nodes().Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("patch node %s: %w", name, err)
	}
	return nil
}

// AddTaint adds a taint with this key to a node, if it has none, so that no new
// pods come there.
func (c *Client) AddTaint(ctx context.Context, name, key string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n, err := c.set.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("taint node %s: %w", name, err)
	}
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key }) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion}, // the list is written as a whole
		"spec":     map[string]any{"taints": append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})},
	})
	if err != nil {
		return fmt.Errorf("taint node %s: %w", name, err)
	}
	if _, err := c.set.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("taint node %s: %w", name, err)
	}
	return nil
}

// MarkUnready tells the API that a node is not ready, if its kubelet cannot do
// so. A kubelet that runs corrects it with its next report.
func (c *Client) MarkUnready(ctx context.Context, name, message string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []map[string]any{{
		"type": corev1.NodeReady, "status": corev1.ConditionUnknown, "reason": "Fenced", "message": message,
		"lastTransitionTime": metav1.NewTime(now),
	}}}})
	if err != nil {
		return fmt.Errorf("mark node %s as not ready: %w", name, err)
	}
	// A strategic patch changes the one condition of that type.
	_, err = c.set.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return fmt.Errorf("mark node %s as not ready: %w", name, err)
	}
	return nil
}
