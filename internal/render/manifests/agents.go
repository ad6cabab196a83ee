package manifests

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// AgentsName is the name of the objects that say what agents of control planes may.
const AgentsName = "holdfast-agents"

// nodeLeases is the namespace of the Leases by which kubelets show that they live.
const nodeLeases = "kube-node-lease"

// agentAccess lets the agents of control planes do what they do, by the group that
// is in their certificates. What is made again of what somebody deleted, roles and
// bindings among it, is made by an administrator's account: a right to make roles
// is the right to everything.
func agentAccess(c *config.InstallConfig, t topology.Topology) []object {
	hosts := fencedHosts(c)
	out := agentsIn("", everywhere(t)...)
	out = append(out, agentsIn(metav1.NamespaceSystem, inSystem(hosts)...)...)
	out = append(out, agentsIn(metav1.NamespaceDefault, grant("", "events", "create"))...) // where the API wants those of nodes
	if len(hosts) > 0 {
		// A BMC's account that was rotated while the API was away.
		out = append(out, agentsIn(NamespaceEtcd, grant("", "secrets", "create"), only(named(FencingSecretPrefix, hosts), grant("", "secrets", "patch")))...)
	}
	if t.Fencing {
		out = append(out, agentsIn(nodeLeases, grant("coordination.k8s.io", "leases", "list"))...) // writes from outside
	}
	return out
}

// everywhere are the rights that no namespace bounds.
func everywhere(t topology.Topology) []rbacv1.PolicyRule {
	const requests = "certificatesigningrequests"
	out := []rbacv1.PolicyRule{
		// Labels, annotations and taints; one that somebody deleted is made again.
		grant("", "nodes", "create", "get", "list", "patch", "watch"),
		// The certificates of joining hosts.
		grant("certificates.k8s.io", requests, "get", "list", "watch"),
		grant("certificates.k8s.io", requests+"/approval", "update"),
		only([]string{joining.KubeletSigner}, grant("certificates.k8s.io", "signers", "approve")),
		only([]string{kubeadm.AutoApproval}, grant(rbacv1.GroupName, "clusterrolebindings", "delete")),
		// Whether the cluster's own objects are there, and what agents may.
		grant("", "namespaces", "get", "list"),
		grant("", "serviceaccounts", "list"),
		grant("", "services", "list"),
		grant("apps", "deployments", "list"),
		grant(rbacv1.GroupName, "clusterrolebindings", "list"),
		grant(rbacv1.GroupName, "clusterroles", "list"),
		grant(rbacv1.GroupName, "rolebindings", "list"),
		grant(rbacv1.GroupName, "roles", "list"),
		only([]string{AgentsName}, grant(rbacv1.GroupName, "clusterroles", "get")),
		only([]string{AgentsName}, grant(rbacv1.GroupName, "roles", "get")),
		// Which keys of secrets this host's API server has.
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}
	if !t.Fencing {
		return out
	}
	return append(out,
		grant("", "nodes/status", "patch"), // a host that is off cannot say that it is not ready
		grant("", "pods", "list"),
		grant("etcd.openshift.io", "pacemakerclusters", "get"),
		grant("etcd.openshift.io", "pacemakerclusters/status", "patch"),
	)
}

// inSystem are the rights over what Kubernetes keeps in its own namespace: bootstrap
// tokens and the key of join secrets, the keys that are wished for, incidents.
func inSystem(hosts []string) []rbacv1.PolicyRule {
	secrets := grant("", "secrets", "create", "delete", "get", "list", "update")
	if len(hosts) == 0 {
		return []rbacv1.PolicyRule{secrets, grant("", "configmaps", "get", "list")}
	}
	return []rbacv1.PolicyRule{
		secrets, grant("", "configmaps", "create", "get", "list"), only(named(incident.ConfigMapPrefix, hosts), grant("", "configmaps", "update")),
	}
}

// fencedHosts are the control planes whose names the configuration knows.
func fencedHosts(c *config.InstallConfig) []string {
	var out []string
	if c.ControlPlane.Fencing != nil {
		for _, cred := range c.ControlPlane.Fencing.Credentials {
			out = append(out, cred.HostName)
		}
	}
	return out
}

func named(prefix string, hosts []string) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, prefix+h)
	}
	return out
}

func grant(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// only is a right over objects of these names.
func only(names []string, rule rbacv1.PolicyRule) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

// agentsIn gives agents rights in a namespace, or in the cluster where that is
// empty.
func agentsIn(namespace string, rules ...rbacv1.PolicyRule) []object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: AgentsName}
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
	}
	agents := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: site.AgentsGroup}}
	if namespace == "" {
		return []object{
			{file: "10-agents-role", value: &rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta, Rules: rules}},
			{file: "10-agents-role-binding", value: &rbacv1.ClusterRoleBinding{
				TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta, Subjects: agents,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: AgentsName},
			}},
		}
	}
	file := "10-agents-" + namespace
	return []object{
		{file: file + "-role", value: &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: rules}},
		{file: file + "-role-binding", value: &rbacv1.RoleBinding{
			TypeMeta: kind("RoleBinding"), ObjectMeta: meta, Subjects: agents,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: AgentsName},
		}},
	}
}
