package removal

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/model/retired"
)

// Back returns the entry that goes from the list if a person keeps a host whose removal was begun, nil if
// the list does not keep its name out. A gate says why an entry has to stay: it is about an earlier host of
// the name, or about a control plane, whose member left etcd.
func Back(list retired.List, n *corev1.Node) (entry *retired.Host, shut []Gate) {
	h, listed := list.Of(n.Name)
	switch {
	case !listed || !h.Open():
		return nil, nil
	case h.UID != string(n.UID):
		return nil, []Gate{{
			"another", "an earlier host " + n.Name + " was " + h.String() + ", the Node of today is another one, and the name stays retired",
			"Take this Node out, too, and give the name again: holdfast host remove " + n.Name + ", then holdfast host add " + n.Name,
		}}
	case h.ControlPlane:
		return nil, []Gate{{
			"plane", n.Name + " is a control plane and was " + h.String() + ": there is no way back",
			"See: docs/runbook/hosts.md#a-control-plane-of-three",
		}}
	}
	return &h, nil
}
