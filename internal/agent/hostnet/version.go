package hostnet

import (
	"context"

	"k8s.io/apimachinery/pkg/version"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/site"
)

// OwnServer returns a way to this host's own API server, by the account of its kubelet.
func (n *Network) OwnServer() func(ctx context.Context) (version.Info, error) {
	own := &kube.Servers{Kubeconfig: kubeconfig, Name: n.servers.Name, Addresses: func() []string {
		return []string{"https://" + site.HostPort("127.0.0.1", apilb.ServerPort)}
	}}
	return func(ctx context.Context) (out version.Info, err error) {
		err = own.Try(ctx, func(ctx context.Context, c *kube.Client) error {
			out, err = c.Version(ctx)
			return err
		})
		return out, err
	}
}
