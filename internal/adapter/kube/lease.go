package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeLeases is the namespace of the Leases by which kubelets show that they
// are alive; each has the name of its node.
const NodeLeases = "kube-node-lease"

// NodeLeaseAnnotation returns the values of an annotation of the nodes' Leases,
// by node. It leaves out Leases without it.
func (c *Client) NodeLeaseAnnotation(ctx context.Context, name string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoordinationV1().Leases(NodeLeases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Leases of %s: %w", NodeLeases, err)
	}
	out := map[string]string{}
	for _, l := range list.Items {
		if value, has := l.Annotations[name]; has {
			out[l.Name] = value
		}
	}
	return out, nil
}

// NodeLastSeen returns when a node last renewed its Lease, zero if it has none.
func (c *Client) NodeLastSeen(ctx context.Context, node string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	l, err := c.set.CoordinationV1().Leases(NodeLeases).Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("get Lease %s/%s: %w", NodeLeases, node, err)
	case l.Spec.RenewTime == nil:
		return time.Time{}, nil
	}
	return l.Spec.RenewTime.Time, nil
}
