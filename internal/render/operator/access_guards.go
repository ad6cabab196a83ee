package operator

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/holdfast/holdfast/internal/model/retired"
)

// guardAccess gives the rights to keep the guards of two control planes, and to
// remove remains of them in other clusters. An account that may write policies may also
// lift them, so users' accounts should not have these rights. A guard has the names of hosts
// that were taken out, so the operator reads their list.
func guardAccess() []Object {
	list := rule("", read, "configmaps")
	list.ResourceNames = []string{retired.ConfigMap}
	return append(inNamespace("guards-retired", retired.Namespace, Name+"-guards", list), inCluster("guards", Name+"-guards", rbacv1.PolicyRule{
		APIGroups: []string{"admissionregistration.k8s.io"},
		Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
		Verbs:     []string{"create", "delete", "get", "list", "update", "watch"},
	})...)
}
