package guards

import (
	"fmt"
)

// The groups of operators that reboot and fence nodes automatically. A kind
// that a group does not have never occurs.
var remediationGroups = []string{
	"customized-user-remediation.medik8s.io", "fence-agents-remediation.medik8s.io", "machine-deletion-remediation.medik8s.io",
	"self-node-remediation.medik8s.io", "storage-based-remediation.medik8s.io",
}

// nodeName is the annotation in which a remediation names its node if its own
// name is another.
const nodeName = "remediation.medik8s.io/node-name"

// healthChecks keeps control planes out of the objects that decide that a node
// is ill.
func healthChecks() Guard {
	excludes := fmt.Sprintf("%s.exists(e, e.key in %s && e.operator == 'DoesNotExist')",
		field("object", "spec.selector.matchExpressions", "[]"), list(controlPlaneLabels()))
	return newGuard("node-health-checks",
		on([]string{"nodehealthchecks"}, []string{"remediation.medik8s.io"}, create, update), nil,
		checks{check(beingDeleted+" || "+excludes,
			"spec.selector may select a control plane: "+whyOneMaster+
				"Exclude them with a matchExpression {key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}.")})
}

// remediations refuses to reboot, fence or delete a control plane.
func remediations(hosts []ControlPlane) Guard {
	annotations := field("object", "metadata.annotations", "{}")
	target := fmt.Sprintf("dyn(object).metadata.name in %[1]s || ('%[2]s' in %[3]s && %[3]s['%[2]s'] in %[1]s)",
		list(nodesOf(hosts)), nodeName, annotations)
	return newGuard("remediations",
		on([]string{
			"customizeduserremediations", "fenceagentsremediations", "machinedeletionremediations",
			"selfnoderemediations", "storagebasedremediations",
		}, remediationGroups, create, update), nil,
		checks{check(beingDeleted+" || !("+target+")",
			"this remediation is of a control plane: "+whyOneMaster+
				"Pacemaker fences it already if it is lost; 'holdfast status' shows its state. Exclude control planes from the NodeHealthCheck that made this.")})
}

// remediationTemplates keeps the accounts of the control planes' BMCs out of
// the objects that fence other nodes.
func remediationTemplates(hosts []ControlPlane) Guard {
	const parameters = "spec.template.spec.nodeparameters"
	return newGuard("remediation-templates",
		on([]string{"fenceagentsremediationtemplates"}, remediationGroups, create, update),
		variables{{"parameters", field("object", parameters, "{}")}},
		checks{check(fmt.Sprintf("%s || !variables.parameters.exists(p, %s.exists(n, n in variables.parameters[p]))", beingDeleted, list(nodesOf(hosts))),
			parameters+" names a control plane: "+whyOneMaster+"Leave its entries out; keep those of compute hosts.")})
}

// remediationAgents refuses agents that reboot a host on their own judgement:
// they cannot be kept off a control plane.
func remediationAgents() Guard {
	return newGuard("remediation-agents",
		on([]string{"selfnoderemediationconfigs", "storagebasedremediationconfigs"}, remediationGroups, create), nil,
		checks{check(never, "this runs an agent on every host that reboots it when it reaches neither the API nor its peers, as the survivor of two does for a moment. "+
			"For compute hosts use FenceAgentsRemediation, which acts from outside; control planes are fenced by Pacemaker.")})
}

func nodesOf(hosts []ControlPlane) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Name)
	}
	return out
}
