package flannel

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// RefusalName is the name of the policy and of its binding. While it is there
// nobody enforces NetworkPolicies; who installs what does takes it away.
const RefusalName = "holdfast-network-policy"

// warningName is the name of those that warn where nothing is refused.
const warningName = RefusalName + "-unenforced"

// A namespace with this label and value has its NetworkPolicies made, though
// nothing enforces them: a person knows.
const (
	knownLabel = "holdfast.io/network-policies"
	knownValue = "unenforced"
)

// unenforced is what whoever makes a NetworkPolicy reads.
const unenforced = "nothing in this cluster enforces a NetworkPolicy: its pod network (flannel) lets every pod reach every pod. "

// refused is added where it is not made.
const refused = unenforced + "To have those of a namespace all the same, which then protect from nothing, label it " + knownLabel + "=" + knownValue +
	"; docs/what-you-bring.md says how to add an enforcer."

// refusal keeps NetworkPolicies from being made that protect from nothing: whoever
// makes one relies on it. A namespace's label says that somebody knows; then, and
// where one that is there is changed, they are made with a warning. It belongs to
// this network, so another one comes without it. The operator's own, for routers,
// goes unsaid.
func refusal() []any {
	const known = "has(namespaceObject.metadata.labels) && '" + knownLabel + "' in namespaceObject.metadata.labels && " +
		"namespaceObject.metadata.labels['" + knownLabel + "'] == '" + knownValue + "'"
	ours := fmt.Sprintf("request.namespace == '%s'", ingress.OperandNamespace)
	return append(
		policy(RefusalName, ours+" || ("+known+")", refused, admissionv1.Deny, admissionv1.Create),
		policy(warningName, ours, unenforced, admissionv1.Warn, admissionv1.Create, admissionv1.Update)...,
	)
}

// policy is a policy about NetworkPolicies, and its binding. One that cannot be
// judged is let through: an enforcer may be on its way.
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
