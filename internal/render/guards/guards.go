// Package guards renders what keeps a cluster of two control planes from being
// taken apart by somebody who means well, and every cluster from what the
// rights of an account would let through: admission policies of the API server
// itself. They need none of our processes, so they hold while those are down,
// and they refuse a request instead of mending what it did.
//
// Each refuses one thing, in a policy and a binding of one name, and says why
// and what to do instead. What a cluster of two must keep others from is in
// docs/adr/0023-guards.md; other clusters have none of it. What every cluster
// has is in docs/adr/0031-accounts-on-workers.md.
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

// Label is on every guard, and on nothing else.
const Label = state.AnnotationDomain + "guard"

// The values of Label: the clusters that guards are for.
const (
	twoNode    = "two-node"
	anyCluster = "any"
)

// ControlPlane is a host that only the cluster manager may switch off.
type ControlPlane struct {
	// Name is its node's.
	Name string
	// BMC is where its power is switched, the zero value where that is unknown.
	BMC bmc.Address
}

// NewControlPlane reads the Redfish URL of a node's BMC. One that cannot be
// read leaves it unknown, which makes guards stricter.
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

// Name is that of both objects.
func (g Guard) Name() string { return g.Policy.Name }

// Always are the guards of every cluster.
func Always() []Guard { return []Guard{PodNetwork()} }

// All are the guards of a cluster with these control planes besides, each of
// which depends on nothing but its object. The names are part of what they
// refuse: a policy that looked for them would refuse nothing, or everything,
// while what it looks in is missing.
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

// rules are what a guard looks at.
type rules []admissionv1.NamedRuleWithOperations

// on is one rule, in any version of a group.
func on(resources, groups []string, operations ...admissionv1.OperationType) rules {
	return rules{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionv1.Rule{
			APIGroups: groups, APIVersions: []string{"*"}, Resources: resources, Scope: new(admissionv1.AllScopes),
		},
	}}}
}

// The operations that a guard may look at. There is no word for what a
// server-side apply does, it is one of these, nor for the deletion of many: it
// is one of each.
const (
	create = admissionv1.Create
	update = admissionv1.Update
	remove = admissionv1.Delete
)

// variables are texts that checks share, in their order.
type variables [][2]string

// checks are what has to be true, and what to say where it is not.
type checks []admissionv1.Validation

func check(expression, message string) admissionv1.Validation {
	return admissionv1.Validation{
		Expression: expression, Message: message + " " + more, Reason: new(metav1.StatusReasonForbidden),
	}
}

// more is where a person who was refused reads on.
const more = "(docs/runbook/guards.md)"

// newGuard has every field that the API server would fill in filled in, so that
// a guard can be compared with what is in the cluster.
func newGuard(name string, matched rules, vars variables, checked checks) Guard {
	name = "holdfast-" + name
	spec := admissionv1.ValidatingAdmissionPolicySpec{
		// An object that cannot be judged is refused.
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

// refusing leaves a mark in the audit log too.
func refusing() []admissionv1.ValidationAction {
	return []admissionv1.ValidationAction{admissionv1.Deny, admissionv1.Audit}
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: name}
}

func meta(name, clusters string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": operator.Name, Label: clusters}}
}

// everywhere makes a guard one of every cluster.
func everywhere(g Guard) Guard {
	g.Policy.Labels[Label], g.Binding.Labels[Label] = anyCluster, anyCluster
	return g
}
