package controlplane

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/kube"
	"github.com/holdfast/holdfast/internal/state"
)

// adminKubeconfig is what kubeadm leaves on a control plane.
const adminKubeconfig = "/etc/kubernetes/admin.conf"

// followNodes keeps labels and VRRP peers in step with the nodes of the
// cluster, from the moment this host has access to one and until the context
// ends. An interrupted watch begins anew.
func (r *run) followNodes(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.watchOnce(ctx)
		if ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
			r.logf("watch nodes: %v", err)
		}
		_ = host.Sleep(ctx, time.Second) // the loop looks at the context itself
	}
}

func (r *run) watchOnce(ctx context.Context) error {
	if _, err := os.Stat(adminKubeconfig); err != nil {
		return err
	}
	client, err := kube.Open(adminKubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	again := make(chan struct{})
	go tellOfProgress(ctx, again)
	return client.WatchNodes(ctx, again, func(nodes []state.Node) {
		r.label(ctx, client, nodes)
		r.tellMachine(ctx, client, nodes)
		if err := r.keepVIPs(nodes); err != nil {
			r.logf("virtual IPs: %v", err)
		}
	})
}

// tellOfProgress sends whenever this host's installation has come to a point
// at which its part in the virtual IPs changes, until it is complete.
func tellOfProgress(ctx context.Context, again chan<- struct{}) {
	for before := stageNow(); before != stageInstalled; {
		if host.Sleep(ctx, stageEvery) != nil {
			return
		}
		now := stageNow()
		if now == before {
			continue
		}
		before = now
		select {
		case again <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// label gives every node the role labels it lacks. All control planes do it;
// the result is the same whoever comes first.
func (r *run) label(ctx context.Context, client *kube.Client, nodes []state.Node) {
	for _, n := range nodes {
		missing := noderole.Missing(n.Labels, r.Site.Topology().MastersSchedulable)
		if len(missing) == 0 {
			continue
		}
		if err := client.AddLabels(ctx, n.Name, missing); err != nil {
			r.logf("%v", err)
			continue
		}
		r.logf("node %s is now labelled %v", n.Name, missing)
	}
}
