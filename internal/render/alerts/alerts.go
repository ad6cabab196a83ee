// Package alerts contains the alerts of a site with two control planes: as a
// file for Prometheus, and as the object for Prometheus' operator.
package alerts

import (
	_ "embed"

	"sigs.k8s.io/yaml"
)

//go:embed rules.yaml
var rules []byte

// Namespace and Name identify the object.
const (
	APIVersion = "monitoring.coreos.com/v1"
	Kind       = "PrometheusRule"
	Namespace  = "openshift-etcd"
	Name       = "holdfast-two-node"
)

// Object returns the rules as a PrometheusRule of monitoring.coreos.com/v1.
func Object() map[string]any {
	var spec map[string]any
	if err := yaml.Unmarshal(rules, &spec); err != nil {
		panic(err) // embedded, and a test parses it
	}
	return map[string]any{
		"apiVersion": APIVersion, "kind": Kind,
		"metadata": map[string]any{"namespace": Namespace, "name": Name, "labels": map[string]any{"app.kubernetes.io/name": "holdfast"}},
		"spec":     spec,
	}
}
