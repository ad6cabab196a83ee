package vips

import (
	"net/netip"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/state"
)

// SnapshotOf reads the objects of a cluster. The network object may be nil; then
// the networks of pods and services are unknown.
func SnapshotOf(infra *configv1.Infrastructure, network *configv1.Network, hosts []Host) Snapshot {
	s := Snapshot{Platform: platformOf(infra), Hosts: hosts, Path: field.NewPath("spec", "platformSpec")}
	if network != nil {
		s.NetworksKnown = true
		s.Service = network.Spec.ServiceNetwork
		for _, n := range network.Spec.ClusterNetwork {
			s.Cluster = append(s.Cluster, n.CIDR)
		}
	}
	status := infra.Status.PlatformStatus
	if status == nil {
		status = &configv1.PlatformStatus{}
	}
	switch s.Platform {
	case BareMetal:
		s.bareMetal(infra.Spec.PlatformSpec.BareMetal, status.BareMetal)
	case VSphere:
		s.vSphere(infra.Spec.PlatformSpec.VSphere, status.VSphere)
	case OpenStack:
		s.openStack(infra.Spec.PlatformSpec.OpenStack, status.OpenStack)
	}
	return s
}

// platformOf returns the platform from the status, which nobody changes by hand,
// else from the spec.
func platformOf(infra *configv1.Infrastructure) Platform {
	if s := infra.Status.PlatformStatus; s != nil && s.Type != "" {
		return Platform(s.Type)
	}
	return Platform(infra.Spec.PlatformSpec.Type)
}

func (s *Snapshot) bareMetal(spec *configv1.BareMetalPlatformSpec, status *configv1.BareMetalPlatformStatus) {
	s.Path = s.Path.Child("baremetal")
	if spec != nil {
		s.Spec = valuesOf(spec.APIServerInternalIPs, spec.IngressIPs, spec.MachineNetworks)
	}
	if status == nil {
		return
	}
	s.LegacyAPI, s.LegacyIngress = status.APIServerInternalIP, status.IngressIP //nolint:staticcheck // deprecated, and all that old clusters have
	s.found(valuesOf(status.APIServerInternalIPs, status.IngressIPs, status.MachineNetworks), status.LoadBalancer)
}

func (s *Snapshot) vSphere(spec *configv1.VSpherePlatformSpec, status *configv1.VSpherePlatformStatus) {
	s.Path = s.Path.Child("vsphere")
	if spec != nil {
		s.Spec = valuesOf(spec.APIServerInternalIPs, spec.IngressIPs, spec.MachineNetworks)
	}
	if status != nil {
		s.found(valuesOf(status.APIServerInternalIPs, status.IngressIPs, status.MachineNetworks), (*balancer)(status.LoadBalancer))
	}
}

func (s *Snapshot) openStack(spec *configv1.OpenStackPlatformSpec, status *configv1.OpenStackPlatformStatus) {
	s.Path = s.Path.Child("openstack")
	if spec != nil {
		s.Spec = valuesOf(spec.APIServerInternalIPs, spec.IngressIPs, spec.MachineNetworks)
	}
	if status != nil {
		s.found(valuesOf(status.APIServerInternalIPs, status.IngressIPs, status.MachineNetworks), (*balancer)(status.LoadBalancer))
	}
}

// balancer says who provides the load balancer. The object has one such type per
// platform; they differ only in their names.
type balancer = configv1.BareMetalPlatformLoadBalancer

// found takes over the fields that the status of every platform has.
func (s *Snapshot) found(status Values, b *balancer) {
	s.HasStatus, s.Status = true, status
	s.UserManaged = b != nil && b.Type == configv1.LoadBalancerTypeUserManaged
}

func valuesOf[A, N ~string](api, ingress []A, networks []N) Values {
	return Values{texts(api), texts(ingress), texts(networks)}
}

func texts[T ~string](list []T) []string {
	var out []string
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}

// HostOf reads a node. It reads the questions of this asker and their answers.
func HostOf(n *corev1.Node, asker string) Host {
	out := Host{
		Name:   n.Name,
		Report: state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs]),
		Probe:  state.ParseAnnotation[state.VIPProbe](n.Annotations[state.AnnotationVIPProbe+asker]),
		Answer: state.ParseAnnotation[state.VIPAnswer](n.Annotations[state.AnnotationVIPAnswer+asker]),
	}
	_, out.ControlPlane = n.Labels[state.LabelControlPlane]
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if addr, err := netip.ParseAddr(a.Address); err == nil {
			out.Addresses = append(out.Addresses, addr.Unmap())
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}
