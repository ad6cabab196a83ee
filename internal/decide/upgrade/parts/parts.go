// Package parts decides about what of a release runs in the cluster and not on a host:
// in which order an upgrade brings it, which control plane does so, and what the cluster
// remembers of it.
package parts

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The parts of a release.
const (
	// Objects are all objects of the release but the operator itself: roles, kinds,
	// policies, the pod network, the cluster's DNS.
	Objects = "objects"
	// KubeProxy is the image of kubeadm's DaemonSet. Its configuration stays.
	KubeProxy = cluster.KubeProxy
	// Operator is the Deployment of the operator. It follows its rights.
	Operator = "operator"
)

// Order returns the parts in the order in which an upgrade brings them. On the way back
// the last one goes first.
func Order() []string { return []string{Objects, KubeProxy, Operator} }

// Choose returns the control plane that brings a part of a release: one that is ready and
// has the release whole. now is the one that is at it; it stays while it is well. Empty
// means that there is none.
func Choose(hosts []gate.Host, release, now string) string {
	out := ""
	for _, h := range hosts {
		switch {
		case h.Worker || !state.Is(h.Ready, true) || !slices.Contains(h.Whole.Value, release):
		case h.Name == now:
			return now
		case out == "" || h.Name < out:
			out = h.Name
		}
	}
	return out
}

// Name reports whether a text may be the name of a part, also of a release that has other
// ones: a host makes an argument of it.
func Name(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz-") == "" && text[0] != '-'
}
