package router

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// accessName is the name of the routers' roles.
const accessName = "holdfast-routers"

// FormerAccess is the name of the ClusterRole, and of its binding, with which
// routers of earlier releases read every Secret of the cluster. The operator
// removes both.
const FormerAccess = "holdfast-router"

// Access returns the routers' account and its rights. The installation writes
// them: an operator that could would need to have those rights itself.
//
// Routers run on workers, so root on a worker has their account. For that
// reason their rights over the whole cluster include no Secrets or ConfigMaps.
// The operator copies those that they need into a namespace that contains
// nothing else.
func Access(plane DataPlane) []any {
	named := metav1.ObjectMeta{Name: accessName, Labels: map[string]string{"app.kubernetes.io/name": accessName}}
	inNamespace := named
	inNamespace.Namespace = ingress.CertificatesNamespace
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: accessName}
	}
	whose := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ingress.OperandNamespace, Name: Account}}
	return []any{
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: ingress.OperandNamespace, Name: Account, Labels: named.Labels},
		},
		&rbacv1.ClusterRole{TypeMeta: typed("ClusterRole"), ObjectMeta: named, Rules: plane.Rules()},
		&rbacv1.ClusterRoleBinding{TypeMeta: typed("ClusterRoleBinding"), ObjectMeta: named, RoleRef: role("ClusterRole"), Subjects: whose},
		&rbacv1.Role{TypeMeta: typed("Role"), ObjectMeta: inNamespace, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: read},
		}},
		&rbacv1.RoleBinding{TypeMeta: typed("RoleBinding"), ObjectMeta: inNamespace, RoleRef: role("Role"), Subjects: whose},
	}
}
