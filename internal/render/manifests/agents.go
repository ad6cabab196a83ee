package manifests

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// AgentsName is the name of the objects with the rights of the control planes'
// agents.
const AgentsName = "holdfast-agents"

// nodeLeases is the namespace of the Leases with which kubelets show that they are
// alive.
const nodeLeases = "kube-node-lease"

// agentAccess gives the agents of control planes the rights for their tasks, by
// the group in their certificates. When somebody deletes objects such as roles and
// bindings, an administrator's account restores them: a right to create roles is
// the right to everything.
func agentAccess(c *config.InstallConfig, t topology.Topology) []object {
	hosts := fencedHosts(c)
	out := agentsIn("", everywhere(t)...)
	out = append(out, agentsIn(metav1.NamespaceSystem, inSystem(hosts)...)...)
	out = append(out, agentsIn(metav1.NamespaceDefault, grant("", "events", "create"))...) // the API accepts events about nodes only here
	out = append(out, agentsIn(NamespaceEtcd, inEtcd(hosts)...)...)
	lease := []string{"get"} // when a worker with an expired certificate was last alive
	if t.Fencing {
		lease = append(lease, "list") // to see writes from outside
	}
	return append(out, agentsIn(nodeLeases, grant("coordination.k8s.io", "leases", lease...))...)
}

// inEtcd returns the rights over Secrets in the namespace of etcd: the one with the targets of
// backups, and those with accounts of BMCs, which may be rotated while the API is away.
func inEtcd(hosts []string) []rbacv1.PolicyRule {
	out := []rbacv1.PolicyRule{only([]string{backup.SecretName}, grant("", "secrets", "get"))}
	if len(hosts) == 0 {
		return out
	}
	return append(out, grant("", "secrets", "create"), only(named(FencingSecretPrefix, hosts), grant("", "secrets", "patch")))
}

// everywhere returns the rights that no namespace limits.
func everywhere(t topology.Topology) []rbacv1.PolicyRule {
	const requests = "certificatesigningrequests"
	out := []rbacv1.PolicyRule{
		// For labels, annotations and taints; a deleted node is created again.
		grant("", "nodes", "create", "get", "list", "patch", "watch"),
		// The certificates of joining hosts, those of workers whose certificate has
		// expired, and those by which kubelets serve.
		grant("certificates.k8s.io", requests, "create", "get", "list", "watch"),
		grant("certificates.k8s.io", requests+"/approval", "update"),
		only([]string{joining.KubeletSigner, joining.ServingSigner}, grant("certificates.k8s.io", "signers", "approve")),
		only([]string{kubeadm.AutoApproval}, grant(rbacv1.GroupName, "clusterrolebindings", "delete")),
		// The configuration that a joining host starts with.
		grant(mcfgv1.GroupName, "machineconfigs", "get"),
		only([]string{rollout.Master, rollout.Worker}, grant(mcfgv1.GroupName, "machineconfigpools", "get")),
		// The schedule of backups.
		only([]string{backup.ObjectName}, grant("config.openshift.io", "backups", "get")),
		// To check whether the cluster's own objects exist, and which rights agents
		// have.
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
		// To see which keys for secrets this host's API server has, and by which it
		// verifies tokens.
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
		{NonResourceURLs: []string{"/openid/v1/jwks"}, Verbs: []string{"get"}},
	}
	if !t.Fencing {
		return out
	}
	return append(out,
		grant("", "nodes/status", "patch"), // a host that is off cannot report itself as not ready
		grant("", "pods", "list"),
		grant("etcd.openshift.io", "pacemakerclusters", "get"),
		grant("etcd.openshift.io", "pacemakerclusters/status", "patch"),
	)
}

// inSystem returns the rights over objects in Kubernetes' own namespace: bootstrap
// tokens and the key of join secrets, the requested keys for secrets, incidents.
func inSystem(hosts []string) []rbacv1.PolicyRule {
	secrets := grant("", "secrets", "create", "delete", "get", "list", "update")
	again := only([]string{retired.ConfigMap}, grant("", "configmaps", "patch")) // a name is given to a host again
	if len(hosts) == 0 {
		return []rbacv1.PolicyRule{secrets, grant("", "configmaps", "get", "list"), again}
	}
	return []rbacv1.PolicyRule{
		secrets, grant("", "configmaps", "create", "get", "list"), again, only(named(incident.ConfigMapPrefix, hosts), grant("", "configmaps", "update")),
	}
}

// fencedHosts returns the control planes whose names are in the configuration.
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

// only limits a rule to objects with these names.
func only(names []string, rule rbacv1.PolicyRule) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

// agentsIn gives agents rights in a namespace, or in the whole cluster if the
// namespace is empty.
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
