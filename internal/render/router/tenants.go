package router

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// These admission policies define what an Ingress or a route may ask of the
// routers. They work while none of our processes runs, and refuse a request
// instead of repairing its result. Only administrators write objects of the
// routers' own namespace, which may ask for anything. The installation writes
// the policies (docs/adr/0034).

// Names of the policies.
const (
	// ShapePolicyName is the policy about requests that affect the routers
	// themselves.
	ShapePolicyName = "holdfast-routes"
	// HostsPolicyName is the policy about hosts that belong to another namespace.
	HostsPolicyName = "holdfast-route-hosts"
)

// Policies returns both policies with their bindings.
func Policies() []any {
	shape, owners := shapePolicy(), hostsPolicy()
	plain, listed := binding(ShapePolicyName), binding(HostsPolicyName)
	listed.Spec.ParamRef = &admissionv1.ParamRef{
		Namespace: ingress.OperandNamespace,
		Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{ingress.LabelHosts: ingress.HostsListed}},
		// Without a list there was never a router, and so there is nothing to take
		// away.
		ParameterNotFoundAction: new(admissionv1.AllowAction),
	}
	return []any{shape, plain, owners, listed}
}

// routeKinds lists the kinds of routes, including those that routers do not
// follow yet.
var routeKinds = []string{"grpcroutes", "httproutes", "tcproutes", "tlsroutes", "udproutes"}

// ask returns the CEL expression for a list that may be missing. Expressions
// read objects with dyn: the kinds of the Gateway API differ from version to
// version and may be missing.
func ask(path string) string {
	return fmt.Sprintf("dyn(object).?%s.orValue([])", strings.ReplaceAll(path, ".", ".?"))
}

// some returns the CEL expression for a list, or for otherwise if the list is
// missing or empty: both ask for everything.
func some(object, path, otherwise string) string {
	list := fmt.Sprintf("%s.?%s.orValue([])", object, strings.ReplaceAll(path, ".", ".?"))
	return fmt.Sprintf("(%[1]s.size() == 0 ? %[2]s : %[1]s)", list, otherwise)
}

// unchanged is the CEL expression of an update that changes nothing that the
// policies check. So objects that were admitted, or are older than the policies,
// can be labelled and deleted. A deletion that waits for a finalizer is no way
// around the policies.
const unchanged = "oldObject != null && dyn(object).?spec == dyn(oldObject).?spec && " +
	"dyn(object).metadata.?annotations == dyn(oldObject).metadata.?annotations"

const (
	isIngress   = "request.kind.kind == 'Ingress'"
	annotations = "dyn(object).metadata.?annotations.orValue({})"
	// classOf is the CEL expression for the class by which routers recognise their
	// Ingresses.
	classOf = "dyn(object).spec.?ingressClassName.orValue('kubernetes.io/ingress.class' in " + annotations + " ? " +
		annotations + "['kubernetes.io/ingress.class'] : '')"
	ourPrefix = "traefik.ingress.kubernetes.io/router."
)

// harmless lists the annotations of Traefik that affect only the Ingress's own
// requests. All others with the prefix are refused, whatever a later version
// makes of them.
var harmless = []string{"pathmatcher", "tls"}

// harmlessPrefix begins annotations about logs, metrics and traces of the
// Ingress's own requests.
const harmlessPrefix = "observability."

func shapePolicy() *admissionv1.ValidatingAdmissionPolicy {
	foreign := fmt.Sprintf("k.startsWith('%[1]s') && !(k in [%[2]s]) && !k.startsWith('%[1]s%[3]s')",
		ourPrefix, "'"+ourPrefix+strings.Join(harmless, "', '"+ourPrefix)+"'", harmlessPrefix)
	out := newPolicy(ShapePolicyName)
	out.Spec.MatchConditions = append(out.Spec.MatchConditions, admissionv1.MatchCondition{
		Name: "ours", Expression: "!(" + isIngress + ") || (" + classOf + ").startsWith('" + ingress.ClassName("") + "')",
	})
	out.Spec.Validations = []admissionv1.Validation{
		refuse("!("+isIngress+") || !"+annotations+".exists(a, [a.lowerAscii()].exists(k, "+foreign+"))",
			"this annotation reaches into the routers that all namespaces share: entry points, priority, middlewares and TLS are the administrator's. "+
				"Leave out all of "+ourPrefix+" but "+strings.Join(harmless, ", ")+" and "+harmlessPrefix+"*, or have an administrator make the Ingress in namespace "+ingress.OperandNamespace+"."),
		refuse("!("+isIngress+") || "+ask("spec.rules")+".all(r, r.?http.?paths.orValue([]).all(p, !p.?path.orValue('').contains('`')))",
			"a backquote in spec.rules[].http.paths[].path could end the rule that a router makes of it. Percent-encode it as %60."),
		refuse(isIngress+" || "+ask("spec.rules")+".all(r, ("+
			"r.?backendRefs.orValue([]).map(b, b) + r.?filters.orValue([]).map(f, f.?requestMirror.?backendRef.orValue({})))"+
			".all(b, b.?group.orValue('') != 'traefik.io' && b.?kind.orValue('') != 'TraefikService'))",
			"a backendRef to a TraefikService leads to the routers' own API, or to what another namespace has. Name a Service."),
	}
	return out
}

// hostsPolicy checks against one list of hosts at a time: an Ingress against
// the list of the routers with its class, a route against every list.
func hostsPolicy() *admissionv1.ValidatingAdmissionPolicy {
	out := newPolicy(HostsPolicyName)
	apiVersion, kind := HostsKind.ToAPIVersionAndKind()
	out.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: apiVersion, Kind: kind}
	out.Spec.Variables = []admissionv1.Variable{
		{Name: "data", Expression: "params.?data.orValue({})"},
		{Name: "ours", Expression: isIngress + " ? (" + classOf + ") == variables.data['" + ingress.HostsClass + "'] : " +
			ask("spec.parentRefs") + ".exists(p, p.?kind.orValue('Gateway') != 'Service')"},
		{Name: "strict", Expression: "variables.data['" + ingress.HostsOwnership + "'] == 'Strict'"},
		{Name: "wildcards", Expression: "variables.data['" + ingress.HostsWildcards + "'] == 'WildcardsAllowed'"},
		// A route's paths apply to all its hosts; a rule without paths applies to all
		// paths.
		{Name: "paths", Expression: ask("spec.rules") + ".map(r, " + some("r", "matches", "[{}]") + ".map(m, request.kind.kind == 'HTTPRoute' ? m.?path.?value.orValue('/') : '*'))"},
		// An Ingress with rules has no default backend.
		{Name: "asked", Expression: isIngress + " ? " + some("dyn(object)", "spec.rules", "[{}]") +
			".map(r, {'host': dyn(r.?host.orValue('')), 'paths': dyn([" + some("r", "http.paths", "[{}]") + ".map(p, p.?path.orValue('/'))])})" +
			" : " + some("dyn(object)", "spec.hostnames", "['']") + ".map(h, {'host': dyn(h), 'paths': dyn(variables.paths)})"},
		{Name: "below", Expression: "variables.data[?'" + ingress.HostsBelow + "'].orValue('').split('\\n').filter(l, l != '').map(l, l.split(' '))"},
	}
	const (
		mine = "l.startsWith(request.namespace + ' ')"
		key  = "(a.host == '' ? '" + ingress.HostsEvery + "' : a.host.replace('*', '_', 1))"
		path = "l.substring(l.indexOf(' ') + 1)"
		// The host is the namespace's own, or another path of a shared host.
		free = "variables.data[?" + key + "].orValue('').split('\\n').all(l, l == '' || " + mine + " || " +
			"!(" + path + " == '*' || a.paths.exists(ps, ps.exists(p, p == '*' || p == " + path + "))))"
		// No wildcard above the host belongs to another namespace.
		above = "variables.below.all(b, b[0] == request.namespace || !a.host.endsWith('.' + b[1]))"
		// No host below the wildcard belongs to another namespace.
		below = "!a.host.startsWith('*.') || variables.data.all(k, !k.endsWith(a.host.substring(1)) || (k.startsWith('_') && !k.startsWith('_.')) || " +
			"variables.data[k].split('\\n').all(l, " + mine + "))"
	)
	each := func(rule string) string { return "!variables.ours || variables.asked.all(a, " + rule + ")" }
	const why = "routers serve all namespaces, and a namespace that takes a host of another one gets its requests and its cookies. "
	out.Spec.Validations = []admissionv1.Validation{
		refuse("!variables.strict || "+each("a.host != ''"),
			"without a host it asks for every host: "+why+"Name hosts in spec.rules[].host or spec.hostnames. "+
				"An Ingress or route for all other hosts is created by an administrator, in namespace "+ingress.OperandNamespace+"."),
		refuse("variables.wildcards || "+each("!a.host.startsWith('*')"),
			"a wildcard takes every name below it that no namespace has yet. Name each host, or have an administrator set "+
				"spec.routeAdmission.wildcardPolicy of the IngressController to WildcardsAllowed."),
		refuse(each("("+free+") && (!variables.strict || (("+above+") && ("+below+")))"),
			"another namespace had this host first: "+why+"Take another host, or have that namespace delete its Ingress or route. "+
				"With spec.routeAdmission.namespaceOwnership InterNamespaceAllowed, namespaces share hosts path by path."),
	}
	return out
}

// refuse returns a validation: the condition that must hold, and the message if
// it does not.
func refuse(expression, message string) admissionv1.Validation {
	return admissionv1.Validation{Expression: expression, Message: message + " (docs/runbook/ingress.md)", Reason: new(metav1.StatusReasonForbidden)}
}

// newPolicy returns a policy for Ingresses and routes of all namespaces except the
// routers' own. It refuses objects that cannot be judged.
func newPolicy(name string) *admissionv1.ValidatingAdmissionPolicy {
	rule := func(group string, resources ...string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources},
		}}
	}
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: admission("ValidatingAdmissionPolicy"), ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": accessName}},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{ingress.OperandNamespace}},
				}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{rule("networking.k8s.io", "ingresses"), rule(ingress.GatewayGroup, routeKinds...)},
			},
			MatchConditions: []admissionv1.MatchCondition{{Name: "changed", Expression: "!(" + unchanged + ")"}},
		},
	}
}

func binding(name string) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: admission("ValidatingAdmissionPolicyBinding"), ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": accessName}},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny, admissionv1.Audit},
		},
	}
}

func admission(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
}
