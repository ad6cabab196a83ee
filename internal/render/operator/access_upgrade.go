package operator

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
)

// upgradeAccess gives the rights to take a site from one release to another: to read what
// the gates ask, to keep the record, and to see what was brought and whether the pods of
// that run. A control plane brings the parts by its own account. The right to give hosts
// their turn, and to ask one for a backup before an upgrade, is that of changing nodes.
func upgradeAccess() []Object {
	const name = Name + "-upgrade"
	only := func(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
		r.ResourceNames = names
		return r
	}
	out := inCluster("upgrade", name,
		rule("config.openshift.io", append([]string{"create"}, read...), "clusterversions"),
		rule("config.openshift.io", []string{"update"}, "clusterversions/status"),
		rule("config.openshift.io", []string{"list"}, "clusteroperators"),
		// Webhooks that would hold an upgrade, and on which hosts their pods are.
		rule("admissionregistration.k8s.io", []string{"list"}, "mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
		rule("discovery.k8s.io", []string{"list"}, "endpointslices"),
		// Which port of a pod is that to which an Ingress or a route leads.
		rule("", []string{"get"}, "services"),
		// In which versions objects are stored, and which webhooks convert them.
		rule("apiextensions.k8s.io", []string{"get", "list"}, "customresourcedefinitions"),
		only(rule("apps", []string{"get"}, "daemonsets"), "kube-flannel"),
		// Who uses APIs that Kubernetes removes.
		rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	)
	out = append(out, inNamespace("upgrade", annotation.RecordNamespace, name,
		rule("", []string{"create"}, "configmaps"),
		only(rule("", []string{"get", "update"}, "configmaps"), annotation.RecordName),
		only(rule("", []string{"get"}, "configmaps"), parts.MarkName),
		only(rule("coordination.k8s.io", []string{"get"}, "leases"), "kube-controller-manager", "kube-scheduler"),
		only(rule("apps", []string{"get"}, "daemonsets"), "coredns", parts.KubeProxy),
	)...)
	return append(out, inNamespace("upgrade-operator", Namespace, name, only(rule("apps", []string{"get"}, "deployments"), Name))...)
}

// The names of the policies about upgrades.
const (
	VersionPolicyName = "holdfast-cluster-version"
	TurnsPolicyName   = "holdfast-upgrade-turns"
)

// refusal returns a policy and its binding.
func refusal(file, name string, spec admissionv1.ValidatingAdmissionPolicySpec) []Object {
	spec.FailurePolicy = new(admissionv1.Fail)
	return []Object{
		{file, &admissionv1.ValidatingAdmissionPolicy{TypeMeta: admission("ValidatingAdmissionPolicy"), ObjectMeta: object(name), Spec: spec}},
		{file + "-binding", &admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: admission("ValidatingAdmissionPolicyBinding"), ObjectMeta: object(name),
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		}},
	}
}

func matching(group string, operations []admissionv1.OperationType, resources ...string) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources},
	}}}}
}

// turnsAreGiven refuses a change of the annotations by which hosts get their turn, their
// releases and parts to bring, by anybody but the operator: a turn that another one gives could take
// two control planes at once. The account of a kubelet can write them at its own node,
// and those of control planes' agents at every node.
func turnsAreGiven() []Object {
	ours := annotation.GivenByOperator()
	var same []string
	for _, name := range ours {
		same = append(same, fmt.Sprintf("('%[1]s' in variables.after ? variables.after['%[1]s'] : '') == ('%[1]s' in variables.before ? variables.before['%[1]s'] : '')", name))
	}
	return refusal("turns-policy", TurnsPolicyName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matching("", []admissionv1.OperationType{admissionv1.Update}, "nodes", "nodes/status"),
		MatchConditions:  []admissionv1.MatchCondition{{Name: "others", Expression: fmt.Sprintf("request.userInfo.username != 'system:serviceaccount:%s:%s'", Namespace, Name)}},
		Variables: []admissionv1.Variable{
			{Name: "before", Expression: "dyn(oldObject).metadata.?annotations.orValue({})"},
			{Name: "after", Expression: "dyn(object).metadata.?annotations.orValue({})"},
		},
		Validations: []admissionv1.Validation{{
			Expression: strings.Join(same, " && "),
			Message:    "holdfast-operator alone gives hosts their turn in an upgrade (" + strings.Join(ours, ", ") + "): ask for one with `holdfast upgrade start`",
			Reason:     new(metav1.StatusReasonForbidden),
		}},
	})
}

// mistake is a condition that must not hold, in CEL, and the words about it.
type mistake struct{ is, words string }

// versionMistakes are those of a ClusterVersion: the releases that it may name, the
// fields that nothing here follows, and the forms of annotations.
func versionMistakes() []mistake {
	at := func(name string) string { return "metadata.annotations[" + name + "]" }
	unlike := func(name, form string) string {
		return fmt.Sprintf("'%[1]s' in variables.notes && !variables.notes['%[1]s'].matches('%[2]s')", name, form)
	}
	unused := func(field, empty, words string) mistake {
		return mistake{fmt.Sprintf("dyn(object).spec.?%s.orValue(%s) != %s", strings.ReplaceAll(field, ".", ".?"), empty, empty), "spec." + field + ": " + words}
	}
	out := []mistake{
		{"dyn(object).metadata.name != 'version'", "metadata.name: a site has one ClusterVersion, named version"},
		{"oldObject != null && dyn(oldObject).spec.clusterID != dyn(object).spec.clusterID", "spec.clusterID: it stays for the life of a cluster"},
		{
			"dyn(object).spec.?desiredUpdate.hasValue() && !dyn(object).spec.desiredUpdate.?image.orValue('').matches('^([^@]+@)?sha256:[0-9a-f]{64}$')",
			"spec.desiredUpdate.image: a release is named by its digest: sha256:HEX, or anything@sha256:HEX, with 64 hexadecimal digits in lower case",
		},
		unused("desiredUpdate.force", "false", "nothing skips all gates; an administrator skips one of them with "+annotation.OverridesOf),
		unused("desiredUpdate.architecture", "''", "a release is named by spec.desiredUpdate.image alone"),
		unused("desiredUpdate.mode", "''", "leave it out, and use `holdfast upgrade check`"),
		unused("desiredUpdate.acceptRisks", "[]", "an administrator skips a gate with "+annotation.OverridesOf),
	}
	for _, field := range []string{"channel", "upstream"} {
		out = append(out, unused(field, "''", "nothing offers releases here; an administrator names one"))
	}
	for _, field := range []string{"overrides", "signatureStores"} {
		out = append(out, unused(field, "[]", "nothing here follows it"))
	}
	known := annotation.GivenByPeople()
	return append(out,
		mistake{"dyn(object).spec.?capabilities.hasValue()", "spec.capabilities: nothing here follows it"},
		mistake{unlike(annotation.SoakOf, "^(off|([1-9][0-9]*[hms])+)$"), at(annotation.SoakOf) + ": a duration such as 24h, or off"},
		mistake{unlike(annotation.OfferOf, "^sha256:[0-9a-f]{64}$"), at(annotation.OfferOf) + ": a release is named by its digest: sha256:HEX, with 64 hexadecimal digits in lower case"},
		mistake{unlike(annotation.PausedBy, "[^ ]"), at(annotation.PausedBy) + ": the reason of the pause; without one leave the annotation out"},
		mistake{unlike(annotation.CommitOf, "^[A-Za-z0-9.-]{1,64}$"), at(annotation.CommitOf) + ": the id of the upgrade that is under way, as `holdfast upgrade status` says it"},
		mistake{unlike(annotation.OverridesOf, "^ *[[]((?s).*)[]] *$"), at(annotation.OverridesOf) + ": a JSON list of objects with gate, reason, by and at"},
		mistake{unlike(annotation.SourcesOf, "^ *[{]((?s).*)[}] *$"), at(annotation.SourcesOf) + ": a JSON object with registry or folder"},
		mistake{
			fmt.Sprintf("variables.notes.exists(k, k.startsWith('holdfast.io/upgrade-') && !(k in ['%s']))", strings.Join(known, "', '")),
			"metadata.annotations: of those that begin with holdfast.io/upgrade- there are " + strings.Join(known, ", "),
		},
	)
}

// versionIsSound refuses a ClusterVersion with mistakes, and names all of them.
func versionIsSound() []Object {
	var list []string
	for _, m := range versionMistakes() {
		list = append(list, fmt.Sprintf("(%s) ? '%s' : ''", m.is, m.words))
	}
	return refusal("version-policy", VersionPolicyName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matching("config.openshift.io", []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, "clusterversions"),
		Variables: []admissionv1.Variable{
			{Name: "notes", Expression: "dyn(object).metadata.?annotations.orValue({})"},
			{Name: "mistakes", Expression: "[" + strings.Join(list, ", ") + "].filter(m, m != '')"},
		},
		Validations: []admissionv1.Validation{{
			Expression: "variables.mistakes.size() == 0", MessageExpression: "variables.mistakes.join('; ')",
			Message: "the ClusterVersion has mistakes", Reason: new(metav1.StatusReasonInvalid),
		}},
	})
}
