package hostnet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/machineconfig"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// Cluster returns what the machine configuration of this host needs, by the account
// of its kubelet.
func (n *Network) Cluster() machineconfig.Cluster {
	return machineconfig.Cluster{API: account{n}, View: n.agent.Views.View, Leave: n.agent.Views.Leave, EndAPI: new(ender).endAPI}
}

// endLimit bounds the wait for an API server that was asked to end: until it takes no new
// connection, and a second for the requests that it has. Then it ends with the last watch.
const endLimit = kubeadm.ShutdownDelay + time.Second

// ender asks each API server to end once: a second signal would cut it off from what it still answers.
type ender struct {
	mu    sync.Mutex
	asked []int
}

// endAPI asks the API server of this host to end, and waits a short time. Called again, it ends the one that
// kubelet has started in its place.
func (e *ender) endAPI(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, endLimit)
	defer stop()
	server := host.PodProgram{Name: "kube-apiserver", Flag: "--service-account-key-file", File: "/etc/kubernetes/pki/sa.pub"}
	pids, err := server.Processes()
	if err != nil {
		return // without it clients lose some requests, as with any shutdown
	}
	for _, pid := range pids {
		if slices.Contains(e.asked, pid) {
			continue
		}
		e.asked = append(e.asked, pid)
		_ = host.EndProcess(ctx, pid, func() bool { return server.Is(pid) })
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
	var n *corev1.Node
	err := a.servers.Try(ctx, func(ctx context.Context, c *kube.Client) (err error) {
		n, err = c.Node(ctx, node)
		return err
	})
	if err != nil {
		return false, err
	}
	if n == nil {
		return false, fmt.Errorf("the API has no node %s", node)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, nil
		}
	}
	return false, nil
}

// SetAnnotations implements machineconfig.API.
func (a account) SetAnnotations(ctx context.Context, node string, values map[string]*string) error {
	return a.setAnnotations(ctx, node, values)
}
