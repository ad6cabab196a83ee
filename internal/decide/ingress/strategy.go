package ingress

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/decide/ports"
)

// The ports of routers and of the Services in front of them.
const (
	HTTPPort  int32 = 80
	HTTPSPort int32 = 443
	// StatsPort is the port for a router's health and metrics.
	StatsPort int32 = 1936
)

// kept holds ports on which nothing listens here, but which clusters of the
// specification reserve for their own parts.
var kept = map[int32]string{9443: "the API server", 22624: "the configuration server"}

// EffectiveStrategy returns a publishing strategy with every default filled in
// and without fields of other types. The default is HostNetwork: there is no
// cloud that would balance for the routers.
func EffectiveStrategy(s *operatorv1.EndpointPublishingStrategy) *operatorv1.EndpointPublishingStrategy {
	if s == nil {
		s = &operatorv1.EndpointPublishingStrategy{Type: operatorv1.HostNetworkStrategyType}
	}
	out := &operatorv1.EndpointPublishingStrategy{Type: s.Type}
	switch s.Type {
	case operatorv1.HostNetworkStrategyType:
		out.HostNetwork = hostNetwork(s.HostNetwork)
	case operatorv1.NodePortServiceStrategyType:
		out.NodePort = &operatorv1.NodePortStrategy{Protocol: operatorv1.TCPProtocol}
		if s.NodePort != nil {
			out.NodePort.Protocol = protocol(s.NodePort.Protocol)
		}
	case operatorv1.PrivateStrategyType:
		out.Private = &operatorv1.PrivateStrategy{Protocol: operatorv1.TCPProtocol}
		if s.Private != nil {
			out.Private.Protocol = protocol(s.Private.Protocol)
		}
	case operatorv1.LoadBalancerServiceStrategyType:
		out.LoadBalancer = loadBalancer(s.LoadBalancer)
	}
	return out
}

func hostNetwork(s *operatorv1.HostNetworkStrategy) *operatorv1.HostNetworkStrategy {
	out := &operatorv1.HostNetworkStrategy{}
	if s != nil {
		*out = *s
	}
	out.Protocol = protocol(out.Protocol)
	for port, standard := range map[*int32]int32{&out.HTTPPort: HTTPPort, &out.HTTPSPort: HTTPSPort, &out.StatsPort: StatsPort} {
		if *port == 0 {
			*port = standard
		}
	}
	return out
}

func loadBalancer(s *operatorv1.LoadBalancerStrategy) *operatorv1.LoadBalancerStrategy {
	out := &operatorv1.LoadBalancerStrategy{}
	if s != nil {
		out = s.DeepCopy()
	}
	if out.Scope == "" {
		out.Scope = operatorv1.ExternalLoadBalancer
	}
	if out.DNSManagementPolicy == "" {
		out.DNSManagementPolicy = operatorv1.ManagedLoadBalancerDNS
	}
	return out
}

func protocol(p operatorv1.IngressControllerProtocol) operatorv1.IngressControllerProtocol {
	if p == operatorv1.DefaultProtocol {
		return operatorv1.TCPProtocol
	}
	return p
}

// proxyProtocol reports whether routers expect the PROXY protocol.
func proxyProtocol(s *operatorv1.EndpointPublishingStrategy) bool {
	switch {
	case s.HostNetwork != nil:
		return s.HostNetwork.Protocol == operatorv1.ProxyProtocol
	case s.NodePort != nil:
		return s.NodePort.Protocol == operatorv1.ProxyProtocol
	case s.Private != nil:
		return s.Private.Protocol == operatorv1.ProxyProtocol
	}
	return false
}

// NeedsService reports whether a strategy publishes through the Service
// router-NAME.
func NeedsService(s *operatorv1.EndpointPublishingStrategy) bool {
	return s.Type == operatorv1.NodePortServiceStrategyType || s.Type == operatorv1.LoadBalancerServiceStrategyType
}

// strategyProblems lists what is wrong with an effective strategy.
func strategyProblems(s *operatorv1.EndpointPublishingStrategy) []string {
	const path = "spec.endpointPublishingStrategy"
	switch s.Type {
	case operatorv1.HostNetworkStrategyType:
		return hostNetworkProblems(path+".hostNetwork", s.HostNetwork)
	case operatorv1.LoadBalancerServiceStrategyType:
		return sourceRangeProblems(path+".loadBalancer.allowedSourceRanges", s.LoadBalancer.AllowedSourceRanges)
	case operatorv1.NodePortServiceStrategyType, operatorv1.PrivateStrategyType:
		return nil
	}
	return []string{fmt.Sprintf("%s.type: %q is not one of HostNetwork, LoadBalancerService, NodePortService, Private", path, s.Type)}
}

// unasked refuses a port at which no host asks whether its router serves: the virtual IP would leave
// every host.
func unasked(ic *operatorv1.IngressController, s *operatorv1.EndpointPublishingStrategy, c Cluster) []string {
	if ic.Name != DefaultName || c.Address == "" || s.HostNetwork == nil || s.HostNetwork.StatsPort == StatsPort {
		return nil
	}
	return []string{fmt.Sprintf("spec.endpointPublishingStrategy.hostNetwork.statsPort: must be %d on a site with a virtual IP for ingress: each host asks its router there whether it serves, and holds the address only then", StatsPort)}
}

func hostNetworkProblems(path string, s *operatorv1.HostNetworkStrategy) []string {
	var out []string
	seen := map[int32]string{}
	for _, p := range []struct {
		field string
		port  int32
	}{{"httpPort", s.HTTPPort}, {"httpsPort", s.HTTPSPort}, {"statsPort", s.StatsPort}} {
		if other, taken := seen[p.port]; taken {
			out = append(out, fmt.Sprintf("%s.%s: port %d is already the %s", path, p.field, p.port, other))
		}
		seen[p.port] = p.field
		if owner := cmp.Or(ports.Owner(p.port), kept[p.port]); owner != "" {
			out = append(out, fmt.Sprintf("%s.%s: port %d is used by %s on hosts of the cluster", path, p.field, p.port, owner))
		}
	}
	return out
}

func sourceRangeProblems(path string, ranges []operatorv1.CIDR) []string {
	var out []string
	for i, r := range ranges {
		if _, err := netip.ParsePrefix(strings.TrimSpace(string(r))); err != nil {
			out = append(out, fmt.Sprintf("%s[%d]: %q is not a network such as 192.0.2.0/24", path, i, r))
		}
	}
	return out
}

// sameType reports whether two strategies publish in the same way.
func sameType(a, b *operatorv1.EndpointPublishingStrategy) bool {
	return a != nil && b != nil && a.Type == b.Type
}
