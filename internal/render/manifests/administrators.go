package manifests

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/site"
)

// Administrators is the name of the binding that makes the owner of the
// installation's kubeconfig an administrator. Deleting it removes that right,
// so nobody creates it again. Hosts have their own accounts and do not need it.
const Administrators = "holdfast-administrators"

func administrators() []object {
	return []object{{file: "10-administrators", value: &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: Administrators},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: site.AdministratorsGroup}},
	}}}
}
