package router

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// ServiceMonitorKind is the kind that tells Prometheus' operator where to read
// metrics.
var ServiceMonitorKind = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}

// monitor makes Prometheus read each router of one IngressController once. Of
// its two Services, which have the same labels, it selects the one that exists
// in every strategy.
func monitor(r *ingress.Router) *unstructured.Unstructured {
	labels := map[string]any{}
	for key, value := range ingress.OwnerLabels(r.Name) {
		labels[key] = value
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"namespaceSelector": map[string]any{"matchNames": []any{ingress.OperandNamespace}},
		"selector":          map[string]any{"matchLabels": labels},
		"endpoints": []any{map[string]any{
			"port": ingress.MetricsPort, "path": metricsPath, "scheme": "http",
			"relabelings": []any{map[string]any{
				"action": "keep", "sourceLabels": []any{"__meta_kubernetes_service_name"},
				"regex": strings.ReplaceAll(ingress.InternalName(r.Name), ".", `\.`),
			}},
		}},
	}}}
	out.SetGroupVersionKind(ServiceMonitorKind)
	out.SetNamespace(ingress.OperandNamespace)
	out.SetName(ingress.RouterName(r.Name))
	out.SetLabels(ingress.OwnerLabels(r.Name))
	return out
}
