// Package noderole decides the role labels of nodes. kubeadm sets only
// control-plane, and kubelet may set none of them itself; the specifications
// select nodes by master and worker.
package noderole

import "github.com/holdfast/holdfast/internal/model/state"

// Role labels; their value is empty.
const (
	ControlPlane = state.LabelControlPlane
	Master       = state.LabelMaster
	Worker       = state.LabelWorker
)

// Claim is the label by which a host says, from its first moment as a node,
// what it was installed as; its value is a state.Role. A joining control plane
// is a node for some seconds before kubeadm labels it as one, and must not be
// taken for a worker meanwhile.
const Claim = "holdfast.io/role"

// Missing returns the labels that a node lacks, given those it has, whether
// control planes take workloads in this cluster, and whether it is proven to be
// a control plane. What a host claims can make it a worker only: who is a
// control plane was decided by kubeadm with an administrator's rights, and is
// proven by the label that kubeadm set, or to a control plane of itself by its
// own administrator's account. Labels are only ever added, since a person may
// give nodes roles of their own.
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
