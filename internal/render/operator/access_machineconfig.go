package operator

import (
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// machineConfigAccess gives the rights to keep the configurations of pools.
// Whoever may write a MachineConfig writes files and units on hosts, so users'
// accounts should not have these rights.
func machineConfigAccess() []Object {
	const name = Name + "-machine-config"
	site := rule("", []string{"get"}, "configmaps")
	site.ResourceNames = []string{"cluster-config-v1"} // how many control planes there shall be, the cluster's own networks, and etcd's quota
	return slices.Concat(
		inCluster("machine-config", name,
			rule(mcfgv1.GroupName, []string{"create", "delete", "get", "list", "update", "watch"}, "machineconfigs"),
			rule(mcfgv1.GroupName, []string{"create", "get", "list", "patch", "watch"}, "machineconfigpools"),
			rule(mcfgv1.GroupName, read, "containerruntimeconfigs", "kubeletconfigs"),
			rule(mcfgv1.GroupName, []string{"patch"}, "containerruntimeconfigs/status", "kubeletconfigs/status", "machineconfigpools/status"),
			rule("operator.openshift.io", read, "machineconfigurations"),
			rule(configv1.GroupName, read, "imagedigestmirrorsets", "imagetagmirrorsets", "proxies"),
			rule(configv1.GroupName, []string{"patch"}, "proxies/status"),
		),
		inNamespace("machine-config", metav1.NamespaceSystem, name, site),
		inNamespace("authorities", machineconfig.BundleNamespace, name, rule("", read, "configmaps")),
	)
}

// RenderedPolicyName is the name of the policy that protects rendered
// MachineConfigs.
const RenderedPolicyName = "holdfast-rendered-machine-configs"

// renderedStay refuses a change or the deletion of a rendered MachineConfig. Its
// name promises its contents, and a host that was given one that is gone could
// neither begin nor be given another one.
func renderedStay() []Object {
	rules := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Update, admissionv1.Delete},
		Rule:       admissionv1.Rule{APIGroups: []string{mcfgv1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"machineconfigs"}},
	}}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: admission("ValidatingAdmissionPolicy"), ObjectMeta: object(RenderedPolicyName),
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rules}},
			MatchConditions: []admissionv1.MatchCondition{
				{Name: "rendered", Expression: fmt.Sprintf("has(oldObject.metadata.labels) && '%s' in oldObject.metadata.labels", machineconfig.LabelRendered)},
				{Name: "others", Expression: fmt.Sprintf("request.userInfo.username != 'system:serviceaccount:%s:%s'", Namespace, Name)},
			},
			Validations: []admissionv1.Validation{{
				Expression: "request.operation == 'UPDATE' && dyn(object).?spec == dyn(oldObject).?spec && " +
					fmt.Sprintf("has(object.metadata.labels) && '%s' in object.metadata.labels", machineconfig.LabelRendered),
				Message: "a rendered MachineConfig is made from those of its pool, and hosts are given it by its name: change, add or delete " +
					"one of the MachineConfigs that it names in its annotation; one that no host has is deleted by itself",
				Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: admission("ValidatingAdmissionPolicyBinding"), ObjectMeta: object(RenderedPolicyName),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: RenderedPolicyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	return []Object{{"rendered-policy", policy}, {"rendered-policy-binding", binding}}
}
