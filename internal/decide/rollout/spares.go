package rollout

import (
	"fmt"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// PairSpares returns what Pacemaker's status in the API says about each of two
// control planes. A status without a recent sign of life says nothing.
func PairSpares(s etcdv1.PacemakerClusterStatus, now time.Time) map[string]Spare {
	out := map[string]Spare{}
	age := now.Sub(s.LastUpdated.Time).Abs()
	for _, host := range pacemakerstatus.Survives(s) {
		switch {
		case age > pacemakerstatus.Silence:
			out[host.Host] = Spare{Why: fmt.Sprintf("no host has reported on Pacemaker for %s", page.Duration(age))}
		case host.Survives || carriesNothing(s, host.Host):
			out[host.Host] = Spare{Carries: state.Known(true)}
		default:
			out[host.Host] = Spare{Carries: state.Known(false), Why: host.Because}
		}
	}
	return out
}

// carriesNothing reports whether a host is already out of etcd, while the other
// one goes on alone. Redundancy is missing then, and the host itself is the one
// that can be mended.
func carriesNothing(s etcdv1.PacemakerClusterStatus, name string) bool {
	out, others := false, 0
	for _, n := range nodes(s) {
		online := pacemakerstatus.Find(n.Conditions, etcdv1.NodeOnlineConditionType).Status
		etcd := etcdHealth(n)
		switch {
		case n.NodeName == name:
			out = online == metav1.ConditionFalse || etcd == metav1.ConditionFalse
		case online == metav1.ConditionTrue && etcd == metav1.ConditionTrue:
			others++
		}
	}
	return out && others == 1
}

func nodes(s etcdv1.PacemakerClusterStatus) []etcdv1.PacemakerClusterNodeStatus {
	if s.Nodes == nil {
		return nil
	}
	return *s.Nodes
}

func etcdHealth(n etcdv1.PacemakerClusterNodeStatus) metav1.ConditionStatus {
	for _, r := range n.Resources {
		if r.Name == etcdv1.PacemakerClusterResourceNameEtcd {
			return pacemakerstatus.Find(r.Conditions, etcdv1.ResourceHealthyConditionType).Status
		}
	}
	return metav1.ConditionUnknown
}
