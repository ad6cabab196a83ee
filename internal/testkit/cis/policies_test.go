package cis

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/site"
)

// onlyRestricted is the reason why the default does not refuse what level
// restricted would.
const onlyRestricted = "Level `restricted` refuses it and is what the default warns of and records; most programs that people bring would not start under it. " +
	"A namespace has it by the label `pod-security.kubernetes.io/enforce: restricted`."

var policies = []section{
	{"5.1 Rights, of what Holdfast brings", []control{
		{id: "5.1.1", what: "cluster-admin only where it is required", look: func(_ *testing.T, f facts) bool {
			return !slices.ContainsFunc(f.bound, func(b binding) bool { return b.role == "cluster-admin" && b.name != "holdfast-administrators" })
		}, why: "It is bound to whoever holds the installation's kubeconfig, and by kubeadm to control planes."},
		{
			id: "5.1.2", what: "who reads Secrets", look: secretsStayHome,
			why: "A role that reads Secrets has to be bound in the namespaces where they are needed, not in the whole cluster.",
		},
		{id: "5.1.3", what: "no wildcards", look: nobody(func(_ role, rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*")
		})},
		{id: "5.1.4", what: "who creates pods", look: nobody(func(r role, rule rbacv1.PolicyRule) bool {
			return r.namespace == "" && allows(rule, "pods", "create")
		})},
		{id: "5.1.5, .6", what: "a pod has an account of its own, or none", look: everyPod(func(p pod) bool {
			none := p.spec.AutomountServiceAccountToken != nil && !*p.spec.AutomountServiceAccountToken
			return p.static || none || p.spec.ServiceAccountName != "" && p.spec.ServiceAccountName != "default"
		}), why: "A static pod has none."},
		{
			id: "5.1.7", what: "nobody in system:masters", verdict: pass, shown: "TestAnAdministratorIsOneForAsLongAsABindingSaysSo",
			why: "kubeadm leaves `super-admin.conf` on the first host, root's, for the day on which somebody has taken all rights away.",
		},
		{id: "5.1.8", what: "bind, impersonate and escalate", look: nobody(func(_ role, rule rbacv1.PolicyRule) bool {
			return len(rule.ResourceNames) == 0 && slices.ContainsFunc(rule.Verbs, func(v string) bool { return v == "bind" || v == "impersonate" || v == "escalate" })
		})},
		{id: "5.1.9", what: "who creates persistent volumes", look: nobody(func(_ role, rule rbacv1.PolicyRule) bool { return allows(rule, "persistentvolumes", "create") })},
		{id: "5.1.10", what: "who speaks to kubelets", look: nobody(func(_ role, rule rbacv1.PolicyRule) bool { return allows(rule, "nodes/proxy", "get", "create") })},
		{
			id: "5.1.11", what: "who approves certificates", look: agentsApproveKubelets, shown: "TestAWorkersTokenIsNobodyElsesIdentity",
			why: "Of what Holdfast renders: the agents of control planes, and kubelets' alone: to be a client, for the name that a token was made for; to serve, for a node's own name and addresses. What kubeadm binds is not judged here.",
		},
		{id: "5.1.12", what: "who changes webhooks", look: nobody(func(_ role, rule rbacv1.PolicyRule) bool {
			verbs := []string{"create", "update", "patch", "delete"}
			return allows(rule, "validatingwebhookconfigurations", verbs...) || allows(rule, "mutatingwebhookconfigurations", verbs...)
		})},
		{id: "5.1.13", what: "who makes tokens", look: nobody(func(_ role, rule rbacv1.PolicyRule) bool { return allows(rule, "serviceaccounts/token", "create") })},
	}},
	{"5.2 What a pod may, in a namespace that nobody named", []control{
		{
			id: "5.2.1", what: "a policy is in force", look: func(_ *testing.T, f facts) bool { return f.level.Level == "baseline" || f.level.Level == "restricted" },
			shown: "TestATenantsPodCannotHaveItsHost", why: "Exempt are four namespaces of Holdfast's, each proven to need it: `TestNoNamespaceIsExemptForNothing`.",
		},
		{id: "5.2.2", what: "no privileged containers", look: refused(func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Privileged = new(true) })},
		{id: "5.2.3", what: "not the host's processes", look: refused(func(s *corev1.PodSpec) { s.HostPID = true })},
		{id: "5.2.4", what: "not the host's IPC", look: refused(func(s *corev1.PodSpec) { s.HostIPC = true })},
		{id: "5.2.5", what: "not the host's network", look: refused(func(s *corev1.PodSpec) { s.HostNetwork = true })},
		{id: "5.2.6", what: "no escalation", look: refused(func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true) }), why: onlyRestricted},
		{id: "5.2.7", what: "no root in a container", look: refused(func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.RunAsUser = new(int64(0)) }), why: onlyRestricted},
		{id: "5.2.8", what: "no raw packets", look: refused(func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil }), why: onlyRestricted},
		{id: "5.2.9", what: "no capabilities", look: refused(func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"CHOWN"}}
		}), why: onlyRestricted},
		{id: "5.2.10", what: "no HostProcess", look: refused(func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}
		})},
		{id: "5.2.11", what: "no files of the host", look: refused(func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		})},
		{id: "5.2.12", what: "no ports of the host", look: refused(func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
		})},
	}},
	{"5.3-5.6 The rest", []control{
		{
			id: "5.3.1", what: "a network that knows NetworkPolicies", verdict: fail,
			why: "The pod network that comes along does not; the API warns whoever makes one. A site that needs them brings another (`networkType: None`).",
		},
		{id: "5.3.2", what: "policies in every namespace", verdict: theirs, why: "See 5.3.1."},
		{id: "5.4.1", what: "Secrets as files", look: everyPod(func(p pod) bool {
			return !slices.ContainsFunc(p.spec.Containers, func(c corev1.Container) bool {
				return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil }) ||
					slices.ContainsFunc(c.EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil })
			})
		})},
		{id: "5.4.2", what: "a store of secrets outside", verdict: theirs, why: "Nothing of the cluster's own needs one, nor may: it starts alone."},
		{id: "5.5.1", what: "where images come from", verdict: theirs, why: "Holdfast's own are never pulled: they come with the release, by their digests."},
		{id: "5.6.1", what: "namespaces as boundaries", verdict: theirs, why: "Holdfast's own are its own."},
		{id: "5.6.2", what: "a filter of system calls in every pod", shown: "TestEveryPodOfOursHasAFilterOfSystemCalls", verdict: pass, why: "Privileged ones have none: kube-proxy and the Jobs that enter a host."},
		{id: "5.6.3", what: "a security context in every pod", look: everyPod(func(p pod) bool {
			return p.spec.SecurityContext != nil || !slices.ContainsFunc(p.spec.Containers, func(c corev1.Container) bool { return c.SecurityContext == nil }) ||
				p.meta.Name == "etcd" && p.spec.RestartPolicy == corev1.RestartPolicyNever
		}), why: "podman runs etcd of two hosts, with its own default."},
		{id: "5.6.4", what: "nothing in namespace default", look: everyPod(func(p pod) bool { return p.meta.Namespace != "" && p.meta.Namespace != "default" })},
	}},
}

// agentsApproveKubelets reports whether only agents approve certificates, and
// only those of kubelets.
func agentsApproveKubelets(t *testing.T, f facts) bool {
	t.Helper()
	approvers := f.rules(func(_ role, rule rbacv1.PolicyRule) bool {
		return allows(rule, "certificatesigningrequests/approval", "update", "patch") || slices.Contains(rule.Verbs, "approve")
	})
	beyond := nobody(func(_ role, rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Verbs, "approve") && !slices.Equal(rule.ResourceNames, []string{joining.KubeletSigner, joining.ServingSigner})
	})
	good := beyond(t, f)
	for _, b := range f.bound {
		if slices.Contains(approvers, b.role) && slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool { return s.Kind != rbacv1.GroupKind || s.Name != site.AgentsGroup }) {
			t.Logf("%s gives it to %v", b.name, b.subjects)
			good = false
		}
	}
	return good
}

// secretsStayHome reports whether no role that reads Secrets is bound in the whole
// cluster.
func secretsStayHome(t *testing.T, f facts) bool {
	t.Helper()
	readers := f.rules(func(r role, rule rbacv1.PolicyRule) bool {
		return r.namespace == "" && allows(rule, "secrets", "get", "list", "watch")
	})
	good := true
	for _, b := range f.bound {
		if b.namespace == "" && slices.Contains(readers, b.role) {
			t.Logf("%s gives it to %v", b.name, b.subjects)
			good = false
		}
	}
	return good
}
