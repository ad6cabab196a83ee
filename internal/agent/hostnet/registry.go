package hostnet

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/model/retired"
)

// registry is the API of package registration.
type registry struct{ *kube.Client }

// Retired implements registration.API. It is an error if the entry of this host cannot be
// read, so that the Node of a host which may have been taken out is not made again.
func (r registry) Retired(ctx context.Context, n *corev1.Node) (string, error) {
	data, err := r.ConfigMap(ctx, retired.Namespace, retired.ConfigMap)
	if err != nil {
		return "", err
	}
	list, err := retired.Read(data)
	if _, read := list.Of(n.Name); err != nil && !read {
		if _, listed := data[n.Name]; listed {
			return "", err
		}
	}
	return list.Out(n.Name, string(n.UID), ""), nil
}
