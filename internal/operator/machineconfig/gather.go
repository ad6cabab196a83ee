package machineconfig

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/hostchange"
	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// clusterName is the name of the objects that there is one of.
const clusterName = "cluster"

// gathered holds the findings of one look at the cluster.
type gathered struct {
	pools   []mcfgv1.MachineConfigPool
	objects decide.Objects
	// rendered are the configurations of the pools that were not refused, by pool.
	rendered map[string]decide.Rendered
	nodes    map[string]*corev1.Node
	site     rollout.Site
	// held says for what of an upgrade other work waits.
	held hold.Held
	// again is the pause before the next look.
	again time.Duration
}

func (r *Reconciler) gather(ctx context.Context) (*gathered, error) {
	g := &gathered{rendered: map[string]decide.Rendered{}, nodes: map[string]*corev1.Node{}, again: resync}
	g.site.Now, g.site.Operator = r.Now(), r.Operator
	var pools mcfgv1.MachineConfigPoolList
	if err := r.Live.List(ctx, &pools); err != nil {
		return nil, fmt.Errorf("list MachineConfigPools: %w", err)
	}
	g.pools = pools.Items
	var nodes corev1.NodeList
	if err := r.Live.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if r.Record != nil {
		record, err := r.Record(ctx)
		if err != nil {
			return nil, err
		}
		g.held = hold.Of(record, nodes.Items)
		g.site.Upgrade = g.held.Away
	}
	if err := r.render(ctx, g); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		g.nodes[n.Name] = n
		g.site.Hosts = append(g.site.Hosts, rollout.HostOf(n))
	}
	if slices.ContainsFunc(g.site.Hosts, func(h rollout.Host) bool { return h.Pressed }) {
		g.site.Kubelet = decide.KubeletOf(g.objects.MachineConfigs)
		for _, made := range g.rendered {
			g.site.Kubelet[made.Name] = made.Config.Kubelet() // it may be about to be created
		}
	}
	return g, r.redundancy(ctx, g)
}

// render merges the MachineConfigs of each pool. A mistake in what the site
// declares about changes stops all pools: hosts would do what nobody meant.
func (r *Reconciler) render(ctx context.Context, g *gathered) error {
	all, err := r.objects(ctx, g.pools)
	if err != nil {
		return err
	}
	// A release of before these files could not read a configuration with them, and a
	// site may still go back to it.
	if g.held.Rewrite != "" && !decide.ProxyFilesGiven(all.MachineConfigs) {
		all.Proxy = nil
	}
	policy := ""
	if _, mistakes := hostchange.Policies(all.Policy); mistakes != nil {
		policy = mistakes.Error()
	}
	g.objects = all
	targets := map[string]target{}
	for i := range g.pools {
		p := &g.pools[i]
		out := rollout.PoolOf(p, g.site.Now, time.LoadLocation)
		out.Problem = policy
		made, err := decide.Of(p, all)
		if err != nil {
			out.Problem = strings.TrimPrefix(out.Problem+"\n"+err.Error(), "\n")
		}
		if out.Problem == "" {
			out.Target, g.rendered[p.Name] = made.Name, made
		}
		targets[p.Name] = r.since(g, p.Name, out.Target)
		out.Settling = g.site.Now.Sub(targets[p.Name].since) < Settle
		g.site.Pools = append(g.site.Pools, out)
	}
	r.targets = targets
	return nil
}

// since returns a pool's configuration and since when it is that. A process that
// has just started does not know, and waits.
func (r *Reconciler) since(g *gathered, pool, name string) target {
	t, known := r.targets[pool]
	if !known || t.name != name {
		t = target{name, g.site.Now}
	}
	if left := Settle - g.site.Now.Sub(t.since); left > 0 {
		g.again = min(g.again, left)
	}
	return t
}

// objects reads the objects from which configurations are made.
func (r *Reconciler) objects(ctx context.Context, pools []mcfgv1.MachineConfigPool) (decide.Objects, error) {
	var configs mcfgv1.MachineConfigList
	if err := r.Client.List(ctx, &configs); err != nil {
		return decide.Objects{}, fmt.Errorf("list MachineConfigs: %w", err)
	}
	var own operatorv1.MachineConfiguration
	if err := r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, &own); client.IgnoreNotFound(err) != nil {
		return decide.Objects{}, fmt.Errorf("read MachineConfiguration %s: %w", clusterName, err)
	}
	var kubelet mcfgv1.KubeletConfigList
	if err := r.Client.List(ctx, &kubelet); err != nil {
		return decide.Objects{}, fmt.Errorf("list KubeletConfigs: %w", err)
	}
	var runtimes mcfgv1.ContainerRuntimeConfigList
	if err := r.Client.List(ctx, &runtimes); err != nil {
		return decide.Objects{}, fmt.Errorf("list ContainerRuntimeConfigs: %w", err)
	}
	digests, tags, err := r.mirrors(ctx)
	if err != nil {
		return decide.Objects{}, err
	}
	proxy, err := r.proxy(ctx)
	if err != nil {
		return decide.Objects{}, err
	}
	return decide.Objects{
		Proxy: proxy, DigestMirrors: digests, TagMirrors: tags,
		MachineConfigs: configs.Items, KubeletConfigs: kubelet.Items, ContainerRuntimeConfigs: runtimes.Items, Pools: pools, Policy: own.Spec.NodeDisruptionPolicy,
	}, nil
}

// mirrors reads the sets that name mirrors for all hosts.
func (r *Reconciler) mirrors(ctx context.Context) ([]configv1.ImageDigestMirrorSet, []configv1.ImageTagMirrorSet, error) {
	if !r.Mirrors {
		return nil, nil, nil
	}
	var digests configv1.ImageDigestMirrorSetList
	if err := r.Client.List(ctx, &digests); err != nil {
		return nil, nil, fmt.Errorf("list %ss: %w", decide.DigestMirrorSet, err)
	}
	var tags configv1.ImageTagMirrorSetList
	if err := r.Client.List(ctx, &tags); err != nil {
		return nil, nil, fmt.Errorf("list %ss: %w", decide.TagMirrorSet, err)
	}
	return digests.Items, tags.Items, nil
}

// proxy reads the site's proxy, its authorities and what the site was installed from.
func (r *Reconciler) proxy(ctx context.Context) (*decide.ClusterProxy, error) {
	out := &decide.ClusterProxy{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, &out.Proxy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Proxy %s: %w", clusterName, err)
	}
	if name := decide.BundleOf(out.Proxy); name != "" {
		var cm corev1.ConfigMap
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: decide.BundleNamespace, Name: name}, &cm)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read ConfigMap %s/%s: %w", decide.BundleNamespace, name, err)
		}
		if err == nil {
			out.Bundle = &cm
		}
	}
	if out.Proxy.Spec.HTTPProxy+out.Proxy.Spec.HTTPSProxy == "" {
		return out, nil
	}
	var err error
	out.Install, err = r.install(ctx)
	return out, err
}

// install returns the text of what the site was installed from; empty if it is not there.
func (r *Reconciler) install(ctx context.Context) (string, error) {
	var cm corev1.ConfigMap
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: decide.InstallNamespace, Name: decide.InstallName}, &cm); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read the site's configuration: %w", err)
	}
	return cm.Data[decide.InstallKey], nil
}

// redundancy finds out which control planes can be spared, if one of them waits
// for its configuration or for a reboot.
func (r *Reconciler) redundancy(ctx context.Context, g *gathered) error {
	members, _ := rollout.Members(g.site)
	wanted := r.targets[rollout.Master].name
	waits := false
	for _, h := range members[rollout.Master] {
		waits = waits || wanted != "" && h.Desired != wanted || h.Wish.Open()
	}
	if !waits {
		return nil
	}
	var lock corev1.ConfigMap
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: replace.LockNamespace, Name: replace.LockName}, &lock); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the plan that changes control planes: %w", err)
	}
	g.site.Plan = plans.Changes(lock.Data)
	text, err := r.install(ctx)
	if err != nil {
		return err
	}
	// A configuration that cannot be read is unknown: the decision waits.
	if c, err := config.Unmarshal([]byte(text)); err == nil {
		g.site.ControlPlanes = c.ControlPlaneReplicas()
	}
	switch {
	case g.site.ControlPlanes < 2:
		return nil
	case r.TwoNode:
		return r.pair(ctx, g)
	default:
		r.quorum(ctx, g, members[rollout.Master])
		return nil
	}
}

// pair reads what Pacemaker says of two control planes.
func (r *Reconciler) pair(ctx context.Context, g *gathered) error {
	var cluster etcdv1.PacemakerCluster
	if err := r.Live.Get(ctx, client.ObjectKey{Name: clusterName}, &cluster); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read PacemakerCluster: %w", err)
	}
	g.site.Spares = rollout.PairSpares(cluster.Status, g.site.Now)
	return nil
}

// quorum asks the members of etcd on three or more control planes.
func (r *Reconciler) quorum(ctx context.Context, g *gathered, hosts []rollout.Host) {
	serves, addresses := map[string]state.Fact[bool]{}, map[string]string{}
	for _, h := range hosts {
		serves[h.Name] = state.Fact[bool]{}
		for _, a := range g.nodes[h.Name].Status.Addresses {
			if a.Type == corev1.NodeInternalIP && addresses[h.Name] == "" {
				addresses[h.Name] = a.Address
			}
		}
	}
	maps.Copy(serves, r.Serves(ctx, addresses))
	g.site.Spares = rollout.QuorumSpares(serves)
}
