package manifests

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServerName is the name of the binding that lets API servers reach kubelets.
const apiServerName = "holdfast-apiserver-kubelets"

// The account of an API server's certificate for kubelets, and the role that Kubernetes has
// for it.
const (
	apiServerUser = "kube-apiserver-kubelet-client"
	kubeletRole   = "system:kubelet-api-admin"
)

// apiServerAccess lets API servers reach kubelets: for logs, exec, figures. kubeadm of 1.36
// makes their certificates without a group of administrators, and a binding in their place;
// it makes that one at an installation and in its own upgrades, which nobody runs here. So a
// control plane that joins a site of an earlier release would have neither. It has a name of
// ours: kubeadm's is left alone, also on a way back.
func apiServerAccess() []object {
	return []object{{file: "10-apiserver-kubelets-binding", value: &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: apiServerName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: kubeletRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: apiServerUser}},
	}}}
}
