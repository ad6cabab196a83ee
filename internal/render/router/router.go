// Package router renders the objects that make routers run: Deployment,
// Services, budget and configuration, as typed values of the API. What the
// router program is called with stands behind DataPlane, so that another one
// can take its place.
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
	// Config are the files that a running router reads again when they change,
	// by name.
	Config(r *ingress.Router) map[string]string
	// Container is the program with its arguments. Ports, probes, rights and
	// the volume are added to it.
	Container(r *ingress.Router) corev1.Container
	// Paths are where it says, on the port for statistics, that it has read
	// the cluster, that it lives and that it takes requests.
	Paths(r *ingress.Router) Paths
	// Controllers are how classes name it: those of Ingresses, of Gateways.
	Controllers() (ingressClass, gatewayClass string)
	// Rules are what it reads and writes in the cluster.
	Rules() []rbacv1.PolicyRule
}

// Paths are the paths of probes.
type Paths struct{ Started, Alive, Ready string }

// Objects are the objects of one IngressController. Published is nil for
// strategies without a Service of their own, Budget where none is needed.
type Objects struct {
	Config              *corev1.ConfigMap
	Deployment          *appsv1.Deployment
	Internal, Published *corev1.Service
	Budget              *policyv1.PodDisruptionBudget
	Policy              *networkingv1.NetworkPolicy
	Class               *networkingv1.IngressClass
	GatewayClass        *unstructured.Unstructured
	// Monitor is a ServiceMonitor, for clusters that know the kind.
	Monitor *unstructured.Unstructured
	// Marker is an Ingress that no request reaches: a router that knows it has
	// read the cluster.
	Marker *networkingv1.Ingress
	// Hosts say which namespace has which host: a policy reads them.
	Hosts *RouteHosts
}

// GatewayClassKind is the kind of GatewayClass.
var GatewayClassKind = schema.GroupVersionKind{Group: ingress.GatewayGroup, Version: "v1", Kind: "GatewayClass"}

// GatewayKinds are what routers wait for before they follow any Gateway: where
// one is missing they would follow none, and not say so.
func GatewayKinds() []schema.GroupVersionKind {
	out := []schema.GroupVersionKind{GatewayClassKind}
	for _, kind := range []string{"Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute", "BackendTLSPolicy"} {
		out = append(out, schema.GroupVersionKind{Group: ingress.GatewayGroup, Version: "v1", Kind: kind})
	}
	return append(out, schema.GroupVersionKind{Group: ingress.GatewayGroup, Version: "v1beta1", Kind: "ReferenceGrant"})
}

// Render renders everything for one IngressController.
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
			// A router that crashes keeps no host from being drained.
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

// class is an own class for each, so that an Ingress chooses its routers.
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
