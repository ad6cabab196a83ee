// Package guards renders admission policies of the API server. They keep people
// with good intentions from breaking a cluster of two control planes, and in
// every cluster they narrow rights of accounts that are too wide. The policies
// need none of our processes, so they work while those are down, and they
// refuse a request instead of repairing its result.
//
// Each guard refuses one thing, with a policy and a binding of the same name.
// Its message says why, and what to do instead. docs/adr/0023-guards.md
// describes the guards of clusters of two; other clusters have none of these.
// docs/adr/0031-accounts-on-workers.md describes those of every cluster.
package guards

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// Label is set on every guard, and on nothing else.
const Label = state.AnnotationDomain + "guard"

// The values of Label: the clusters for which guards are made.
const (
	twoNode    = "two-node"
	anyCluster = "any"
)

// ControlPlane is a host that only the cluster manager may switch off.
type ControlPlane struct {
	// Name is the name of its node.
	Name string
	// BMC is the address of its BMC, the zero value if that is unknown.
	BMC bmc.Address
}

// NewControlPlane parses the Redfish URL of a node's BMC. If that fails, the
// BMC stays unknown, which makes guards stricter.
func NewControlPlane(node, url string) ControlPlane {
	address, err := bmc.Parse(url)
	if err != nil {
		address = bmc.Address{}
	}
	return ControlPlane{Name: node, BMC: address}
}

// Guard refuses one thing.
type Guard struct {
	Policy  *admissionv1.ValidatingAdmissionPolicy
	Binding *admissionv1.ValidatingAdmissionPolicyBinding
}

// Name returns the name of both objects.
func (g Guard) Name() string { return g.Policy.Name }

// Always returns the guards of every cluster. out is the data of the ConfigMap that lists
// the hosts that were taken out.
func Always(out map[string]string) []Guard { return []Guard{PodNetwork(), RetiredHosts(out)} }

// All returns the additional guards of a cluster with these control planes.
// Each guard depends on nothing but its object. It contains the names of the
// hosts: a policy that looked them up would refuse nothing, or everything,
// while the place of the names is missing.
func All(hosts []ControlPlane) []Guard {
	hosts = slices.SortedFunc(slices.Values(hosts), func(a, b ControlPlane) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.BMC.URL(), b.BMC.URL()))
	})
	return []Guard{
		etcdIsHandedOver(),
		topologyStays(),
		kindsStay(),
		bareMetalHosts(hosts),
		healthChecks(),
		remediations(hosts),
		remediationTemplates(hosts),
		remediationAgents(),
		hostedClusters(),
		machineConfigPools(),
	}
}

// rules selects the requests that a guard checks.
type rules []admissionv1.NamedRuleWithOperations

// on returns one rule for any version of a group.
func on(resources, groups []string, operations ...admissionv1.OperationType) rules {
	return rules{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionv1.Rule{
			APIGroups: groups, APIVersions: []string{"*"}, Resources: resources, Scope: new(admissionv1.AllScopes),
		},
	}}}
}

// The operations that a guard may check. A server-side apply has no operation
// of its own: it is one of these. The deletion of many objects is one deletion
// of each.
const (
	create = admissionv1.Create
	update = admissionv1.Update
	remove = admissionv1.Delete
)

// variables are expressions that checks share, in order.
type variables [][2]string

// checks lists conditions that must hold, and the message if one does not.
type checks []admissionv1.Validation

func check(expression, message string) admissionv1.Validation {
	return admissionv1.Validation{
		Expression: expression, Message: message + " " + more, Reason: new(metav1.StatusReasonForbidden),
	}
}

// more is the page with more information for a person who was refused.
const more = "(docs/runbook/guards.md)"

// newGuard sets every field that the API server would otherwise fill in, so
// that a guard can be compared with the object in the cluster.
func newGuard(name string, matched rules, vars variables, checked checks) Guard {
	name = "holdfast-" + name
	spec := admissionv1.ValidatingAdmissionPolicySpec{
		// An object that the guard cannot judge is refused.
		FailurePolicy: new(admissionv1.Fail),
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
			ResourceRules: matched, MatchPolicy: new(admissionv1.Equivalent),
		},
		Validations: checked,
	}
	for _, v := range vars {
		spec.Variables = append(spec.Variables, admissionv1.Variable{Name: v[0], Expression: v[1]})
	}
	return Guard{
		Policy: &admissionv1.ValidatingAdmissionPolicy{TypeMeta: kind("ValidatingAdmissionPolicy"), ObjectMeta: meta(name, twoNode), Spec: spec},
		Binding: &admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: kind("ValidatingAdmissionPolicyBinding"), ObjectMeta: meta(name, twoNode),
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: refusing()},
		},
	}
}

// refusing also leaves a mark in the audit log.
func refusing() []admissionv1.ValidationAction {
	return []admissionv1.ValidationAction{admissionv1.Deny, admissionv1.Audit}
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: name}
}

func meta(name, clusters string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": operator.Name, Label: clusters}}
}

// everywhere turns a guard into one for every cluster.
func everywhere(g Guard) Guard {
	g.Policy.Labels[Label], g.Binding.Labels[Label] = anyCluster, anyCluster
	return g
}
