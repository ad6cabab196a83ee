package manifests

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/joining"
)

// JoiningName is the name of the objects with the rights of joining hosts.
const JoiningName = "holdfast-joining"

// joiningAccess gives a host with its own bootstrap token the rights that `kubeadm
// join` and a kubelet without a certificate need: to read the cluster's
// configuration, to check whether its name is taken, and to request its
// certificate. It does not include the approval of that certificate.
func joiningAccess() []object {
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
	}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: JoiningName}
	}
	joiningHosts := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: joining.Group}}
	cluster := metav1.ObjectMeta{Name: JoiningName}
	system := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: JoiningName}
	return []object{
		{file: "10-joining-cluster-role", value: &rbacv1.ClusterRole{
			TypeMeta: kind("ClusterRole"), ObjectMeta: cluster,
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
				{
					APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
					Verbs: []string{"create", "get", "list", "watch"},
				},
			},
		}},
		{file: "10-joining-cluster-role-binding", value: &rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: cluster, RoleRef: ref("ClusterRole"), Subjects: joiningHosts,
		}},
		{file: "10-joining-role", value: &rbacv1.Role{
			TypeMeta: kind("Role"), ObjectMeta: system,
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"},
				ResourceNames: []string{"kubeadm-config", "kubelet-config", "kube-proxy"},
			}},
		}},
		{file: "10-joining-role-binding", value: &rbacv1.RoleBinding{
			TypeMeta: kind("RoleBinding"), ObjectMeta: system, RoleRef: ref("Role"), Subjects: joiningHosts,
		}},
	}
}
