package ingress

import (
	corev1 "k8s.io/api/core/v1"
)

// Host is a node as far as routers care.
type Host struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// Ready is false too where the API does not know: the host was lost.
	Ready bool
}

// passing are the taints that come and go with a host's health, or with a
// drain: they say nothing about whether a router belongs there.
var passing = map[string]bool{
	corev1.TaintNodeNotReady: true, corev1.TaintNodeUnreachable: true, corev1.TaintNodeUnschedulable: true,
	corev1.TaintNodeOutOfService: true, corev1.TaintNodeMemoryPressure: true, corev1.TaintNodeDiskPressure: true,
	corev1.TaintNodePIDPressure: true, corev1.TaintNodeNetworkUnavailable: true,
}

// Room is how many hosts routers may run on, and how many of them live. A
// cordoned host lives: it comes back by a person's hand.
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

// DefaultHosts is how many hosts take a router whose IngressController names
// none.
func DefaultHosts(c Cluster, hosts []Host) int {
	r := &Router{AvoidRemote: true}
	place(r, nil, DefaultPlacement(c))
	return room(hosts, r).Eligible
}

// placeable is a default number of routers, without those that no host could
// ever have: two of them want two hosts, and beside control planes that take
// none there may be one worker. A host that was lost counts, since its router
// has a place again when it is back. Who asks for a number gets it.
func placeable(replicas int32, rm Room) int32 {
	if rm.Eligible == 0 {
		return replicas // the hosts are still to come
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
