package guards

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// etcdIsHandedOver refuses to reverse the hand-over of etcd: kubelet would
// start a second etcd beside the one that the cluster manager runs.
func etcdIsHandedOver() Guard {
	return newGuard("etcd-hand-over",
		on([]string{"etcds"}, []string{"operator.openshift.io"}, update, remove), nil,
		checks{kept(operator.UseExternal), kept(operator.MayRemove)})
}

// kept returns the check that a field stays true once it is true. Some clients
// write it as a text. In a deletion the object is null.
func kept(name string) admissionv1.Validation {
	path := "spec.unsupportedConfigOverrides." + name
	before, after := field("oldObject", path, "false"), field("object", path, "false")
	return check(
		fmt.Sprintf("!(%[1]s in [dyn(true), dyn('true')]) || (object != null && %[2]s in [dyn(true), %[1]s])", before, after),
		path+" was true and stays true: etcd runs under the cluster manager, and kubelet would start a second one beside it. "+
			"Only `sudo holdfast topology apply` on a control plane goes back. Whatever else the object has may be changed.")
}

// topologyStays protects the topology, from which everybody derives the number
// of replicas, the guards, and who runs etcd. A plan of `holdfast topology` lifts it (docs/adr/0096).
func topologyStays() Guard {
	const why = " is not changed by hand: operators, routers, these guards and who runs etcd follow it. " +
		"Only `sudo holdfast topology apply` on a control plane changes it, step by step."
	return newGuard("topology",
		on([]string{"infrastructures", "infrastructures/status"}, []string{"config.openshift.io"}, update, remove), nil,
		checks{
			check("object != null || dyn(oldObject).metadata.name != 'cluster'",
				"this object describes the cluster and could not be restored: without it every operator stops. Change its spec instead."),
			check("object == null || "+stays("status.controlPlaneTopology"), "status.controlPlaneTopology"+why),
			check("object == null || "+stays("status.infrastructureTopology"), "status.infrastructureTopology"+why),
			check("object == null || "+field("object", "spec.controlPlaneTopology", "''")+" in ['', 'DualReplica']",
				"spec.controlPlaneTopology asks for another topology, and this field does not bring it. Leave it out; `sudo holdfast topology apply` goes to one control plane."),
		})
}

// kindsStay refuses the way around: deleting a kind deletes every object of it,
// without a request for each one.
func kindsStay() Guard {
	kept := list([]string{"etcds.operator.openshift.io", "infrastructures.config.openshift.io"})
	// A request that deletes many has no name, so the policy cannot select these
	// kinds by name.
	return newGuard("topology-kinds", on([]string{"customresourcedefinitions"}, []string{"apiextensions.k8s.io"}, remove), nil, checks{check(
		"!(dyn(oldObject).metadata.name in "+kept+")",
		"this definition holds the object that describes the cluster, or that records the hand-over of etcd: "+
			"without it operators would stop or start over. Apply a newer definition over it instead.")})
}

// hostedClusters refuses control planes of other clusters in this one.
func hostedClusters() Guard {
	return newGuard("hosted-clusters",
		on([]string{"hostedclusters", "hostedcontrolplanes"}, []string{"hypershift.openshift.io"}, create), nil,
		checks{check(never, "a cluster of two control planes does not host others: one host has to carry everything while the other is away, "+
			"and hosted control planes want three of each. Create it in a cluster of three control planes.")})
}

// machineConfigPools keeps one control plane running while the other one
// changes.
func machineConfigPools() Guard {
	const selector = "spec.nodeSelector"
	return newGuard("machine-config-pools",
		on([]string{"machineconfigpools"}, []string{"machineconfiguration.openshift.io"}, create, update),
		variables{
			{"roles", fmt.Sprintf("%s.map(k, k) + %s.filter(e, e.operator in ['In', 'Exists']).map(e, e.key)",
				field("object", selector+".matchLabels", "{}"), field("object", selector+".matchExpressions", "[]"))},
			// A pool that names no role may contain every host.
			{"ours", fmt.Sprintf("dyn(object).metadata.name == 'master' || variables.roles.exists(r, r in %s) || "+
				"!variables.roles.exists(r, r.startsWith('node-role.kubernetes.io/'))", list(controlPlaneLabels()))},
		},
		checks{check("!variables.ours || "+field("object", "spec.paused", "false")+" == true || "+field("object", "spec.maxUnavailable", "1")+" == 1",
			"this pool is of the control planes, and two of them are changed one after the other: "+
				"spec.maxUnavailable must be 1 or left out. To change none of them set spec.paused to true; 0 does not pause.")})
}

func controlPlaneLabels() []string { return []string{state.LabelControlPlane, state.LabelMaster} }
