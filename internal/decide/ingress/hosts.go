package ingress

import (
	corev1 "k8s.io/api/core/v1"
)

// Host has the properties of a node that matter to routers.
type Host struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// Ready is also false if the API does not know: the host was lost.
	Ready bool
}

// passing holds the taints that come and go with a host's health or with a
// drain. They do not show whether a router belongs there.
var passing = map[string]bool{
	corev1.TaintNodeNotReady: true, corev1.TaintNodeUnreachable: true, corev1.TaintNodeUnschedulable: true,
	corev1.TaintNodeOutOfService: true, corev1.TaintNodeMemoryPressure: true, corev1.TaintNodeDiskPressure: true,
	corev1.TaintNodePIDPressure: true, corev1.TaintNodeNetworkUnavailable: true,
}

// Room counts the hosts that routers may run on (Eligible), and those of them
// that are ready (Live). A cordoned host counts as live: an administrator
// brings it back.
type Room struct{ Eligible, Live int }

// room counts the hosts that a router may run on.
func room(hosts []Host, r *Router) Room {
	var out Room
	for _, h := range hosts {
		if !fits(h, r) {
			continue
		}
		out.Eligible++
		if h.Ready {
			out.Live++
		}
	}
	return out
}

// DefaultHosts returns the number of hosts that take a router whose
// IngressController names none.
func DefaultHosts(c Cluster, hosts []Host) int {
	r := &Router{AvoidRemote: true}
	place(r, nil, DefaultPlacement(c))
	return room(hosts, r).Eligible
}

// placeable reduces a default number of routers to the number of hosts that
// could ever take one. Two routers want two hosts, but beside control planes
// that take none there may be only one worker. A lost host counts, because its
// router can return when the host does. A number that an administrator asks for
// is not reduced.
func placeable(replicas int32, rm Room) int32 {
	if rm.Eligible == 0 {
		return replicas // the hosts have yet to join
	}
	return min(replicas, int32(rm.Eligible)) //nolint:gosec // a number of hosts
}

func fits(h Host, r *Router) bool {
	for key, want := range r.NodeSelector {
		if have, ok := h.Labels[key]; !ok || have != want {
			return false
		}
	}
	if value, remote := h.Labels[LabelRemoteWorker]; remote && value == "" && r.AvoidRemote {
		return false
	}
	for _, taint := range h.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || passing[taint.Key] {
			continue
		}
		if !tolerates(r.Tolerations, taint) {
			return false
		}
	}
	return true
}
