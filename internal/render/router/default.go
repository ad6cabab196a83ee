package router

import (
	"maps"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// DefaultController returns the IngressController that every cluster has. It
// sets the number and place of routers explicitly, although the defaults are
// the same, because administrators look there to change them. It asks for no
// more routers than there are hosts; hosts is 0 if their number is unknown.
func DefaultController(c ingress.Cluster, hosts int) map[string]any {
	p := ingress.DefaultPlacement(c)
	labels := map[string]any{}
	for key, value := range maps.All(p.NodeSelector) {
		labels[key] = value
	}
	placement := map[string]any{"nodeSelector": map[string]any{"matchLabels": labels}}
	if p.ControlPlane {
		var list []any
		for _, t := range ingress.ControlPlaneTolerations() {
			list = append(list, map[string]any{"key": t.Key, "operator": string(t.Operator), "effect": string(t.Effect)})
		}
		placement["tolerations"] = list
	}
	replicas := int64(p.Replicas)
	if hosts > 0 {
		replicas = min(replicas, int64(hosts))
	}
	return map[string]any{
		"apiVersion": operatorv1.GroupVersion.String(), "kind": "IngressController",
		"metadata": map[string]any{"namespace": ingress.Namespace, "name": ingress.DefaultName},
		"spec":     map[string]any{"replicas": replicas, "nodePlacement": placement},
	}
}
