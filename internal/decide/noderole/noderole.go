// Package noderole decides the role labels of nodes. kubeadm sets only
// control-plane, and kubelet may set none of them itself; the specifications
// select nodes by master and worker.
package noderole

// Label prefix and names; the value of a role label is empty.
const (
	ControlPlane = "node-role.kubernetes.io/control-plane"
	Master       = "node-role.kubernetes.io/master"
	Worker       = "node-role.kubernetes.io/worker"
)

// Missing returns the labels that a node lacks, given those it has and whether
// control planes take workloads in this cluster. Labels are only ever added: a
// person may take worker away from a control plane with a taint, and may add
// roles of their own.
func Missing(have map[string]string, mastersSchedulable bool) []string {
	want := []string{Worker}
	if _, controlPlane := have[ControlPlane]; controlPlane {
		want = []string{Master}
		if mastersSchedulable {
			want = append(want, Worker)
		}
	}
	var missing []string
	for _, label := range want {
		if _, ok := have[label]; !ok {
			missing = append(missing, label)
		}
	}
	return missing
}
