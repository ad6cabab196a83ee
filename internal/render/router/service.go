package router

import (
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// Names of ports, in containers and in Services. PortHTTP is that of plain HTTP.
const (
	PortHTTP  = "http"
	portHTTPS = "https"
)

func servicePort(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(name)}
}

// webPorts returns the ports for clients, which are the same whatever ports the
// routers listen on.
func webPorts() []corev1.ServicePort {
	return []corev1.ServicePort{servicePort(PortHTTP, ingress.HTTPPort), servicePort(portHTTPS, ingress.HTTPSPort)}
}

func service(r *ingress.Router, name string, spec corev1.ServiceSpec) *corev1.Service {
	spec.Selector = ingress.PodLabels(r.Name)
	spec.SessionAffinity = corev1.ServiceAffinityNone
	spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(r, name), Spec: spec,
	}
}

// internal returns the Service for clients inside the cluster, which exists in
// every strategy.
func internal(r *ingress.Router) *corev1.Service {
	return service(r, ingress.InternalName(r.Name), corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Ports: append(webPorts(), servicePort(ingress.MetricsPort, ingress.StatsPort)),
	})
}

// published returns the Service that leads to the routers from outside.
func published(r *ingress.Router) *corev1.Service {
	switch r.Strategy.Type {
	case operatorv1.NodePortServiceStrategyType:
		return nodePort(r)
	case operatorv1.LoadBalancerServiceStrategyType:
		return loadBalancer(r)
	case operatorv1.HostNetworkStrategyType, operatorv1.PrivateStrategyType:
	}
	return nil
}

// nodePort contains the port for statistics too: a load balancer in front
// checks there whether a host has a ready router.
func nodePort(r *ingress.Router) *corev1.Service {
	out := service(r, ingress.RouterName(r.Name), corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		Ports: append(webPorts(), servicePort(ingress.MetricsPort, ingress.StatsPort)),
	})
	out.Annotations = map[string]string{ingress.AnnotationNodePort: r.Name}
	if r.LocalFallback {
		out.Annotations[ingress.AnnotationLocalFallback] = ""
	}
	return out
}

func loadBalancer(r *ingress.Router) *corev1.Service {
	name := ingress.RouterName(r.Name)
	out := service(r, name, corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: webPorts(),
	})
	out.Labels["app"], out.Labels["router"] = "router", name
	out.Annotations = map[string]string{}
	if r.LocalFallback {
		out.Annotations[ingress.AnnotationLocalFallback] = ""
	}
	for _, cidr := range r.Strategy.LoadBalancer.AllowedSourceRanges {
		out.Spec.LoadBalancerSourceRanges = append(out.Spec.LoadBalancerSourceRanges, strings.TrimSpace(string(cidr)))
	}
	if len(out.Spec.LoadBalancerSourceRanges) > 0 {
		out.Annotations[ingress.AnnotationSourceRanges] = r.Name
	}
	return out
}

// policy lets everybody reach the routers, even if everything else is denied,
// and lets the routers reach everybody.
func policy(r *ingress.Router) *networkingv1.NetworkPolicy {
	var ports []networkingv1.NetworkPolicyPort
	for _, p := range []int32{r.HTTP, r.HTTPS, r.Stats} {
		ports = append(ports, networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(p))})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: networking("NetworkPolicy"), ObjectMeta: meta(r, ingress.RouterName(r.Name)),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: ingress.PodLabels(r.Name)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: ports}},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
		},
	}
}
