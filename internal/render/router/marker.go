package router

import (
	"maps"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// markerPath is the path of the marker's only rule. It is on the port for
// statistics only, and leads back there.
const markerPath = "/holdfast-has-read-the-cluster"

// marker is an Ingress for which the routers wait at their start. It affects no
// client's request: its route is on the port for statistics.
func marker(r *ingress.Router) *networkingv1.Ingress {
	out := &networkingv1.Ingress{
		TypeMeta: networking("Ingress"), ObjectMeta: meta(r, ingress.RouterName(r.Name)),
		Spec: networkingv1.IngressSpec{
			IngressClassName: new(ingress.ClassName(r.Name)),
			Rules: []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path: markerPath, PathType: new(networkingv1.PathTypeExact),
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
						Name: ingress.InternalName(r.Name), Port: networkingv1.ServiceBackendPort{Name: ingress.MetricsPort},
					}},
				}},
			}}}},
		},
	}
	maps.Copy(out.Labels, markerLabels(r))
	out.Annotations = map[string]string{"traefik.ingress.kubernetes.io/router.entrypoints": ingress.MetricsPort}
	return out
}

// markerLabels returns labels with which the marker matches the route selector,
// or nil if no labels can match.
func markerLabels(r *ingress.Router) map[string]string {
	out := ingress.OwnerLabels(r.Name)
	if r.RouteSelector == nil {
		return out
	}
	maps.Copy(out, r.RouteSelector.MatchLabels)
	for _, e := range r.RouteSelector.MatchExpressions {
		switch _, there := out[e.Key]; {
		case there:
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
			out[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists:
			out[e.Key] = ""
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(r.RouteSelector)
	if err != nil || !selector.Matches(labels.Set(out)) || out[ingress.LabelOwner] != r.Name {
		return nil
	}
	return out
}

// markerRoute returns the name that a release's Traefik gives to the marker's
// route (package payload describes how it differs from others).
func markerRoute(r *ingress.Router) string {
	return ingress.OperandNamespace + "_" + ingress.RouterName(r.Name) + "_" + strings.TrimPrefix(markerPath, "/")
}
