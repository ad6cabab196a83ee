package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
)

// taintTimeout bounds one request about a taint. It is short: while an API server
// hangs without etcd, another attempt is worth more than waiting.
const taintTimeout = 3 * time.Second

// services is the API as package outofservice needs it.
type services struct{ client *kube.Client }

// NodeService returns the facts that decide whether a node is out of service.
func (s services) NodeService(ctx context.Context, name string) (outofservice.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
	defer cancel()
	n, err := s.client.Node(ctx, name)
	if err != nil {
		return outofservice.Node{}, err
	}
	if n == nil {
		return outofservice.Node{}, fmt.Errorf("the API has no node %s", name)
	}
	return serviceOf(n), nil
}

// PatchNode changes a node. It fails if the node has changed since it was read.
func (s services) PatchNode(ctx context.Context, name string, ops []outofservice.Operation) error {
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
	defer cancel()
	patch, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("patch node %s: %w", name, err)
	}
	return s.client.PatchNode(ctx, name, patch)
}

// MarkUnready tells the API that a node is not ready.
func (s services) MarkUnready(ctx context.Context, name, message string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
	defer cancel()
	return s.client.MarkUnready(ctx, name, message, now)
}

// watch calls changed whenever a node changed, and every 30 s, with the facts
// that decide whether nodes are out of service. It returns when the context ends.
func (s services) watch(ctx context.Context, changed func([]outofservice.Node)) error {
	return s.client.WatchNodes(ctx, func(list []*corev1.Node) {
		var nodes []outofservice.Node
		for _, n := range list {
			nodes = append(nodes, serviceOf(n))
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
