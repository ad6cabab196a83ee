package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/decide/window"
	"github.com/holdfast/holdfast/internal/model/state"
)

// GivenAt is the annotation of a node with the time at which DesiredConfig was
// set. The operator writes both at once.
const GivenAt = state.AnnotationDomain + "machine-config-given"

// Annotations returns what the operator writes to the node of a host that it gives its
// configuration. What the host said before was about another one: until its agent has
// answered it is at work, also if it failed.
func (a Assignment) Annotations(now time.Time) map[string]*string {
	return map[string]*string{
		DesiredConfig: &a.Config, GivenAt: new(now.UTC().Format(time.RFC3339)), StateOf: nil, ReasonOf: nil, StageAt: nil,
	}
}

// Reboot is an annotation of a pool and of a node. With the value ByHand a person
// drains and boots the host. People set it at the pool, and the operator at the
// nodes of that: a host does not read pools.
const (
	Reboot = state.AnnotationDomain + "reboot"
	ByHand = "ByHand"
)

// PoolStateOf returns what the operator says of a pool.
func PoolStateOf(p *mcfgv1.MachineConfigPool) PoolState {
	out := PoolState{
		Name: p.Name, Config: p.Spec.Configuration.Name, Paused: p.Spec.Paused, Selector: p.Spec.NodeSelector,
		Lacking: int(p.Status.MachineCount - p.Status.UpdatedMachineCount), Windows: strings.TrimSpace(p.Annotations[window.Annotation]) != "",
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == mcfgv1.MachineConfigPoolUpdated:
			out.Since = c.LastTransitionTime.Time
		case c.Type == mcfgv1.MachineConfigPoolUpdating:
			out.Progress = c.Message
		case c.Type == mcfgv1.MachineConfigPoolRenderDegraded && c.Status == corev1.ConditionTrue:
			out.Refused = c.Message
		}
	}
	return out
}

// PoolOf returns a pool, as far as people wrote it. now decides whether its maintenance
// window is open.
func PoolOf(p *mcfgv1.MachineConfigPool, now time.Time, zones window.Zones) Pool {
	return Pool{
		Name: p.Name, NodeSelector: p.Spec.NodeSelector, Paused: p.Spec.Paused, MaxUnavailable: p.Spec.MaxUnavailable,
		ByHand: p.Annotations[Reboot] == ByHand, BootsRequired: p.Annotations[RebootRequired] == RebootsRequired,
		Closed: window.Closed(p.Annotations[window.Annotation], now, zones),
	}
}

// HostOf returns a node, as far as the decision reads it.
func HostOf(n *corev1.Node) Host {
	h := Host{
		Name: n.Name, Labels: n.Labels, Created: n.CreationTimestamp.Time, Unschedulable: n.Spec.Unschedulable,
		Current: n.Annotations[CurrentConfig], Desired: n.Annotations[DesiredConfig],
		State: State(n.Annotations[StateOf]), Reason: n.Annotations[ReasonOf], Stage: Stage(n.Annotations[StageAt]),
	}
	h.ByHand = n.Annotations[Reboot] == ByHand
	h.Wish = WishOf(n.Annotations)
	h.Behind = behindOf(n.Annotations, h.Wish)
	h.Waiting = waitingOf(n, h.Wish, h.Behind)
	r := updates.Read(n.Annotations[RebootRequired])
	if h.NotRequired = state.Is(r.Wants, false); state.Is(r.Wants, true) {
		h.Required = cmp.Or(r.Why, "it does not say why")
	}
	h.RequiredWished = n.Annotations[RequiredWished]
	if why, failed := strings.CutPrefix(about(n.Annotations[PatchDone], n.Annotations[PatchResult]), "failed: "); failed {
		h.UpdatesFailed = why
	}
	if at, err := time.Parse(time.RFC3339, n.Annotations[GivenAt]); err == nil {
		h.Given = at
	}
	if began, empties := drain.Since(n.Annotations); empties {
		h.Draining, h.InTheWay = began, n.Annotations[drain.Waits]
	}
	if kinds := Pressures(n.Status.Conditions); len(kinds) > 0 {
		h.Trouble, h.Pressed = WantOf(kinds[0]), kinds[0] != corev1.NodeDiskPressure
	}
	for _, c := range n.Status.Conditions {
		is := c.Status == corev1.ConditionTrue
		switch {
		case c.Type == corev1.NodeReady:
			h.Ready = is
		case c.Type == corev1.NodeNetworkUnavailable && is:
			h.Trouble, h.Pressed = "it has no network", false
		}
	}
	return h
}

// pressures are the conditions in which kubelet ends pods.
var pressures = []struct {
	kind corev1.NodeConditionType
	why  string
}{
	{corev1.NodeDiskPressure, "its disk is full"}, {corev1.NodeMemoryPressure, "it is short of memory"}, {corev1.NodePIDPressure, "it is short of process ids"},
}

// Pressures returns the conditions of a node in which kubelet ends pods; none if it ends none.
func Pressures(conditions []corev1.NodeCondition) []corev1.NodeConditionType {
	var out []corev1.NodeConditionType
	for _, p := range pressures {
		if slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool { return c.Type == p.kind && c.Status == corev1.ConditionTrue }) {
			out = append(out, p.kind)
		}
	}
	return out
}

// WantOf returns for want of what kubelet ends pods in such a condition.
func WantOf(pressure corev1.NodeConditionType) string {
	for _, p := range pressures {
		if p.kind == pressure {
			return p.why
		}
	}
	return string(pressure)
}
