package flannel

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// warningName is the name of the policy and of its binding.
const warningName = "holdfast-network-policy"

// unenforced is what whoever makes a NetworkPolicy reads.
const unenforced = "nothing in this cluster enforces a NetworkPolicy: its pod network (flannel) lets every pod reach every pod. " +
	"docs/what-you-bring.md says how to add an enforcer; delete the ValidatingAdmissionPolicy " + warningName + " then."

// warning tells who makes a NetworkPolicy that it protects from nothing. It
// refuses none: somebody may install what enforces them, and charts bring
// them. It belongs to this network, so another one comes without it. The
// operator's own, for routers, goes unsaid.
func warning() []any {
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: name}
	}
	policy := admissionv1.ValidatingAdmissionPolicy{TypeMeta: kind("ValidatingAdmissionPolicy"), ObjectMeta: meta(warningName)}
	policy.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionv1.Ignore),
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule: admissionv1.Rule{
					APIGroups: []string{"networking.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"networkpolicies"},
				},
			},
		}}},
		Validations: []admissionv1.Validation{{
			Expression: fmt.Sprintf("request.namespace == '%s'", ingress.OperandNamespace), Message: unenforced,
		}},
	}
	binding := admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: kind("ValidatingAdmissionPolicyBinding"), ObjectMeta: meta(warningName),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: warningName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Warn},
		},
	}
	return []any{policy, binding}
}
