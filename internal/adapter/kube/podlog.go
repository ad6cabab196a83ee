package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodLog is the end of one container's log.
type PodLog struct {
	Namespace, Pod, Container string
	Text                      []byte
	// Err is the reason why there is no text.
	Err error
}

// PodLogs returns the ends of the logs of all containers in the given
// namespaces.
func (c *Client) PodLogs(ctx context.Context, namespaces []string, lines int64) ([]PodLog, error) {
	var out []PodLog
	for _, ns := range namespaces {
		list, err := c.set.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return out, fmt.Errorf("list pods of %s: %w", ns, err)
		}
		for i := range list.Items {
			out = append(out, c.podLogs(ctx, &list.Items[i], lines)...)
		}
	}
	return out, nil
}

// mostOfALog bounds the log of one container, in bytes.
const mostOfALog = 256 << 10

func (c *Client) podLogs(ctx context.Context, p *corev1.Pod, lines int64) []PodLog {
	var out []PodLog
	for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		opts := &corev1.PodLogOptions{Container: container.Name, TailLines: new(lines), LimitBytes: new(int64(mostOfALog)), Timestamps: true}
		text, err := c.set.CoreV1().Pods(p.Namespace).GetLogs(p.Name, opts).DoRaw(ctx)
		out = append(out, PodLog{p.Namespace, p.Name, container.Name, text, err})
	}
	return out
}
