package operator

import rbacv1 "k8s.io/api/rbac/v1"

// guardAccess is what it takes to keep the guards of two control planes, and
// to take away what is left of them elsewhere. Whoever may write policies may
// also lift them, which is why people's accounts should not have this.
func guardAccess() []Object {
	return inCluster("guards", Name+"-guards", rbacv1.PolicyRule{
		APIGroups: []string{"admissionregistration.k8s.io"},
		Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
		Verbs:     []string{"create", "delete", "get", "list", "update", "watch"},
	})
}
