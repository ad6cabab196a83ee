package controlplane

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/kube"
	"github.com/holdfast/holdfast/internal/state"
)

// adminKubeconfig is what kubeadm leaves on a control plane.
const adminKubeconfig = "/etc/kubernetes/admin.conf"

// again is the pause before nodes that could not be brought in step are looked
// at once more.
const again = time.Second

// Nodes takes the nodes of the cluster from whoever watches them. It never
// blocks; only the newest list counts. There is one caller.
func (r *Agent) Nodes(list []state.Node) {
	select {
	case <-r.nodes:
	default:
	}
	r.nodes <- list
}

// followNodes keeps the labels of nodes in step until the context ends.
func (r *Agent) followNodes(ctx context.Context) {
	retry := time.NewTimer(again)
	defer retry.Stop()
	var list []state.Node
	trouble := r.trouble("nodes")
	for {
		select {
		case <-ctx.Done():
			return
		case list = <-r.nodes:
		case <-retry.C:
		}
		err := r.keepStep(ctx, list)
		if err != nil {
			retry.Reset(again)
		}
		if !errors.Is(err, fs.ErrNotExist) { // the host is not set up yet
			trouble.Hear(err)
		}
	}
}

// keepStep labels nodes and tells which machine this is, where either is to be
// done.
func (r *Agent) keepStep(ctx context.Context, list []state.Node) error {
	if !r.unlabelled(list) && !r.untold(list) {
		return nil
	}
	if _, err := os.Stat(adminKubeconfig); err != nil {
		return err
	}
	client, err := kube.Open(adminKubeconfig)
	if err != nil {
		return err
	}
	return errors.Join(r.label(ctx, client, list), r.tellMachine(ctx, client, list))
}

func (r *Agent) unlabelled(list []state.Node) bool {
	for _, n := range list {
		if len(noderole.Missing(n.Labels, r.Site.Topology().MastersSchedulable)) > 0 {
			return true
		}
	}
	return false
}

// label gives every node the role labels it lacks. All control planes do it;
// the result is the same whoever comes first.
func (r *Agent) label(ctx context.Context, client *kube.Client, nodes []state.Node) error {
	var errs []error
	for _, n := range nodes {
		missing := noderole.Missing(n.Labels, r.Site.Topology().MastersSchedulable)
		if len(missing) == 0 {
			continue
		}
		if err := client.AddLabels(ctx, n.Name, missing); err != nil {
			errs = append(errs, err)
			continue
		}
		r.logf("node %s is now labelled %v", n.Name, missing)
	}
	return errors.Join(errs...)
}
