package apiserver

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// The bounds of the log: 1.1 GB if nothing can be compressed, mostly a tenth of
// it. The numbers are those that CIS requires.
const (
	auditMegabytes = 100
	auditFiles     = 10
	auditDays      = 30
)

// auditFlags makes every API server keep its own log. The server writes it
// asynchronously (batch) and not before the answers: otherwise a hanging disk
// would block every request, on a server that reports ready. The price is that a
// killed API server loses its last records.
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

// components lists the programs of a control plane. Their certificates exist
// only on control planes, where root can read everything anyway.
var components = []string{"system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"}

// auditPolicy records who did what to what, and the result. The first matching
// rule decides. It leaves out only the few kinds of requests that make most of
// the lines and that no attack needs; each has its reason here.
func auditPolicy() auditv1.Policy {
	return auditv1.Policy{
		TypeMeta:          metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages:        []auditv1.Stage{auditv1.StageRequestReceived},
		OmitManagedFields: true,
		Rules: []auditv1.PolicyRule{
			// Everybody asks for the health, every second. Each client begins by asking
			// which kinds exist, which is no secret.
			{Level: auditv1.LevelNone, NonResourceURLs: []string{
				"/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*",
			}},
			// Each host and each program renews a lease every few seconds. In its lease,
			// a host also reports how the API is reached from outside. A host that tries
			// to write another one's lease is refused, and leaves no line.
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
			// Changes of guards, webhooks and rights: the user and the new content.
			{
				Level: auditv1.LevelRequestResponse, Verbs: writes,
				Resources: append(of("admissionregistration.k8s.io"), of("rbac.authorization.k8s.io")...),
			},
			// Access to these: the user, programs of the control plane included, but never
			// the contents. The answer to a request for a token contains the token, and so
			// does a review of one.
			{Level: auditv1.LevelMetadata, Resources: append(
				of("", "secrets", "configmaps", "serviceaccounts/token"), of("authentication.k8s.io", "tokenreviews")...)},
			// Sessions in a container or through a host: begin and end.
			{Level: auditv1.LevelMetadata, Resources: of("", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy",
				"services/proxy", "nodes/proxy")},
			// They follow every existing kind.
			{Level: auditv1.LevelNone, Users: components, Verbs: reads},
			// Everything else, a watch at its begin and its end. No stage is left out: a
			// request from an unknown user is refused in the first stage and has no
			// second.
			{Level: auditv1.LevelMetadata},
		},
	}
}

func of(group string, resources ...string) []auditv1.GroupResources {
	return []auditv1.GroupResources{{Group: group, Resources: resources}}
}
