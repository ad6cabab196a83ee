package apiserver

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// The log is bounded: 1.1 GB where nothing can be packed, a tenth of it mostly.
// The figures are those that CIS asks for.
const (
	auditMegabytes = 100
	auditFiles     = 10
	auditDays      = 30
)

// auditFlags have every API server keep a log of its own. It is written beside
// the answers (batch) and not before them: a disk that hangs would otherwise hold
// every request, on a server that says that it is ready. What that costs is the
// last moment of an API server that is killed.
func auditFlags() []Flag {
	return []Flag{
		{"audit-policy-file", AuditPolicyPath},
		{"audit-log-path", AuditPath},
		{"audit-log-mode", "batch"},
		{"audit-log-maxsize", strconv.Itoa(auditMegabytes)},
		{"audit-log-maxbackup", strconv.Itoa(auditFiles)},
		{"audit-log-maxage", strconv.Itoa(auditDays)},
		{"audit-log-compress", "true"},
	}
}

var (
	reads  = []string{"get", "list", "watch"}
	writes = []string{"create", "update", "patch", "delete", "deletecollection"}
)

// components are the programs of a control plane. Their certificates are on
// control planes alone, where root can read everything anyway.
var components = []string{"system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"}

// auditPolicy says who did what to what, and what was answered. The first rule
// that fits decides. What is left out are the few requests that make most of the
// lines and that no attack needs; each has its reason here.
func auditPolicy() auditv1.Policy {
	return auditv1.Policy{
		TypeMeta:          metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages:        []auditv1.Stage{auditv1.StageRequestReceived},
		OmitManagedFields: true,
		Rules: []auditv1.PolicyRule{
			// Health is asked for every second, by everybody. Which kinds there are is
			// what each client asks first, and no secret.
			{Level: auditv1.LevelNone, NonResourceURLs: []string{
				"/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*",
			}},
			// A lease is renewed every few seconds, by each host and each program; by its
			// own a host says too how the API is reached from outside. One that tries it
			// with another one's is refused and leaves no line.
			{
				Level: auditv1.LevelNone, Users: components, Verbs: []string{"get", "create", "update"},
				Namespaces: []string{metav1.NamespaceSystem}, Resources: of("coordination.k8s.io", "leases"),
			},
			{
				Level: auditv1.LevelNone, UserGroups: []string{"system:nodes"}, Verbs: []string{"get", "update", "patch"},
				Namespaces: []string{"kube-node-lease"}, Resources: of("coordination.k8s.io", "leases"),
			},
			// An Event is itself a record.
			{
				Level: auditv1.LevelNone, Verbs: []string{"create", "update", "patch"},
				Resources: append(of("", "events"), of("events.k8s.io", "events")...),
			},
			// Who changes guards, webhooks and rights, and into what.
			{
				Level: auditv1.LevelRequestResponse, Verbs: writes,
				Resources: append(of("admissionregistration.k8s.io"), of("rbac.authorization.k8s.io")...),
			},
			// Whoever touched these, also a program of the control plane; never what is in
			// them. A token is in the answer to a request for one, and in a review of one.
			{Level: auditv1.LevelMetadata, Resources: append(
				of("", "secrets", "configmaps", "serviceaccounts/token"), of("authentication.k8s.io", "tokenreviews")...)},
			// Sessions in a container or through a host: their begin and their end.
			{Level: auditv1.LevelMetadata, Resources: of("", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy",
				"services/proxy", "nodes/proxy")},
			// They follow every kind there is.
			{Level: auditv1.LevelNone, Users: components, Verbs: reads},
			// All else, a watch when it begins and when it ends. No stage is left out: one
			// who is not known is refused in the first, and has no second.
			{Level: auditv1.LevelMetadata},
		},
	}
}

func of(group string, resources ...string) []auditv1.GroupResources {
	return []auditv1.GroupResources{{Group: group, Resources: resources}}
}
