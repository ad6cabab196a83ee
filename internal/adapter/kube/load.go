package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsAtOnce is the number of pods in one page of the list: an agent has little
// memory.
const podsAtOnce = 100

// EachPod calls do with each pod of the cluster, and returns its nodes.
func (c *Client) EachPod(ctx context.Context, do func(*corev1.Pod)) ([]corev1.Node, error) {
	nodes, err := c.set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for next := ""; ; {
		pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: podsAtOnce, Continue: next})
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for i := range pods.Items {
			do(&pods.Items[i])
		}
		if next = pods.Continue; next == "" {
			return nodes.Items, nil
		}
	}
}

// Pods returns all pods from the cache of the API server, which does not ask
// etcd for it.
func (c *Client) Pods(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}
