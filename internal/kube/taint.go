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

	"github.com/holdfast/holdfast/internal/decide/outofservice"
)

// taintTimeout bounds one request about a taint. It is short: while an API
// server hangs without etcd, the next attempt is worth more than patience.
const taintTimeout = 3 * time.Second

// NodeService returns what decides whether a node is out of service.
func (c *Client) NodeService(ctx context.Context, name string) (outofservice.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
	defer cancel()
	n, err := c.set.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return outofservice.Node{}, fmt.Errorf("get node %s: %w", name, err)
	}
	return serviceOf(n), nil
}

// PatchNode changes a node by a JSON patch. It is an error if one of its tests
// fails: the node is then another than was looked at.
func (c *Client) PatchNode(ctx context.Context, name string, ops []outofservice.Operation) error {
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
	defer cancel()
	patch, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("patch node %s: %w", name, err)
	}
	if _, err := c.set.CoreV1().Nodes().Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("patch node %s: %w", name, err)
	}
	return nil
}

// AddTaint gives a node a taint of this key that no new pods come there, if it has
// none.
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

// MarkUnready tells the API that a node is not ready, whose kubelet cannot say
// so. A kubelet that runs corrects it with its next report.
func (c *Client) MarkUnready(ctx context.Context, name, message string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
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

// WatchNodeServices calls changed, with what decides whether nodes are out of
// service, whenever a node changed, and every 30 s. It returns when the context
// ends.
func (c *Client) WatchNodeServices(ctx context.Context, changed func([]outofservice.Node)) error {
	return c.watchNodes(ctx, func(items []any) {
		var nodes []outofservice.Node
		for _, item := range items {
			if n, ok := item.(*corev1.Node); ok {
				nodes = append(nodes, serviceOf(n))
			}
		}
		changed(nodes)
	})
}

func serviceOf(n *corev1.Node) outofservice.Node {
	out := outofservice.Node{Name: n.Name, ResourceVersion: n.ResourceVersion, Annotations: n.Annotations}
	for _, t := range n.Spec.Taints {
		taint := outofservice.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)}
		if t.TimeAdded != nil {
			taint.TimeAdded = t.TimeAdded.UTC().Format(time.RFC3339)
		}
		out.Taints = append(out.Taints, taint)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready, out.ReadySince, out.Heartbeat = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time, c.LastHeartbeatTime.Time
		}
	}
	return out
}
