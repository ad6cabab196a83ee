package operator

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The fields of etcd's object that say that etcd is not kubelet's any more.
const (
	UseExternal = "useExternalEtcdSupport"
	MayRemove   = "useUnsupportedUnsafeEtcdContainerRemoval"
)

// PolicyName is the name of the rule that keeps those fields.
const PolicyName = "holdfast-etcd-hand-over"

// oneWay refuses to take the hand-over of etcd back: kubelet would start a
// second etcd beside the one that the cluster manager runs.
func oneWay() []Object {
	policy := &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   admission("ValidatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: PolicyName, Labels: labels()},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update, admissionv1.Delete},
					Rule: admissionv1.Rule{
						APIGroups: []string{"operator.openshift.io"}, APIVersions: []string{"*"}, Resources: []string{"etcds"},
					},
				},
			}}},
			Validations: []admissionv1.Validation{kept(UseExternal), kept(MayRemove)},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   admission("ValidatingAdmissionPolicyBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: PolicyName, Labels: labels()},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: PolicyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	return []Object{{"one-way", policy}, {"one-way-binding", binding}}
}

func admission(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
}

// kept is the rule that a field stays true once it is. The object of a
// deletion is null.
func kept(field string) admissionv1.Validation {
	return admissionv1.Validation{
		Expression: fmt.Sprintf("!(%s) || (object != null && %s)", isTrue("oldObject", field), isTrue("object", field)),
		Message: fmt.Sprintf("spec.unsupportedConfigOverrides.%s was true and stays true: "+
			"etcd runs under the cluster manager, and there is no way back", field),
		Reason: new(metav1.StatusReasonForbidden),
	}
}

func isTrue(object, field string) string {
	const folder = ".spec.unsupportedConfigOverrides"
	return fmt.Sprintf("has(%[1]s%[2]s) && %[1]s%[2]s != null && has(%[1]s%[2]s.%[3]s) && %[1]s%[2]s.%[3]s == true", object, folder, field)
}
