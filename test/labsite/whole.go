package labsite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Whole returns what a site lacks to be whole: its nodes are ready, two control
// planes are a pair, every load balancer knows every API server, and each
// virtual address has exactly one holder.
func (s *Site) Whole(ctx context.Context) error {
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.NodesReady(ctx, hosts...), s.pair(ctx), s.balanced(ctx), s.held(ctx))
}

// NodesReady returns nil if exactly these nodes exist, all ready.
func (s *Site) NodesReady(ctx context.Context, names ...string) error {
	var nodes corev1.NodeList
	if err := s.API.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	ready := map[string]bool{}
	for i := range nodes.Items {
		ready[nodes.Items[i].Name] = Ready(&nodes.Items[i])
	}
	for _, name := range names {
		if !ready[name] {
			return fmt.Errorf("node %s is not ready", name)
		}
		delete(ready, name)
	}
	if len(ready) > 0 {
		return fmt.Errorf("there are nodes beside %v: %v", names, slices.Sorted(maps.Keys(ready)))
	}
	return nil
}

// Ready reports whether a node is ready according to the API.
func Ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// reportWithin bounds a request to the etcd keeper.
const reportWithin = 2 * time.Second

// pair returns nil if two control planes both record that they are a pair.
func (s *Site) pair(ctx context.Context) error {
	list := s.ControlPlanes()
	if len(list) != 2 {
		return nil
	}
	for _, h := range list {
		r, err := s.Etcd(ctx, h)
		if err != nil {
			return fmt.Errorf("etcd keeper of %s: %w", h, err)
		}
		if got := r.Snapshot.Record; !got.Known || got.Value.State != state.EtcdPair {
			return fmt.Errorf("etcd of %s is %s, not pair: %s %s", h, got.Value.State, r.Verdict.Reason, r.Problem)
		}
	}
	return nil
}

// Etcd returns the report of the etcd keeper on a host.
func (s *Site) Etcd(ctx context.Context, host string) (state.EtcdReport, error) {
	root, err := s.Lab.Root(ctx, s.Power, host)
	if err != nil {
		return state.EtcdReport{}, err
	}
	return AskKeeper(ctx, root+state.EtcdSocketPath)
}

// AskKeeper returns the report of the etcd keeper that listens on a socket.
func AskKeeper(ctx context.Context, socket string) (state.EtcdReport, error) {
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	return keeperclient.Report(ctx, socket)
}

// balanced returns nil if every load balancer gives requests to every API
// server.
func (s *Site) balanced(ctx context.Context) error {
	list := s.ControlPlanes()
	for _, h := range list {
		n, err := s.Network(ctx, h)
		if err != nil {
			return err
		}
		if !n.View.Settings.ManagedVIPs {
			return nil
		}
		if live := n.View.Balancer.Value.Live(); !n.View.Balancer.Known || live != len(list) {
			return fmt.Errorf("haproxy of %s has %d API servers that take requests, want %d: %v", h, live, len(list), n.View.Balancer.Value.Backends)
		}
	}
	return nil
}

// held returns nil if each current virtual address of the cluster has one
// holder.
func (s *Site) held(ctx context.Context) error {
	n, err := s.Network(ctx, s.ControlPlanes()[0])
	if err != nil {
		return err
	}
	var errs []error
	for _, vip := range n.View.Settings.VIPs() {
		_, err := s.Holder(vip)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// RouterPods returns the routers of an IngressController, including those that
// are ending.
func (s *Site) RouterPods(ctx context.Context, labels map[string]string, namespace string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := s.API.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(labels))
	return pods.Items, err
}

// Fenced returns the targets of the fences since a moment, as the hosts that run
// recorded them.
func (s *Site) Fenced(ctx context.Context, since time.Time) ([]string, error) {
	var out []string
	var errs []error
	for _, h := range s.ControlPlanes() {
		root, err := s.Lab.Root(ctx, s.Power, h)
		if err != nil {
			continue
		}
		list, err := records.Files{Root: root}.Fences()
		errs = append(errs, err)
		for _, r := range list {
			if r.Off && r.Time.After(since) && (r.Action == "off" || r.Action == "reboot") {
				out = append(out, r.Target)
			}
		}
	}
	return out, errors.Join(errs...)
}
