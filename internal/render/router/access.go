package router

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// accessName is the name of the routers' cluster-wide role.
const accessName = "holdfast-router"

// Access are the routers' account and its rights. The installation writes
// them: an operator that could would have to hold those rights itself.
func Access(plane DataPlane) []any {
	named := metav1.ObjectMeta{Name: accessName, Labels: map[string]string{"app.kubernetes.io/name": accessName}}
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	return []any{
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: ingress.OperandNamespace, Name: Account, Labels: named.Labels},
		},
		&rbacv1.ClusterRole{TypeMeta: typed("ClusterRole"), ObjectMeta: named, Rules: plane.Rules()},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: typed("ClusterRoleBinding"), ObjectMeta: named,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: accessName},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ingress.OperandNamespace, Name: Account}},
		},
	}
}
