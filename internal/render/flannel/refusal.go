package flannel

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// RefusalName is the name of the policy and of its binding. While the policy
// exists, nobody enforces NetworkPolicies; whoever installs an enforcer removes
// it.
const RefusalName = "holdfast-network-policy"

// warningName is the name of the policy and the binding that only warn.
const warningName = RefusalName + "-unenforced"

// In a namespace with this label and value, NetworkPolicies can be created
// although nothing enforces them: an administrator knows.
const (
	knownLabel = "holdfast.io/network-policies"
	knownValue = "unenforced"
)

// unenforced is the warning for everybody who creates or changes a
// NetworkPolicy.
const unenforced = "nothing in this cluster enforces a NetworkPolicy: its pod network (flannel) lets every pod reach every pod. "

// refused is the message for a NetworkPolicy that is refused.
const refused = unenforced + "To have those of a namespace all the same, which then protect from nothing, label it " + knownLabel + "=" + knownValue +
	"; docs/what-you-bring.md says how to add an enforcer."

// refusal returns policies against NetworkPolicies that protect from nothing:
// whoever creates one relies on it. A namespace's label declares that somebody
// knows; then creating one only causes a warning. So does a change of an existing
// one. The policies belong to this pod network, so another network comes without
// them. They do not affect the operator's own NetworkPolicy, for routers.
func refusal() []any {
	const known = "has(namespaceObject.metadata.labels) && '" + knownLabel + "' in namespaceObject.metadata.labels && " +
		"namespaceObject.metadata.labels['" + knownLabel + "'] == '" + knownValue + "'"
	ours := fmt.Sprintf("request.namespace == '%s'", ingress.OperandNamespace)
	return append(
		policy(RefusalName, ours+" || ("+known+")", refused, admissionv1.Deny, admissionv1.Create),
		policy(warningName, ours, unenforced, admissionv1.Warn, admissionv1.Create, admissionv1.Update)...,
	)
}

// policy returns a policy about NetworkPolicies, and its binding. A request
// that the policy cannot judge is allowed: an enforcer may be on its way.
func policy(name, expression, message string, action admissionv1.ValidationAction, on ...admissionv1.OperationType) []any {
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: name}
	}
	p := admissionv1.ValidatingAdmissionPolicy{TypeMeta: kind("ValidatingAdmissionPolicy"), ObjectMeta: meta(name)}
	p.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionv1.Ignore),
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: on,
				Rule: admissionv1.Rule{
					APIGroups: []string{"networking.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"networkpolicies"},
				},
			},
		}}},
		Validations: []admissionv1.Validation{{Expression: expression, Message: message}},
	}
	binding := admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: kind("ValidatingAdmissionPolicyBinding"), ObjectMeta: meta(name),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{action}},
	}
	return []any{p, binding}
}
