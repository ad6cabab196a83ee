package controlplane

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/kube"
	"github.com/holdfast/holdfast/internal/payload"
	"github.com/holdfast/holdfast/internal/render/keepalived"
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
		_ = sleep(ctx, time.Second) // the loop looks at the context itself
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
	return client.WatchNodes(ctx, func(nodes []state.Node) {
		r.label(ctx, client, nodes)
		if err := r.keepVIPs(nodes); err != nil {
			r.logf("virtual IPs: %v", err)
		}
	})
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

// keepVIPs writes keepalived's files for the control planes there are and
// tells keepalived when something changed. A further control plane takes part
// only once it is installed: by then the others have long listed it, and it
// hears their adverts instead of taking the VIP beside them.
func (r *run) keepVIPs(nodes []state.Node) error {
	bootstrapping := r.Site.Role == state.RoleBootstrap && !installed()
	if !bootstrapping && !installed() {
		return nil
	}
	instances := keepalived.Instances(keepalived.Site{
		Cluster: r.Site.Config.Metadata.Name, VIPs: r.Site.Config.APIVIPs(),
		Interface: r.facts.Interface, Own: r.facts.Addresses,
		ControlPlanes: controlPlaneAddresses(nodes), Bootstrap: bootstrapping,
	})
	if len(instances) == 0 {
		return nil
	}
	files, err := keepalived.Files(instances, payload.Image("keepalived"))
	if err != nil {
		return err
	}
	changed, err := host.WriteFiles("/", files)
	if err != nil || !slices.Contains(changed, keepalived.ConfigPath) {
		return err
	}
	r.logf("keepalived: %d peers, priority %d", len(instances[0].Peers), instances[0].Priority)
	return host.SignalPIDFile(keepalived.PIDFile, syscall.SIGHUP)
}

func installed() bool {
	_, err := os.Stat(install.CompletePath)
	return err == nil
}

func controlPlaneAddresses(nodes []state.Node) []netip.Addr {
	var out []netip.Addr
	for _, n := range nodes {
		if n.ControlPlane() {
			out = append(out, n.Addresses...)
		}
	}
	return out
}
