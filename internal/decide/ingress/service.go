package ingress

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// MetricsPort is the name of the port of a NodePort Service that an
// administrator may remove.
const MetricsPort = "metrics"

// AnnotationSourceRanges marks a Service whose load balancer source ranges come
// from its IngressController. Without it they are an administrator's.
const AnnotationSourceRanges = "holdfast.io/source-ranges-from"

// goneFromService lists fields that are removed if they are not wanted.
// goneFromOthers lists more of them for Services that are not load balancers.
var (
	goneFromService = []string{"spec.selector", "spec.sessionAffinityConfig"}
	goneFromOthers  = []string{
		"spec.allocateLoadBalancerNodePorts", "spec.loadBalancerIP", "spec.loadBalancerClass",
		"spec.loadBalancerSourceRanges", "spec.healthCheckNodePort",
	}
)

// Service returns what a Service must become. Node ports belong to
// administrators and are kept by the name of their port; so are addresses,
// families, labels and annotations. Fields that decide where traffic goes are
// ours.
func Service(live, wanted *corev1.Service) (*corev1.Service, bool, error) {
	wanted = wanted.DeepCopy()
	if wanted.Spec.Type == corev1.ServiceTypeNodePort && live.Spec.Type == corev1.ServiceTypeNodePort {
		wanted.Spec.Ports = withoutRemoved(live, wanted.Spec.Ports)
	}
	gone := append(slices.Clone(goneFromService), managedAnnotations()...)
	if wanted.Spec.Type != corev1.ServiceTypeLoadBalancer {
		gone = append(gone, goneFromOthers...)
	} else if live.Annotations[AnnotationSourceRanges] != "" {
		gone = append(gone, "spec.loadBalancerSourceRanges")
	}
	keepPorts(live, wanted)
	return Overlay(live, wanted, gone...)
}

// managedAnnotations returns the paths of the annotations that we may remove.
func managedAnnotations() []string {
	var out []string
	for _, name := range []string{AnnotationNodePort, AnnotationLocalFallback, AnnotationSourceRanges} {
		out = append(out, "metadata.annotations."+name)
	}
	return out
}

// withoutRemoved drops the port for metrics if an administrator removed it.
func withoutRemoved(live *corev1.Service, ports []corev1.ServicePort) []corev1.ServicePort {
	if _, there := port(live, MetricsPort); there {
		return ports
	}
	var out []corev1.ServicePort
	for _, p := range ports {
		if p.Name != MetricsPort {
			out = append(out, p)
		}
	}
	return out
}

// keepPorts copies the present node ports, if the wanted type has node ports.
func keepPorts(live, wanted *corev1.Service) {
	if wanted.Spec.Type == corev1.ServiceTypeClusterIP {
		return
	}
	for i := range wanted.Spec.Ports {
		if p, there := port(live, wanted.Spec.Ports[i].Name); there {
			wanted.Spec.Ports[i].NodePort = p.NodePort
		}
	}
}

func port(s *corev1.Service, name string) (corev1.ServicePort, bool) {
	for _, p := range s.Spec.Ports {
		if p.Name == name {
			return p, true
		}
	}
	return corev1.ServicePort{}, false
}
