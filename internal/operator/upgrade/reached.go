package upgrade

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/workload"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
)

// Where a pod of the cluster's name server, of which each host has one, says that it is ready,
// and where a host's kubelet answers. Whatever they say, they were reached.
const (
	readyPort   = 8181
	readyPath   = "/ready"
	kubeletPort = 10250
)

// unreached says to which hosts the pod network does not lead; empty if it leads to all that
// answer. Its daemon has no probe, and one that runs and does nothing looks like a good one.
// Nobody looks without an upgrade.
func (r *Reconciler) unreached(ctx context.Context, g *gathered) (string, error) {
	if !g.book.record.Started || r.Ask == nil {
		return "", nil
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(clusterdns.Namespace), client.MatchingLabels{clusterdns.Label: clusterdns.ServiceName}); err != nil {
		return "", fmt.Errorf("list the name servers of the cluster: %w", err)
	}
	addresses := map[string]string{}
	for i := range g.seen.Nodes {
		for _, a := range g.seen.Nodes[i].Status.Addresses {
			if name := g.seen.Nodes[i].Name; a.Type == corev1.NodeInternalIP && addresses[name] == "" {
				addresses[name] = a.Address
			}
		}
	}
	var all sync.WaitGroup
	var list []*parts.Reached
	for i := range pods.Items {
		p := &pods.Items[i]
		at := addresses[p.Spec.NodeName]
		if !workload.Ready(p) || p.DeletionTimestamp != nil || p.Status.PodIP == "" || at == "" || p.Spec.HostNetwork {
			continue
		}
		one := &parts.Reached{Host: p.Spec.NodeName}
		list = append(list, one)
		all.Go(func() { one.Pod = r.answers(ctx, p.Status.PodIP, readyPort, p.Name, readyPath) })
		all.Go(func() { one.Itself = r.answers(ctx, at, kubeletPort, p.Spec.NodeName, "/healthz") })
	}
	all.Wait()
	var out []parts.Reached
	for _, one := range list {
		out = append(out, *one)
	}
	return parts.Unreached(out), nil
}

// answers reports whether a server answers, one that is busy at the second time.
func (r *Reconciler) answers(ctx context.Context, address string, port int, host, path string) bool {
	for range 2 {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		status := r.Ask(limited, net.JoinHostPort(address, strconv.Itoa(port)), host, path)
		cancel()
		if status != 0 {
			return true
		}
	}
	return false
}
