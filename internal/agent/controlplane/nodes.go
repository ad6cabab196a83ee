package controlplane

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// retryInterval is the pause before a retry, of nodes that could not be brought in step
// for example.
const retryInterval = time.Second

// Nodes receives the nodes of the cluster from their watcher. It never blocks;
// only the newest list counts.
func (r *Agent) Nodes(list []state.Node) { r.nodes.Put(list) }

// nodesTask keeps the labels of nodes in step.
func (r *Agent) nodesTask() loop.Task {
	return loop.Task{Name: "node labels", Wake: r.nodes.Wake, Retry: retryInterval, Limit: manyRequests, NotYet: notSetUp, Step: func(ctx context.Context) (loop.Result, error) {
		return loop.Result{}, r.keepStep(ctx, r.nodes.Get())
	}}
}

// keepStep labels nodes and publishes which machine this is, as far as needed.
func (r *Agent) keepStep(ctx context.Context, list []state.Node) error {
	if !r.unlabelled(list) && !r.untold(list) {
		return nil
	}
	client, err := r.open()
	if err != nil {
		return err
	}
	return errors.Join(r.label(ctx, client, list), r.tellMachine(ctx, client, list))
}

func (r *Agent) unlabelled(list []state.Node) bool {
	return slices.ContainsFunc(list, func(n state.Node) bool { return len(r.missing(n)) > 0 })
}

// missing returns the role labels that a node lacks. That another host is a
// control plane shows in its label alone. This host knows it of itself: its
// installation as one is complete, and it labels nodes by an account that no
// worker has. So a control plane's own agent restores its labels, whoever removed
// them or the whole Node.
func (r *Agent) missing(n state.Node) []string {
	own := n.Name == r.facts.NodeName && r.Site.Role.ControlPlane() && r.proven()
	return noderole.Missing(n.Labels, r.Site.Topology().MastersSchedulable, own)
}

// label gives every node the role labels that it lacks. All control planes do it;
// the result is the same whoever comes first.
func (r *Agent) label(ctx context.Context, client *kube.Client, nodes []state.Node) error {
	var errs []error
	for _, n := range nodes {
		missing := r.missing(n)
		if len(missing) == 0 {
			continue
		}
		if err := r.mark(ctx, client, n.Name, missing); err != nil {
			errs = append(errs, err)
			continue
		}
		r.Log.Info("labelled a node", "node", n.Name, "labels", missing)
	}
	return errors.Join(errs...)
}

// mark labels a node. If the node becomes a control plane again, and workers take
// ordinary pods, mark first closes it to those, as kubeadm does.
func (r *Agent) mark(ctx context.Context, client *kube.Client, node string, labels []string) error {
	if slices.Contains(labels, noderole.ControlPlane) && !r.Site.Topology().MastersSchedulable {
		if err := client.AddTaint(ctx, node, kubeadm.ControlPlaneTaint); err != nil {
			return err
		}
	}
	return client.AddLabels(ctx, node, labels)
}
