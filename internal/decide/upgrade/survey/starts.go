package survey

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Start is the start of a pod with a network of its own: such a pod shows that kubelet, the
// runtime and the network plugin work together.
type Start struct {
	Host, Pod string
	// Given is when the pod was given to its host, Has when it had its sandbox and its
	// network there; zero while it has not.
	Given, Has time.Time
}

// Starts returns those of pods. One of which kubelet does not say whether it has a sandbox
// is left out.
func Starts(list []corev1.Pod) []Start {
	out := []Start{}
	for i := range list {
		p := &list[i]
		if p.Spec.HostNetwork || p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		s := Start{Host: p.Spec.NodeName, Pod: p.Namespace + "/" + p.Name}
		says := false
		for _, c := range p.Status.Conditions {
			switch {
			case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue:
				s.Given = c.LastTransitionTime.Time
			case c.Type == corev1.PodReadyToStartContainers:
				says = c.Status != corev1.ConditionUnknown
				if c.Status == corev1.ConditionTrue {
					s.Has = c.LastTransitionTime.Time
				}
			}
		}
		if says && !s.Given.IsZero() {
			out = append(out, s)
		}
	}
	return out
}

// sandboxes names hosts of the new release that have started nothing: a pod that they were
// given after their switch waits, and no other one that they were given then was started. It
// takes seconds, so it is waited for. A pod that waits beside one that was started lacks
// something of its own, such as a volume.
func (v Survey) sandboxes(s Seen) state.Fact[[]string] {
	if !s.Slow.Starts.Known {
		return state.Fact[[]string]{}
	}
	out := []string{}
	for _, h := range v.hosts {
		j := h.said.Journal
		if j.Step != parachute.Accepted || j.Closed || j.Switched.IsZero() {
			continue
		}
		if p := idle(s.Slow.Starts.Value, h.node.Name, j.Switched); p != nil {
			out = append(out, fmt.Sprintf("%s (%s waits since %s)", p.Host, p.Pod, p.Given.UTC().Format(time.TimeOnly)))
		}
	}
	return state.Known(out)
}

// idle returns the pod that waits longest on a host that has started none since its switch;
// nil if it has, or was given none.
func idle(starts []Start, host string, switched time.Time) *Start {
	var waits []Start
	for _, p := range starts {
		switch {
		case p.Host != host || !p.Given.After(switched):
		case !p.Has.IsZero():
			return nil
		default:
			waits = append(waits, p)
		}
	}
	if len(waits) == 0 {
		return nil
	}
	first := slices.MinFunc(waits, func(a, b Start) int { return a.Given.Compare(b.Given) })
	return &first
}
