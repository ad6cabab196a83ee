package controlplane

import (
	"fmt"
	"os"

	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/etcdmanifest"
)

// Etcd renders the pods of etcd of a site's control planes, whoever runs them.
type Etcd struct {
	quota etcdpod.Quota
	// bundle is the file of etcd's authorities.
	bundle string
}

// EtcdOf returns that of a site. A site that becomes one of another number of control planes keeps the
// quota, so it does not matter which of the two sites is given.
func EtcdOf(s *site.Site) Etcd {
	return Etcd{quota: s.Config.EtcdQuota(), bundle: state.EtcdPKIDir + "/ca.crt"}
}

// Alone renders the file from which kubelet runs the only etcd.
func (e Etcd) Alone(self decide.Node) ([]byte, error) {
	nodes, err := membersOf([]decide.Node{self})
	if err != nil {
		return nil, err
	}
	return etcdmanifest.Static(nodes[0], payload.Image("etcd"), e.quota)
}

// OneOf renders the file from which kubelet runs etcd of one of several members that has its data.
func (e Etcd) OneOf(self string, members []decide.Node) ([]byte, error) {
	return e.oneOf(self, members, false)
}

// Joining renders it for a member that starts for the first time.
func (e Etcd) Joining(self string, members []decide.Node) ([]byte, error) {
	return e.oneOf(self, members, true)
}

func (e Etcd) oneOf(self string, members []decide.Node, joins bool) ([]byte, error) {
	nodes, err := membersOf(members)
	if err != nil {
		return nil, err
	}
	return etcdmanifest.StaticOf(self, nodes, payload.Image("etcd"), joins, e.quota)
}

// OfPair renders etcd's manifest for one of two hosts, as the operator does.
func (e Etcd) OfPair(nodes []decide.Node, self string) ([]byte, error) {
	bundle, err := os.ReadFile(e.bundle)
	if err != nil {
		return nil, fmt.Errorf("read etcd's authorities: %w", err)
	}
	members, err := membersOf(nodes)
	if err != nil {
		return nil, err
	}
	spec := etcdmanifest.Spec{Name: self, Image: payload.Image("etcd"), CABundle: bundle, Quota: e.quota}
	copy(spec.Nodes[:], members)
	return etcdmanifest.Pod(spec)
}

func membersOf(nodes []decide.Node) ([]etcdmanifest.Node, error) {
	var out []etcdmanifest.Node
	for _, n := range nodes {
		node, err := etcdmanifest.NodeOf(n.Name, n.Address)
		if err != nil {
			return nil, err
		}
		out = append(out, node)
	}
	return out, nil
}
