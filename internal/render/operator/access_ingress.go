package operator

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/render/router"
)

// ingressAccess gives the rights to keep routers, all in their own namespaces,
// except for the classes. The installation grants the routers' own rights: an
// operator that could grant them would need to have them.
func ingressAccess() []Object {
	const name = Name + "-ingress"
	var out []Object
	out = append(out, inNamespace("ingress", ingress.Namespace, name,
		rule("operator.openshift.io", []string{"create", "get", "list", "patch", "watch"}, "ingresscontrollers"),
		rule("operator.openshift.io", []string{"patch"}, "ingresscontrollers/status"),
		rule("", []string{"create", "get", "list", "patch", "watch"}, "secrets"),
	)...)
	out = append(out, inNamespace("routers", ingress.OperandNamespace, name,
		rule("apps", keep, "deployments"),
		rule("", keep, "configmaps", "secrets", "services"),
		rule("", read, "pods"),
		rule("networking.k8s.io", keep, "ingresses", "networkpolicies"),
		rule("policy", keep, "poddisruptionbudgets"),
		rule("monitoring.coreos.com", []string{"create", "delete", "get", "patch"}, "servicemonitors"),
	)...)
	// It needs a role of its own: the roles that agents of an earlier release
	// created lack these rights, and agents change no roles.
	out = append(out, inNamespace("route-hosts", ingress.OperandNamespace, Name+"-route-hosts", rule(router.HostsKind.Group, keep, router.HostsResource))...)
	out = append(out, inNamespace("client-authorities", "openshift-config", name, rule("", read, "configmaps"))...)
	trust := rule("", []string{"patch"}, "configmaps")
	trust.ResourceNames = []string{"default-ingress-cert"}
	// The served certificates are published under a name that other operators
	// know.
	served := rule("", append([]string{"patch"}, read...), "secrets")
	served.ResourceNames = []string{"router-certs"}
	out = append(out, inNamespace("trust", "openshift-config-managed", name,
		rule("", append([]string{"create"}, read...), "configmaps"), trust,
		rule("", []string{"create"}, "secrets"), served)...)
	return append(out, certificateAccess()...)
}

// certificateAccess gives the rights to provide routers with the certificates
// that Ingresses and Gateways name, and no others. The operator reads every
// Secret, because each may be such a certificate. It runs on control planes,
// and its rights there (to create pods on any host) are no weaker already.
// Routers run on workers and read the copies.
func certificateAccess() []Object {
	const name = Name + "-certificates"
	former := rule("rbac.authorization.k8s.io", []string{"delete", "get"}, "clusterrolebindings", "clusterroles")
	former.ResourceNames = []string{router.FormerAccess}
	return append(
		inCluster("certificates", name,
			rule("", read, "configmaps", "secrets"),
			rule("networking.k8s.io", read, "ingresses"),
			rule(ingress.GatewayGroup, read, "backendtlspolicies", "gateways", "referencegrants"),
			former,
		),
		inNamespace("certificates", ingress.CertificatesNamespace, name, rule("", all, "configmaps", "secrets"))...,
	)
}

func object(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Labels: labels()} }

// PlacementPolicyName is the name of the policy that protects the default
// placement of routers.
const PlacementPolicyName = "holdfast-default-placement"

// placementStays refuses a change of the routers' default place once that is
// set. Their number would stay, but not their hosts, and the site's DNS names
// lead to the hosts.
func placementStays() []Object {
	const field = "status.defaultPlacement"
	policy := &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: admission("ValidatingAdmissionPolicy"), ObjectMeta: object(PlacementPolicyName),
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule: admissionv1.Rule{
						APIGroups: []string{"config.openshift.io"}, APIVersions: []string{"*"}, Resources: []string{"ingresses/status"},
					},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("!has(oldObject.status) || !has(oldObject.%[1]s) || oldObject.%[1]s == '' || "+
					"(has(object.status) && has(object.%[1]s) && object.%[1]s == oldObject.%[1]s)", field),
				Message: "status.defaultPlacement is fixed for the life of a cluster: " +
					"set spec.replicas and spec.nodePlacement of the IngressController instead",
				Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: admission("ValidatingAdmissionPolicyBinding"), ObjectMeta: object(PlacementPolicyName),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: PlacementPolicyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	return []Object{{"placement", policy}, {"placement-binding", binding}}
}
