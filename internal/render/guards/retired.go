package guards

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/holdfast/holdfast/internal/model/retired"
)

// RetiredHosts keeps a host out that was taken out of the cluster and still runs.
// Kubernetes revokes no certificate, so its kubelet could make its Node again, or
// speak for a later host that has its name. The list says which names are out; no
// kubelet of another name notices the guard.
func RetiredHosts() Guard {
	const (
		name    = "dyn(object).metadata.name"
		machine = "status.nodeInfo.machineID"
	)
	g := everywhere(newGuard("retired-hosts",
		on([]string{"nodes", "nodes/status"}, []string{""}, create, update),
		variables{
			{"kubelet", "'system:nodes' in request.userInfo.groups"},
			{"entry", "params != null && has(params.data) && " + name + " in params.data ? params.data[" + name + "] : ''"},
			{"given", `variables.entry.contains('"again":')`},
		},
		checks{
			check("!variables.kubelet || oldObject != null || variables.entry == '' || variables.given",
				"this host was taken out of the cluster, and its kubelet may not make its Node again. To have a host of this name, add one: holdfast host add."),
			check("!variables.kubelet || oldObject == null || variables.entry == '' || "+field("oldObject", machine, "''")+" == '' || "+stays(machine),
				"a host of this name was taken out of the cluster, and this is another machine than the Node's: one of the two is the old one. Wipe that one: holdfast-agent wipe."),
		}))
	g.Policy.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	g.Binding.Spec.ParamRef = &admissionv1.ParamRef{
		Name: retired.ConfigMap, Namespace: retired.Namespace, ParameterNotFoundAction: new(admissionv1.AllowAction),
	}
	return g
}
