package hostnet

import (
	"context"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// Cluster returns what the machine configuration of this host needs, by the account
// of its kubelet.
func (n *Network) Cluster() machineconfig.Cluster {
	server := newAPIServer()
	return machineconfig.Cluster{
		API: account{n}, View: n.agent.Views.View, Leave: n.agent.Views.Leave,
		EndAPI: server.end, EndAnew: server.endAnew,
	}
}

// Try calls do with an API server that answers, by a kubeconfig of this host. That of
// kubelet is the usual one.
func (n *Network) Try(ctx context.Context, path string, do func(context.Context, *kube.Client) error) error {
	servers := n.servers
	if path != servers.Kubeconfig {
		servers = &kube.Servers{Kubeconfig: path, Name: servers.Name, Addresses: servers.Addresses}
	}
	return servers.Try(ctx, do)
}

// account asks the first API server that answers.
type account struct{ *Network }

// MachineConfig implements machineconfig.API.
func (a account) MachineConfig(ctx context.Context, name string) (out *mcfgv1.MachineConfig, err error) {
	err = a.servers.Try(ctx, func(ctx context.Context, c *kube.Client) error {
		out, err = c.MachineConfig(ctx, name)
		return err
	})
	return out, err
}

// NodeReady implements machineconfig.API.
func (a account) NodeReady(ctx context.Context, node string) (bool, error) {
	n, err := a.node(ctx, node)
	if err != nil {
		return false, err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, nil
		}
	}
	return false, nil
}

// NodePressures implements machineconfig.API.
func (a account) NodePressures(ctx context.Context, node string) ([]corev1.NodeConditionType, error) {
	n, err := a.node(ctx, node)
	if err != nil {
		return nil, err
	}
	return rollout.Pressures(n.Status.Conditions), nil
}

func (a account) node(ctx context.Context, name string) (n *corev1.Node, err error) {
	err = a.servers.Try(ctx, func(ctx context.Context, c *kube.Client) (err error) {
		n, err = c.Node(ctx, name)
		return err
	})
	if err == nil && n == nil {
		err = fmt.Errorf("the API has no node %s", name)
	}
	return n, err
}

// SetAnnotations implements machineconfig.API.
func (a account) SetAnnotations(ctx context.Context, node string, values map[string]*string) error {
	return a.setAnnotations(ctx, node, values)
}
