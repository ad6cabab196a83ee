package rotation

import (
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// HostsOf returns the control planes among nodes, with what each says about an
// authority, and the names of other nodes that are not ready.
func HostsOf(nodes []state.Node, a Authority) (hosts []Host, absent []string) {
	for _, n := range nodes {
		// A host that is joining has an API server before its control-plane label.
		if !n.ControlPlane() && n.Labels[noderole.Claim] != string(state.RoleMaster) {
			if !n.Ready {
				absent = append(absent, n.Name)
			}
			continue
		}
		h := Host{Name: n.Name, Ready: n.Ready && !n.Absent}
		renewal := state.ParseAnnotation[state.CertificateRenewal](n.Annotations[state.AnnotationRenewal])
		h.Renews = renewal.Known && !renewal.Value.Since.IsZero()
		if said := state.ParseAnnotation[Reports](n.Annotations[state.AnnotationTrust]); said.Known {
			h.ControlPlanes, h.NoRoot = said.Value.ControlPlanes, said.Value.NoRoot
			if r, ok := said.Value.Authorities[a]; ok {
				h.Report = &r
			}
		}
		hosts = append(hosts, h)
	}
	return hosts, absent
}

// EtcdSpares says why etcd could not do without one of two control planes; empty if
// it could do without either. spares is what Pacemaker's status says about each, by
// name. Of other numbers of control planes nothing is said: the agents ask the other
// API servers, which are ready only with etcd.
func EtcdSpares(hosts []Host, spares map[string]rollout.Spare) string {
	if len(hosts) != 2 {
		return ""
	}
	for _, h := range hosts {
		spare, known := spares[h.Name]
		switch {
		case !known:
			return "Pacemaker's status says nothing of " + h.Name + ": holdfast status"
		case !state.Is(spare.Carries, true):
			return strings.TrimSuffix(fmt.Sprintf("etcd could not do without %s now: %s", h.Name, spare.Why), ": ")
		}
	}
	return ""
}
