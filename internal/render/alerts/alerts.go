// Package alerts contains the alerts of a site: those of every site, and those that
// only two control planes have. They are one file for Prometheus, and two objects for
// Prometheus' operator.
package alerts

import (
	_ "embed"
	"slices"

	"sigs.k8s.io/yaml"
)

//go:embed rules.yaml
var rules []byte

// Namespace contains the objects, in every cluster.
const (
	APIVersion = "monitoring.coreos.com/v1"
	Kind       = "PrometheusRule"
	Namespace  = "openshift-etcd"
)

// The names of the objects, and of their groups in the file. The operator's rights are
// for these names alone.
const (
	// Name is that of the rules of two control planes.
	Name = "holdfast-two-node"
	// SiteName is that of the rules of every site.
	SiteName = "holdfast-site"
)

// File returns all rules, for Prometheus as they are.
func File() []byte { return slices.Clone(rules) }

// Object returns the rules of two control planes as a PrometheusRule of monitoring.coreos.com/v1.
func Object() map[string]any { return object(Name) }

// SiteObject returns the rules of every site as a PrometheusRule of monitoring.coreos.com/v1.
func SiteObject() map[string]any { return object(SiteName) }

// object returns the object of a name, with the group of that name.
func object(name string) map[string]any {
	var file struct{ Groups []map[string]any }
	if err := yaml.Unmarshal(rules, &file); err != nil {
		panic(err) // embedded, and a test parses it
	}
	var groups []any
	for _, g := range file.Groups {
		if g["name"] == name {
			groups = append(groups, g)
		}
	}
	return map[string]any{
		"apiVersion": APIVersion, "kind": Kind,
		"metadata": map[string]any{"namespace": Namespace, "name": name, "labels": map[string]any{"app.kubernetes.io/name": "holdfast"}},
		"spec":     map[string]any{"groups": groups},
	}
}
