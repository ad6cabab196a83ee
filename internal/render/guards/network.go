package guards

import "fmt"

// PodNetworkAccount is the account of the pod network's daemon, which runs on
// every host.
const PodNetworkAccount = "system:serviceaccount:kube-flannel:flannel"

// nodeOfToken is the field of a token with the node of its pod. The API server
// writes it into the token; whoever requests a token cannot set it.
const nodeOfToken = "authentication.kubernetes.io/node-name"

// PodNetwork limits the daemon's account to the daemon's task: it reports on
// its own node how pods there are reached. For that it needs the right to patch
// the status of nodes. That right covers every node, with its labels and
// annotations, because that endpoint accepts those too.
func PodNetwork() Guard {
	const unavailable = "NetworkUnavailable"
	// others returns the conditions of kubelet and the controllers.
	others := func(o string) string {
		return fmt.Sprintf("%s.filter(c, c.type != '%s')", field(o, "status.conditions", "[]"), unavailable)
	}
	const why = "the account of the pod network says how pods of its own host are reached, and nothing else: "
	const instead = ". Its daemon never asks for more, so another program uses its token: find out on which host."
	return everywhere(newGuard("pod-network",
		on([]string{"nodes", "nodes/status"}, []string{""}, create, update, remove),
		variables{
			{"daemon", fmt.Sprintf("request.userInfo.username == '%s'", PodNetworkAccount)},
			{"places", fmt.Sprintf("has(request.userInfo.extra) && '%[1]s' in request.userInfo.extra ? request.userInfo.extra['%[1]s'] : []", nodeOfToken)},
			{"whole", "object != null && oldObject != null"},
			{"before", field("oldObject", "metadata.annotations", "{}")},
			{"after", field("object", "metadata.annotations", "{}")},
		},
		checks{
			check("!variables.daemon || (variables.whole && variables.places == [dyn(object).metadata.name])",
				why+"this is not the node of its token, or the request creates or deletes it"+instead),
			check("!variables.daemon || !variables.whole || ("+same("metadata", "annotations", "managedFields", "resourceVersion", "generation")+")",
				why+"labels, owners and finalizers of a node are not its own"+instead),
			check("!variables.daemon || !variables.whole || ("+
				"variables.after.all(k, k.startsWith('flannel.alpha.coreos.com/') || (k in variables.before && variables.before[k] == variables.after[k])) && "+
				"variables.before.all(k, k.startsWith('flannel.alpha.coreos.com/') || k in variables.after))",
				why+"only annotations of flannel.alpha.coreos.com are its own"+instead),
			check("!variables.daemon || !variables.whole || ("+same("status", "conditions")+" && "+same("spec")+")",
				why+"addresses and other data that kubelet reports of a node are not its own"+instead),
			check(fmt.Sprintf("!variables.daemon || !variables.whole || (%[1]s.all(c, c in %[2]s) && %[2]s.all(c, c in %[1]s))", others("object"), others("oldObject")),
				why+"of a node's conditions only "+unavailable+" is its own"+instead),
		}))
}

// same returns the expression that one part of an object is the same in both
// versions, except for some fields.
func same(part string, but ...string) string {
	old, now := field("oldObject", part, "{}"), field("object", part, "{}")
	return fmt.Sprintf("%[1]s.all(k, k in %[3]s || (k in %[2]s && %[1]s[k] == %[2]s[k])) && %[2]s.all(k, k in %[3]s || k in %[1]s)",
		now, old, list(but))
}
