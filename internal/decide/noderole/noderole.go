// Package noderole decides the role labels of nodes. kubeadm sets only
// control-plane, and kubelet may set none of them itself, but the specifications
// select nodes by master and worker.
package noderole

import "github.com/holdfast/holdfast/internal/model/state"

// Role labels; their value is empty.
const (
	ControlPlane = state.LabelControlPlane
	Master       = state.LabelMaster
	Worker       = state.LabelWorker
)

// Claim is the label with which a host states, from its first moment as a node,
// the role it was installed with; its value is a state.Role. A joining control
// plane is a node for some seconds before kubeadm labels it as one, and must not
// count as a worker meanwhile.
const Claim = "holdfast.io/role"

// Missing returns the labels that a node lacks. have holds its labels,
// mastersSchedulable says whether control planes take workloads in this cluster,
// and proven whether the node is proven to be a control plane. A host's claim
// can only make it a worker: kubeadm, with an administrator's rights, decided
// which hosts are control planes. The proof is the label that kubeadm set or,
// when a control plane asks about itself, its own administrator's account.
// Labels are only ever added, since a person may give nodes roles of their own.
func Missing(have map[string]string, mastersSchedulable, proven bool) []string {
	var missing []string
	for _, label := range wanted(have, mastersSchedulable, proven) {
		if _, ok := have[label]; !ok {
			missing = append(missing, label)
		}
	}
	return missing
}

func wanted(have map[string]string, mastersSchedulable, proven bool) []string {
	_, controlPlane := have[ControlPlane]
	switch {
	case (controlPlane || proven) && mastersSchedulable:
		return []string{ControlPlane, Master, Worker}
	case controlPlane || proven:
		return []string{ControlPlane, Master}
	case have[Claim] == string(state.RoleWorker):
		return []string{Worker}
	default:
		return nil
	}
}
