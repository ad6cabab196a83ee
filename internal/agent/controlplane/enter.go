package controlplane

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/etcdmanifest"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// enter answers a control plane that asks to take the place of a lost one.
func (r *Agent) enter(ctx context.Context, own jointoken.Claims, request []byte) (configserver.Entry, error) {
	if !r.Site.Topology().Fencing {
		return configserver.Entry{}, nil
	}
	door := &replace.Door{
		Store: replacement.ThisStore(), Cluster: manifests.InfrastructureName(r.Site.Config), Manifest: EtcdManifest, Now: r.Now,
	}
	return door.Ask(ctx, own.Host, request)
}

// out says that another machine has the place of a machine of a host.
func (r *Agent) out(name string, machine state.Machine) (string, error) {
	return (&replace.Door{Store: replacement.ThisStore()}).Out(name, machine)
}

// EtcdPod renders the file from which kubelet runs the only etcd.
func EtcdPod(self decide.Node) ([]byte, error) {
	address, err := netip.ParseAddr(self.Address)
	if err != nil {
		return nil, fmt.Errorf("address of %s: %w", self.Name, err)
	}
	return etcdmanifest.Static(etcdmanifest.Node{Name: self.Name, Address: address}, payload.Image("etcd"))
}

// EtcdManifest renders etcd's manifest for one of two hosts, as the operator does.
func EtcdManifest(nodes []decide.Node, self string) ([]byte, error) {
	bundle, err := os.ReadFile(state.EtcdPKIDir + "/ca.crt")
	if err != nil {
		return nil, fmt.Errorf("read etcd's authorities: %w", err)
	}
	spec := etcdmanifest.Spec{Name: self, Image: payload.Image("etcd"), CABundle: bundle}
	for i, n := range nodes {
		address, err := netip.ParseAddr(n.Address)
		if err != nil {
			return nil, fmt.Errorf("address of %s: %w", n.Name, err)
		}
		spec.Nodes[i] = etcdmanifest.Node{Name: n.Name, Address: address}
	}
	return etcdmanifest.Pod(spec)
}
