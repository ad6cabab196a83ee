package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/hostchange"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

func newConfig(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and change what configuration hosts have",
		Long: `Files, units, keys and kernel arguments of hosts come from MachineConfigs. Those that
a MachineConfigPool selects are merged into one configuration. holdfast-operator gives
it to the hosts of the pool, one after the other, and each host's agent applies it.

To change the configuration, apply MachineConfigs:

  holdfast config apply -f motd.yaml --dry-run
  holdfast config apply -f motd.yaml
  holdfast config show

kubectl apply does the same, and tells mistakes only afterwards, in the status of the
pool.`,
	}
	cmd.AddCommand(newConfigShow(streams), newConfigDiff(streams), newConfigApply(streams))
	return cmd
}

// configFlags holds the flags of all commands about configurations.
type configFlags struct {
	place  place.Flags
	output string
}

func (f *configFlags) register(cmd *cobra.Command) {
	formatFlag(cmd, &f.output)
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareLab(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.pools(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
}

// pools returns the names of pools for the completion of a command line. It says
// nothing of an API that does not answer.
func (f *configFlags) pools(ctx context.Context) []cobra.Completion {
	_, s, err := f.read(ctx)
	if err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, p := range s.pools {
		out = append(out, p.Name)
	}
	return out
}

// machineConfigs is what a cluster says about the configuration of its hosts.
type machineConfigs struct {
	// pools are in the order of their turns.
	pools   []mcfgv1.MachineConfigPool
	objects machineconfig.Objects
	nodes   []corev1.Node
	hosts   []rollout.Host
	members map[string][]rollout.Host
	astray  []rollout.Astray
}

// read reads the cluster that the flags name, and returns its API too.
func (f *configFlags) read(ctx context.Context) (client.Client, *machineConfigs, error) {
	if err := f.place.Check(); err != nil {
		return nil, nil, err
	}
	access, err := f.place.OpenAPI(ctx)
	if err != nil {
		return nil, nil, err
	}
	return openMachineConfigs(ctx, access)
}

// openMachineConfigs reads the configurations of a cluster.
func openMachineConfigs(ctx context.Context, access kube.Access) (client.Client, *machineConfigs, error) {
	cfg, err := access.Config()
	if err != nil {
		return nil, nil, err
	}
	scheme, err := kube.NewScheme(mcfgv1.Install)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, err
	}
	s, err := readMachineConfigs(ctx, c)
	return c, s, err
}

var errNoMachineConfigs = errors.New("this cluster has no MachineConfigs: an earlier release installed it")

func readMachineConfigs(ctx context.Context, c client.Reader) (*machineConfigs, error) {
	var pools mcfgv1.MachineConfigPoolList
	var configs mcfgv1.MachineConfigList
	var kubelet mcfgv1.KubeletConfigList
	var runtimes mcfgv1.ContainerRuntimeConfigList
	var nodes corev1.NodeList
	var own operatorv1.MachineConfiguration
	err := errors.Join(c.List(ctx, &pools), c.List(ctx, &configs), c.List(ctx, &kubelet), c.List(ctx, &runtimes), c.List(ctx, &nodes),
		client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Name: "cluster"}, &own)))
	if meta.IsNoMatchError(err) {
		return nil, errNoMachineConfigs
	}
	if err != nil {
		return nil, fmt.Errorf("read MachineConfigs: %w", err)
	}
	digests, tags, err := readMirrorSets(ctx, c)
	if err != nil {
		return nil, err
	}
	proxy, err := readClusterProxy(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &machineConfigs{pools: pools.Items, nodes: nodes.Items, objects: machineconfig.Objects{
		Proxy: proxy, DigestMirrors: digests, TagMirrors: tags,
		MachineConfigs: configs.Items, KubeletConfigs: kubelet.Items, ContainerRuntimeConfigs: runtimes.Items,
		Pools: slices.Clone(pools.Items), Policy: own.Spec.NodeDisruptionPolicy,
	}}
	out.group()
	if _, err := hostchange.Policies(own.Spec.NodeDisruptionPolicy); err != nil {
		return nil, fmt.Errorf("what this site declares about changes cannot be used, and no host is given anything: %w", err)
	}
	return out, nil
}

// readMirrorSets reads the sets that name mirrors for all hosts. A cluster that an earlier
// release installed has none.
func readMirrorSets(ctx context.Context, c client.Reader) ([]configv1.ImageDigestMirrorSet, []configv1.ImageTagMirrorSet, error) {
	var digests configv1.ImageDigestMirrorSetList
	var tags configv1.ImageTagMirrorSetList
	err := c.List(ctx, &digests)
	if err == nil {
		err = c.List(ctx, &tags)
	}
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, nil, fmt.Errorf("read sets of mirrors: %w", err)
	}
	return digests.Items, tags.Items, nil
}

// readClusterProxy reads the site's proxy, its authorities and what the cluster was
// installed from.
func readClusterProxy(ctx context.Context, c client.Reader) (*machineconfig.ClusterProxy, error) {
	out := &machineconfig.ClusterProxy{}
	if err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, &out.Proxy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Proxy cluster: %w", err)
	}
	var bundle, install corev1.ConfigMap
	name := cmp.Or(machineconfig.BundleOf(out.Proxy), machineconfig.BundleName)
	err := c.Get(ctx, client.ObjectKey{Namespace: machineconfig.BundleNamespace, Name: name}, &bundle)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", machineconfig.BundleNamespace, name, err)
	}
	if err == nil {
		out.Bundle = &bundle
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: machineconfig.InstallNamespace, Name: machineconfig.InstallName}, &install); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read what this cluster was installed from: %w", err)
	}
	out.Install = install.Data[machineconfig.InstallKey]
	return out, nil
}

// group fills in the hosts of each pool, and brings the pools into the order of
// their turns.
func (s *machineConfigs) group() {
	site := rollout.Site{}
	for _, p := range s.pools {
		site.Pools = append(site.Pools, rollout.Pool{Name: p.Name, NodeSelector: p.Spec.NodeSelector})
	}
	for i := range s.nodes {
		site.Hosts = append(site.Hosts, rollout.HostOf(&s.nodes[i]))
	}
	s.hosts = slices.SortedFunc(slices.Values(site.Hosts), func(a, b rollout.Host) int { return cmp.Compare(a.Name, b.Name) })
	s.members, s.astray = rollout.Members(site)
	order := rollout.Turns(site)
	slices.SortFunc(s.pools, func(a, b mcfgv1.MachineConfigPool) int {
		return cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name))
	})
}

// named returns the pools of an argument: the one with that name, or all.
func (s *machineConfigs) named(args []string) ([]mcfgv1.MachineConfigPool, error) {
	if len(args) == 0 {
		return s.pools, nil
	}
	for _, p := range s.pools {
		if p.Name == args[0] {
			return []mcfgv1.MachineConfigPool{p}, nil
		}
	}
	return nil, &UsageError{Err: fmt.Errorf("pool %q: there is none; see: holdfast config show", args[0])}
}

// config returns an object by its name, or nil.
func (s *machineConfigs) config(name string) *mcfgv1.MachineConfig {
	configs := s.objects.MachineConfigs
	for i := range configs {
		if configs[i].Name == name {
			return &configs[i]
		}
	}
	return nil
}
