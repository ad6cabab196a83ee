package manifests

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/topology"
)

// clusterName is the only name of the kinds that describe the cluster.
const clusterName = "cluster"

// clusterConfig returns the objects of config.openshift.io.
func clusterConfig(c *config.InstallConfig, t topology.Topology) []object {
	return []object{
		{file: "30-dns", value: dns(c), statusApart: true},
		{file: "30-featuregate", value: featureGate(t), statusApart: true},
		{file: "30-infrastructure", value: infrastructure(c, t), statusApart: true},
		{file: "30-ingress", value: ingress(c, t), statusApart: true},
		// The kind Network has no status subresource.
		{file: "30-network", value: network(c)},
		{file: "30-proxy", value: proxy(c), statusApart: true, secret: hasProxyPassword(c)},
		{file: "30-scheduler", value: scheduler(t), statusApart: true},
	}
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: configv1.GroupVersion.String(), Kind: name}
}

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: clusterName} }

func dns(c *config.InstallConfig) *configv1.DNS {
	return &configv1.DNS{
		TypeMeta: kind("DNS"), ObjectMeta: meta(),
		Spec: configv1.DNSSpec{BaseDomain: c.ClusterDomain()},
	}
}

func featureGate(t topology.Topology) *configv1.FeatureGate {
	out := &configv1.FeatureGate{TypeMeta: kind("FeatureGate"), ObjectMeta: meta()}
	out.Spec.FeatureSet = t.FeatureSet
	details := configv1.FeatureGateDetails{Version: payload.Version}
	custom := &configv1.CustomFeatureGates{}
	for _, gate := range t.FeatureGates {
		name := configv1.FeatureGateName(gate.Name)
		attributes := configv1.FeatureGateAttributes{Name: name}
		if gate.Enabled {
			custom.Enabled = append(custom.Enabled, name)
			details.Enabled = append(details.Enabled, attributes)
		} else {
			custom.Disabled = append(custom.Disabled, name)
			details.Disabled = append(details.Disabled, attributes)
		}
	}
	if t.FeatureSet == configv1.CustomNoUpgrade {
		out.Spec.CustomNoUpgrade = custom
	}
	out.Status.FeatureGates = []configv1.FeatureGateDetails{details}
	return out
}

func infrastructure(c *config.InstallConfig, t topology.Topology) *configv1.Infrastructure {
	out := &configv1.Infrastructure{
		TypeMeta: kind("Infrastructure"), ObjectMeta: meta(),
		Status: configv1.InfrastructureStatus{
			InfrastructureName:     InfrastructureName(c),
			APIServerURL:           "https://api." + c.ClusterDomain() + ":6443",
			APIServerInternalURL:   "https://api-int." + c.ClusterDomain() + ":6443",
			ControlPlaneTopology:   t.ControlPlaneTopology,
			InfrastructureTopology: t.InfrastructureTopology,
			CPUPartitioning:        configv1.CPUPartitioningNone,
		},
	}
	platform := configv1.NonePlatformType
	status := &configv1.PlatformStatus{}
	if c.Platform.BareMetal != nil {
		platform = configv1.BareMetalPlatformType
		out.Spec.PlatformSpec.BareMetal, status.BareMetal = bareMetal(c)
	}
	out.Spec.PlatformSpec.Type, status.Type = platform, platform
	out.Status.PlatformStatus = status
	out.Status.Platform = platform //nolint:staticcheck // deprecated, and older tools read only this
	return out
}

// bareMetal returns the wanted and the present VIPs, which are equal in a new
// cluster.
func bareMetal(c *config.InstallConfig) (*configv1.BareMetalPlatformSpec, *configv1.BareMetalPlatformStatus) {
	spec := &configv1.BareMetalPlatformSpec{}
	status := &configv1.BareMetalPlatformStatus{
		APIServerInternalIPs: slices.Clone(c.Platform.BareMetal.APIVIPs),
		IngressIPs:           slices.Clone(c.Platform.BareMetal.IngressVIPs),
		LoadBalancer: &configv1.BareMetalPlatformLoadBalancer{
			Type: configv1.LoadBalancerTypeOpenShiftManagedDefault,
		},
	}
	for _, ip := range status.APIServerInternalIPs {
		spec.APIServerInternalIPs = append(spec.APIServerInternalIPs, configv1.IP(ip))
	}
	for _, ip := range status.IngressIPs {
		spec.IngressIPs = append(spec.IngressIPs, configv1.IP(ip))
	}
	for _, n := range c.Networking.MachineNetwork {
		spec.MachineNetworks = append(spec.MachineNetworks, configv1.CIDR(n.CIDR))
	}
	status.MachineNetworks = slices.Clone(spec.MachineNetworks)
	if len(status.APIServerInternalIPs) > 0 {
		status.APIServerInternalIP = status.APIServerInternalIPs[0] //nolint:staticcheck // as above
	}
	if len(status.IngressIPs) > 0 {
		status.IngressIP = status.IngressIPs[0] //nolint:staticcheck // as above
	}
	return spec, status
}

// maxInfrastructureName is the API's limit.
const maxInfrastructureName = 27

// InfrastructureName returns the cluster's name and five characters that
// distinguish it from a cluster with the same name in another domain.
func InfrastructureName(c *config.InstallConfig) string {
	sum := sha256.Sum256([]byte(c.ClusterDomain()))
	suffix := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:5]
	name := c.Metadata.Name
	if room := maxInfrastructureName - 1 - len(suffix); len(name) > room {
		name = strings.TrimRight(name[:room], "-")
	}
	return name + "-" + suffix
}

func ingress(c *config.InstallConfig, t topology.Topology) *configv1.Ingress {
	return &configv1.Ingress{
		TypeMeta: kind("Ingress"), ObjectMeta: meta(),
		Spec:   configv1.IngressSpec{Domain: "apps." + c.ClusterDomain()},
		Status: configv1.IngressStatus{DefaultPlacement: t.DefaultPlacement},
	}
}

func network(c *config.InstallConfig) *configv1.Network {
	out := &configv1.Network{TypeMeta: kind("Network"), ObjectMeta: meta()}
	n := c.Networking
	for _, entry := range n.ClusterNetwork {
		out.Spec.ClusterNetwork = append(out.Spec.ClusterNetwork,
			configv1.ClusterNetworkEntry{CIDR: entry.CIDR, HostPrefix: uint32(entry.HostPrefix)}) //nolint:gosec // a prefix length, 0..128
	}
	out.Spec.ServiceNetwork = slices.Clone(n.ServiceNetwork)
	out.Spec.NetworkType = n.NetworkType
	out.Status.ClusterNetwork = slices.Clone(out.Spec.ClusterNetwork)
	out.Status.ServiceNetwork = slices.Clone(out.Spec.ServiceNetwork)
	out.Status.NetworkType = n.NetworkType
	return out
}

func scheduler(t topology.Topology) *configv1.Scheduler {
	return &configv1.Scheduler{
		TypeMeta: kind("Scheduler"), ObjectMeta: meta(),
		Spec: configv1.SchedulerSpec{MastersSchedulable: t.MastersSchedulable},
	}
}

func proxy(c *config.InstallConfig) *configv1.Proxy {
	out := &configv1.Proxy{TypeMeta: kind("Proxy"), ObjectMeta: meta()}
	if c.AdditionalTrustBundle != "" {
		out.Spec.TrustedCA.Name = machineconfig.BundleName
	}
	if c.Proxy == nil {
		return out
	}
	out.Spec.HTTPProxy, out.Spec.HTTPSProxy = c.Proxy.HTTPProxy, c.Proxy.HTTPSProxy
	out.Spec.NoProxy = c.Proxy.NoProxy
	out.Status = configv1.ProxyStatus{
		HTTPProxy: c.Proxy.HTTPProxy, HTTPSProxy: c.Proxy.HTTPSProxy, NoProxy: c.NoProxy(),
	}
	return out
}

func hasProxyPassword(c *config.InstallConfig) bool {
	return c.Proxy != nil && strings.Contains(c.Proxy.HTTPProxy+c.Proxy.HTTPSProxy, "@")
}
