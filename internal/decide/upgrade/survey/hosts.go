package survey

import (
	"slices"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Silence is the age from which on nothing that a host has said counts as known, but
// for its journal: that is the last that is known of its way.
const Silence = 15 * time.Minute

// host is a node with what its host says.
type host struct {
	node   *corev1.Node
	worker bool
	said   annotation.Host
	// fresh is true if what it says is no older than Silence.
	fresh bool
	facts gate.Host
}

// ControlPlane reports whether a node is one of a control plane.
func ControlPlane(n *corev1.Node) bool {
	_, labelled := n.Labels[state.LabelControlPlane]
	return labelled || n.Labels[noderole.Claim] == string(state.RoleMaster) // the label may be lost
}

func hostOf(n *corev1.Node, s Seen) host {
	h := host{node: n, worker: !ControlPlane(n)}
	said, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
	if err == nil {
		h.said = said
		h.fresh = s.Now.Sub(said.At).Abs() <= Silence
	}
	if h.fresh {
		h.facts = said.Facts
	}
	h.facts.Name, h.facts.Worker, h.facts.Pacemaker = n.Name, h.worker, s.TwoNode && !h.worker
	h.facts.Ready = ready(n)
	// It looked before it wrote, and it wrote before this was read: a time that is not yet
	// is that of a clock that is ahead. An old time is no sign of anything, since a host
	// that has no news says nothing for minutes.
	if ahead := said.At.Sub(s.Now); err == nil && ahead > 0 {
		h.facts.Ahead = ahead
	}
	if v, err := gate.ParseVersion(n.Status.NodeInfo.KubeletVersion); err == nil && !h.facts.Kubelet.Known {
		h.facts.Kubelet = state.Known(v)
	}
	if h.facts.Pacemaker {
		addPacemaker(&h.facts, s)
	}
	return h
}

// ready returns what a node says. A kubelet that says nothing any more is not ready.
func ready(n *corev1.Node) state.Fact[bool] {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return state.Known(c.Status == corev1.ConditionTrue)
		}
	}
	return state.Fact[bool]{}
}

// status returns what Pacemaker says, if that is recent.
func (s Seen) status() (etcdv1.PacemakerClusterStatus, bool) {
	out := s.Pacemaker.Value
	return out, s.Pacemaker.Known && s.Now.Sub(out.LastUpdated.Time).Abs() <= pacemakerstatus.Silence
}

// addPacemaker adds what Pacemaker says of a host and the host does not.
func addPacemaker(h *gate.Host, s Seen) {
	status, fresh := s.status()
	if !fresh || status.Nodes == nil {
		return
	}
	for _, n := range *status.Nodes {
		if n.NodeName != h.Name {
			continue
		}
		fill(&h.Online, is(n.Conditions, etcdv1.NodeOnlineConditionType))
		fill(&h.Marked, marks(status, n))
		fill(&h.Failed, failed(n))
		fill(&h.Fencing, is(n.Conditions, etcdv1.NodeFencingAvailableConditionType))
		fill(&h.Fenced, fenced(status, n))
	}
}

// fenced returns when the BMC of a host last answered. Pacemaker asks it again and again
// from the other host, and says so while it answers. Devices that only run show nothing.
func fenced(s etcdv1.PacemakerClusterStatus, n etcdv1.PacemakerClusterNodeStatus) state.Fact[time.Time] {
	proven := is(n.Conditions, pacemakerstatus.FencingProven)
	return state.Fact[time.Time]{Known: state.Is(proven, true) && state.Is(is(n.Conditions, etcdv1.NodeFencingHealthyConditionType), true), Value: s.LastUpdated.Time}
}

// fill keeps what is known already.
func fill[T any](fact *state.Fact[T], with state.Fact[T]) {
	if !fact.Known {
		*fact = with
	}
}

func is(list []metav1.Condition, kind string) state.Fact[bool] {
	switch pacemakerstatus.Find(list, kind).Status {
	case metav1.ConditionTrue:
		return state.Known(true)
	case metav1.ConditionFalse:
		return state.Known(false)
	case metav1.ConditionUnknown:
	}
	return state.Fact[bool]{}
}

// marks names the marks that somebody set: those of Holdfast itself are set only while
// the host has its turn.
func marks(s etcdv1.PacemakerClusterStatus, n etcdv1.PacemakerClusterNodeStatus) state.Fact[[]string] {
	all, active, service := is(s.Conditions, etcdv1.ClusterInServiceConditionType), is(n.Conditions, etcdv1.NodeActiveConditionType), is(n.Conditions, etcdv1.NodeInServiceConditionType)
	if !all.Known || !active.Known || !service.Known {
		return state.Fact[[]string]{}
	}
	var out []string
	if !all.Value {
		out = append(out, "maintenance of the whole cluster")
	}
	if !service.Value {
		out = append(out, "maintenance")
	}
	if !active.Value {
		out = append(out, "standby")
	}
	return state.Known(out)
}

func failed(n etcdv1.PacemakerClusterNodeStatus) state.Fact[[]string] {
	var out []string
	for _, r := range n.Resources {
		switch works := is(r.Conditions, etcdv1.ResourceOperationalConditionType); {
		case !works.Known:
			return state.Fact[[]string]{}
		case !works.Value:
			out = append(out, string(r.Name))
		}
	}
	return state.Known(out)
}

// site returns a host as the next step is decided from it.
func (h host) site(s Seen, to string) cluster.Host {
	out := cluster.Host{
		Name: h.node.Name, Worker: h.worker, VIP: h.node.Annotations[vrrp.HoldsAnnotation] != "",
		Present: h.present(s), Well: h.well(s), Running: h.facts.Release, Journal: h.said.Journal, Held: h.said.Held, Said: h.said.At,
	}
	if h.facts.Whole.Known {
		out.Whole = state.Known(slices.Contains(h.facts.Whole.Value, to))
		out.Old = state.Known(slices.Contains(h.facts.Whole.Value, s.Record.From))
	}
	if m, answers := s.Etcd[h.node.Name]; answers {
		out.Leader, out.Votes = m.ID != 0 && m.ID == m.Leader, state.Known(m.votes())
	}
	if h.fresh {
		out.Raised, out.Servers = h.raised(), h.servers()
	}
	return out
}

// recent is how old the words of a host at work may be that answers although its kubelet
// does not run.
const recent = 2 * time.Minute

// present tells whether a host answers: its kubelet does, or its agent while it is at work.
func (h host) present(s Seen) state.Fact[bool] {
	if !h.said.Journal.Step.AtRest() && s.Now.Sub(h.said.At).Abs() <= recent {
		return state.Known(true)
	}
	return h.facts.Ready
}

// raised tells whether a host works at the functional level of its release. One that
// went to the release itself also knows that the way back is closed.
func (h host) raised() state.Fact[bool] {
	if state.Is(h.said.Raised, true) && h.said.Journal.Step == parachute.Accepted && !h.said.Journal.Closed {
		return state.Known(false)
	}
	return h.said.Raised
}

// servers tells whether the API server of a host behaves as the minor release that it is of.
func (h host) servers() state.Fact[bool] {
	is, as := h.facts.APIServer, h.facts.Emulates
	return state.Fact[bool]{Known: is.Known && as.Known, Value: is.Value.Series() == as.Value.Series()}
}

// well tells whether nothing is wrong with a host, as the site sees it.
func (h host) well(s Seen) state.Fact[bool] {
	switch {
	case !state.Is(h.facts.Ready, true) || h.worker:
		return h.facts.Ready
	case s.TwoNode && !state.Is(h.facts.Online, true):
		return h.facts.Online
	}
	m, answers := s.Etcd[h.node.Name]
	if !answers {
		return state.Fact[bool]{}
	}
	return state.Known(m.votes())
}
