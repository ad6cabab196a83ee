package manifests

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/retired"
)

// hostsName is the name of the role and the binding of all hosts.
const hostsName = "holdfast-hosts"

// hostAccess lets every host, by its kubelet's account, read what its network
// depends on: the nodes, and the cluster's virtual IPs. It lets a host read a
// MachineConfig whose name it knows, as its node names it. It lets a
// host read the list of hosts that were taken out of the cluster, so that it does not make
// its own Node again after somebody took it out.
// Kubernetes itself lets a host read only its own node, and change that one.
func hostAccess() []object {
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
	}
	read := []string{"get", "list", "watch"}
	everyHost := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}}
	return []object{
		{file: "10-host-access-role", value: &rbacv1.ClusterRole{
			TypeMeta: kind("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: hostsName},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read},
				{APIGroups: []string{"config.openshift.io"}, Resources: []string{"infrastructures"}, Verbs: read},
				{APIGroups: []string{mcfgv1.GroupName}, Resources: []string{"machineconfigs"}, Verbs: []string{"get"}},
			},
		}},
		{file: "10-host-access-binding", value: &rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: hostsName},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: hostsName},
			Subjects: everyHost,
		}},
		{file: "10-host-retired-role", value: &rbacv1.Role{
			TypeMeta: kind("Role"), ObjectMeta: metav1.ObjectMeta{Name: hostsName, Namespace: retired.Namespace},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{retired.ConfigMap}, Verbs: []string{"get"}},
			},
		}},
		{file: "10-host-retired-binding", value: &rbacv1.RoleBinding{
			TypeMeta: kind("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: hostsName, Namespace: retired.Namespace},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: hostsName},
			Subjects: everyHost,
		}},
	}
}
