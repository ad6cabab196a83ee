package operator

import rbacv1 "k8s.io/api/rbac/v1"

// guardAccess gives the rights to keep the guards of two control planes, and to
// remove remains of them in other clusters. Whoever may write policies may also
// lift them, so users' accounts should not have these rights.
func guardAccess() []Object {
	return inCluster("guards", Name+"-guards", rbacv1.PolicyRule{
		APIGroups: []string{"admissionregistration.k8s.io"},
		Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
		Verbs:     []string{"create", "delete", "get", "list", "update", "watch"},
	})
}
