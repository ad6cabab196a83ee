package guards

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast/holdfast/internal/model/retired"
)

// RetiredHosts is the guard that keeps a host out which was taken out of the cluster and still
// runs. Kubernetes revokes no certificate, so the kubelet of that host could make its Node again,
// speak for a later host that has its name, or renew its certificate for ever, since the
// controller manager approves that. A host that gets the name again asks for its first certificate
// with a bootstrap token, not as a kubelet. The guard does not affect kubelets of other names.
//
// data is that of the ConfigMap with the list. The guard holds the names itself, because an
// API server never again follows a ConfigMap that is a policy's parameter, once for a
// second no binding has used one (kubernetes/kubernetes#130887).
func RetiredHosts(data map[string]string) Guard {
	const (
		name    = "dyn(object).metadata.name"
		machine = "status.nodeInfo.machineID"

		requests = "certificatesigningrequests"
	)
	known, _ := retired.Read(data) // a name whose entry cannot be read is out
	listed := slices.Sorted(maps.Keys(data))
	out := slices.DeleteFunc(slices.Clone(listed), func(n string) bool {
		h, ok := known.Of(n)
		return ok && !h.Open()
	})
	users := make([]string, len(out))
	for i, n := range out {
		users[i] = "system:node:" + n
	}
	return everywhere(newGuard("retired-hosts",
		append(on([]string{"nodes", "nodes/status"}, []string{""}, create, update),
			on([]string{requests}, []string{"certificates.k8s.io"}, create)...),
		variables{
			{"asks", "request.resource.resource == '" + requests + "'"},
			{"kubelet", "!variables.asks && 'system:nodes' in request.userInfo.groups"},
			{"out", fmt.Sprintf("%s in %s", name, list(out))},
			{"listed", fmt.Sprintf("%s in %s", name, list(listed))},
		},
		checks{
			check("!variables.asks || !(request.userInfo.username in "+list(users)+")",
				"this host was taken out of the cluster, and its kubelet gets no certificate any more. To have a host of this name, add one: holdfast host add."),
			check("!variables.kubelet || oldObject != null || !variables.out",
				"this host was taken out of the cluster, and its kubelet may not make its Node again. To have a host of this name, add one: holdfast host add."),
			check("!variables.kubelet || oldObject == null || !variables.listed || "+field("oldObject", machine, "''")+" == '' || "+stays(machine),
				"a host of this name was taken out of the cluster, and this is another machine than the Node's: one of the two is the old one. Wipe that one: holdfast-agent wipe."),
		}))
}
