// Package router renders the objects that run routers: Deployment, Services,
// budget and configuration, as typed values of the API. The interface DataPlane
// hides how the router program is called, so that another one can replace it.
package router

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// DataPlane is a router program.
type DataPlane interface {
	// Config returns, by name, the files that a running router reads again when
	// they change.
	Config(r *ingress.Router) map[string]string
	// Container returns the program with its arguments. Ports, probes, rights and
	// the volume are added to it.
	Container(r *ingress.Router) corev1.Container
	// Paths returns the paths, on the port for statistics, at which it reports
	// that it has read the cluster, that it lives, and that it accepts requests.
	Paths(r *ingress.Router) Paths
	// Controllers returns its names in classes: those of Ingresses, and those of
	// Gateways.
	Controllers() (ingressClass, gatewayClass string)
	// Rules returns its rights to read and write in the cluster.
	Rules() []rbacv1.PolicyRule
}

// Paths holds the paths of the probes.
type Paths struct{ Started, Alive, Ready string }

// Objects holds the objects of one IngressController. Published is nil for
// strategies without a Service of their own, and Budget is nil if none is
// needed.
type Objects struct {
	Config              *corev1.ConfigMap
	Deployment          *appsv1.Deployment
	Internal, Published *corev1.Service
	Budget              *policyv1.PodDisruptionBudget
	Policy              *networkingv1.NetworkPolicy
	Class               *networkingv1.IngressClass
	GatewayClass        *unstructured.Unstructured
	// Monitor is a ServiceMonitor, for clusters that have the kind.
	Monitor *unstructured.Unstructured
	// Marker is an Ingress that no request reaches: a router that knows it has
	// read the cluster.
	Marker *networkingv1.Ingress
	// Hosts lists which namespace owns which host; a policy reads it.
	Hosts *RouteHosts
}

// GatewayClassKind is the kind of GatewayClass.
var GatewayClassKind = schema.GroupVersionKind{Group: ingress.GatewayGroup, Version: "v1", Kind: "GatewayClass"}

// GatewayKinds returns the kinds for which routers wait before they follow any
// Gateway: if one is missing, they follow none and do not report that.
func GatewayKinds() []schema.GroupVersionKind {
	out := []schema.GroupVersionKind{GatewayClassKind}
	for _, kind := range []string{"Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute", "BackendTLSPolicy"} {
		out = append(out, schema.GroupVersionKind{Group: ingress.GatewayGroup, Version: "v1", Kind: kind})
	}
	return append(out, schema.GroupVersionKind{Group: ingress.GatewayGroup, Version: "v1beta1", Kind: "ReferenceGrant"})
}

// Render renders all objects of one IngressController.
func Render(r *ingress.Router, plane DataPlane) Objects {
	return Objects{
		Config:       config(r, plane),
		Deployment:   deployment(r, plane),
		Internal:     internal(r),
		Published:    published(r),
		Budget:       budget(r),
		Policy:       policy(r),
		Class:        class(r, plane),
		GatewayClass: gatewayClass(r, plane),
		Monitor:      monitor(r),
		Marker:       marker(r),
		Hosts:        hosts(r),
	}
}

func meta(r *ingress.Router, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ingress.OperandNamespace, Name: name, Labels: ingress.OwnerLabels(r.Name)}
}

func config(r *ingress.Router, plane DataPlane) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta(r, ingress.ConfigName(r.Name)), Data: plane.Config(r),
	}
}

func budget(r *ingress.Router) *policyv1.PodDisruptionBudget {
	if r.Rollout.Budget == nil {
		return nil
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: meta(r, ingress.RouterName(r.Name)),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: r.Rollout.Budget,
			Selector:       &metav1.LabelSelector{MatchLabels: ingress.PodLabels(r.Name)},
			// A crashing router must not keep a host from being drained.
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

// class returns a class for this IngressController only, so that an Ingress can
// choose its routers.
func class(r *ingress.Router, plane DataPlane) *networkingv1.IngressClass {
	controller, _ := plane.Controllers()
	return &networkingv1.IngressClass{
		TypeMeta:   networking("IngressClass"),
		ObjectMeta: metav1.ObjectMeta{Name: ingress.ClassName(r.Name), Labels: ingress.OwnerLabels(r.Name)},
		Spec:       networkingv1.IngressClassSpec{Controller: controller},
	}
}

func gatewayClass(r *ingress.Router, plane DataPlane) *unstructured.Unstructured {
	if !r.Gateways {
		return nil
	}
	_, controller := plane.Controllers()
	out := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"controllerName": controller}}}
	out.SetGroupVersionKind(GatewayClassKind)
	out.SetName(ingress.ClassName(r.Name))
	out.SetLabels(ingress.OwnerLabels(r.Name))
	return out
}

func networking(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: kind}
}
