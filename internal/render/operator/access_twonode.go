package operator

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// twoNodeAccess gives the rights to set up two control planes, which includes
// privileged pods in the operator's namespace. Whoever controls the operator of
// such a cluster controls its hosts.
func twoNodeAccess() []Object {
	const name = Name + "-two-node"
	return append(
		inNamespace("two-node", Namespace, name,
			rule("", all, "configmaps", "secrets"),
			rule("", read, "pods"),
			rule("batch", all, "jobs"),
			givesAlerts("holdfast-two-node"),
		),
		inCluster("two-node", name,
			rule("operator.openshift.io", append([]string{"patch", "update"}, read...), "etcds", "etcds/status"),
			// For the state of the hosts: the operator creates the object, and the hosts
			// write its status. The API decides the namespace of events about it.
			rule("etcd.openshift.io", append([]string{"create"}, read...), "pacemakerclusters"),
			rule("", []string{"create"}, "events"),
		)...,
	)
}

// inNamespace returns a role in a namespace, and its binding to the operator.
func inNamespace(file, namespace, name string, rules ...rbacv1.PolicyRule) []Object {
	meta := object(name)
	meta.Namespace = namespace
	ref := roleRef("Role")
	ref.Name = name
	return []Object{
		{file + "-role", &rbacv1.Role{TypeMeta: rbac("Role"), ObjectMeta: meta, Rules: rules}},
		{file + "-role-binding", &rbacv1.RoleBinding{TypeMeta: rbac("RoleBinding"), ObjectMeta: meta, RoleRef: ref, Subjects: subjects()}},
	}
}

// inCluster returns the same without a namespace.
func inCluster(file, name string, rules ...rbacv1.PolicyRule) []Object {
	ref := roleRef("ClusterRole")
	ref.Name = name
	return []Object{
		{file + "-cluster-role", &rbacv1.ClusterRole{TypeMeta: rbac("ClusterRole"), ObjectMeta: object(name), Rules: rules}},
		{file + "-cluster-role-binding", &rbacv1.ClusterRoleBinding{
			TypeMeta: rbac("ClusterRoleBinding"), ObjectMeta: object(name), RoleRef: ref, Subjects: subjects(),
		}},
	}
}
