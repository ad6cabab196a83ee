package restore

import (
	"slices"
	"strings"
)

// ownRoles are the roles that a host gets by its place in the site.
var ownRoles = []string{"control-plane", "master", "worker"}

// byKubernetes reports whether Kubernetes, kubelet or Holdfast sets a label or a taint of a
// node by itself.
func byKubernetes(key string) bool {
	domain, rest, found := strings.Cut(key, "/")
	switch {
	case !found, domain == "node-restriction.kubernetes.io":
		return false
	case domain == "node-role.kubernetes.io":
		return slices.Contains(ownRoles, rest)
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "holdfast.io", "openshift.io"}, func(own string) bool {
		return domain == own || strings.HasSuffix(domain, "."+own)
	})
}
