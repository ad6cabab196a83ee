package rollout

import (
	"fmt"
	"slices"
	"strings"
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

// PairIdle reports whether one of two control planes is known to carry nothing of the
// cluster, by the report of its etcd keeper: neither its etcd nor a stand-in runs, and
// Corosync, which has not seen the other host since it started or does not run, lets
// nothing start here. A boot then takes nothing away, whoever is absent: what its record
// lets it do alone, it may do after the boot as before (docs/adr/0010). A host with
// quorum may be about to take over, which a boot could take from it.
func PairIdle(s state.EtcdSnapshot) bool {
	return state.Is(s.Local.Running, false) && state.Is(s.Local.StandIn, 0) && !state.Is(s.Pacemaker.Inert, false)
}

// PairHalts reports whether one of two control planes that shuts down has to have its etcd
// stopped before, in the place of Pacemaker: a person told Pacemaker to leave etcd of this host
// alone, so it would end without leaving, and the other host could not write. And whether the
// other host can go on, which the etcd keeper looks at once more. A plan of ours that has
// Pacemaker in maintenance moves etcd itself: a host of it is no pair, or has the plan's word.
func PairHalts(s etcdv1.PacemakerClusterStatus, name string, r state.EtcdReport) bool {
	own, peer := r.Snapshot, r.Snapshot.Statement
	serves := r.Wish == state.EtcdStarted && state.Is(own.Local.Running, true) && own.Local.Leader.Value != 0 && own.Local.Stalled == 0 && inPair(own.Record)
	carries := state.Is(own.Pacemaker.Contact, true) && peer.Known && state.Is(peer.Value.Running, true) && !peer.Value.Leaving &&
		peer.Value.Stalled == 0 && peer.Value.Sick == "" && inPair(state.Known(peer.Value.Record))
	planned := own.Third.Coming || !own.Third.Word.Known
	return LeftAlone(s, name) && serves && carries && !planned
}

func inPair(r state.Fact[state.EtcdRecord]) bool { return r.Known && r.Value.State == state.EtcdPair }

// LeftAlone reports whether Pacemaker does not stop etcd of a host.
func LeftAlone(s etcdv1.PacemakerClusterStatus, name string) bool {
	for _, n := range nodes(s) {
		for _, r := range n.Resources {
			if n.NodeName == name && r.Name == etcdv1.PacemakerClusterResourceNameEtcd {
				return pacemakerstatus.Find(r.Conditions, etcdv1.ResourceInServiceConditionType).Status == metav1.ConditionFalse ||
					pacemakerstatus.Find(r.Conditions, etcdv1.ResourceManagedConditionType).Status == metav1.ConditionFalse
			}
		}
	}
	return false
}

// QuorumIdle reports whether one of three or more control planes is known to carry
// nothing of the cluster: its etcd does not run, or it does not serve and none of the
// others answers it, so that it is in no majority.
func QuorumIdle(name string, runs state.Fact[bool], serves map[string]state.Fact[bool]) bool {
	if state.Is(runs, false) {
		return true
	}
	for other, s := range serves {
		if other != name && s.Known {
			return false
		}
	}
	return state.Is(serves[name], false)
}

// QuorumSpares returns what the members of etcd say about each of three or more
// control planes: the cluster carries on without one while the others that serve
// are a majority of all. serves has one entry for each control plane that there
// shall be.
func QuorumSpares(serves map[string]state.Fact[bool]) map[string]Spare {
	majority := len(serves)/2 + 1
	out := map[string]Spare{}
	for name := range serves {
		sure, maybe := 0, 0
		var not []string
		for other, s := range serves {
			switch {
			case other == name:
			case state.Is(s, true):
				sure, maybe = sure+1, maybe+1
			case !s.Known:
				maybe++
				not = append(not, other+" (it does not answer)")
			default:
				not = append(not, other+" (it is not healthy)")
			}
		}
		slices.Sort(not)
		switch {
		case sure >= majority:
			out[name] = Spare{Carries: state.Known(true)}
		case maybe >= majority:
			out[name] = Spare{Why: "too few members of etcd are known to serve; not " + strings.Join(not, ", ")}
		default:
			out[name] = Spare{Carries: state.Known(false), Why: "too few members of etcd serve; not " + strings.Join(not, ", ")}
		}
	}
	return out
}
