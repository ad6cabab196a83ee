package hostnet

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
)

// registry is the API of package registration.
type registry struct{ *kube.Client }

// Retired implements registration.API. It is an error if the entry of this host cannot be
// read, so that the Node of a host which may have been taken out is not made again.
func (r registry) Retired(ctx context.Context, n *corev1.Node) (string, error) {
	list, err := r.Client.Retired(ctx, n.Name)
	return list.Out(n.Name, string(n.UID), ""), err
}
