package ingress

import (
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout says how routers are replaced and how many may be missing.
type Rollout struct {
	MaxUnavailable, MaxSurge intstr.IntOrString
	// Spread keeps two routers of one version off one host, and prefers for
	// each a host where its predecessor serves.
	Spread bool
	// Budget is the number of routers that a drain may evict at once, nil for
	// no limit.
	Budget *intstr.IntOrString
	// MinReadySeconds is how long a new router must be ready before the next
	// one is replaced.
	MinReadySeconds int32
}

const minReadySeconds = 30

// smallSet is the number of routers below which half of them may be missing: a
// quarter of so few would be none.
const smallSet = 4

// rollout follows the topology, not the number of routers, with one addition: a
// router without a live host is missing in any case and must not count.
// Otherwise, one lost host of two would block a roll-out and a drain on the
// other until it is back.
func rollout(r *Router, single bool, wanted *int32, rm Room) Rollout {
	out := Rollout{MinReadySeconds: minReadySeconds}
	missing := max(0, r.Replicas-int32(rm.Live)) //nolint:gosec // a number of hosts
	if rm.Live == 0 {
		missing = 0 // it is unknown where they might run
	}
	exclusive := true
	switch {
	case r.HostNetwork():
		// The successor needs the ports, so one more router must stop first.
		out.MaxUnavailable, out.MaxSurge = intstr.FromString("25%"), intstr.FromInt32(0)
		if missing > 0 {
			out.MaxUnavailable = intstr.FromInt32(missing + 1)
		}
	case single:
		exclusive = false
		out.MaxUnavailable, out.MaxSurge = intstr.FromString("25%"), intstr.FromString("25%")
	default:
		out.Spread = true
		out.MaxSurge, out.MaxUnavailable = intstr.FromString("25%"), intstr.FromString("25%")
		if r.Replicas < smallSet {
			out.MaxUnavailable = intstr.FromString("50%")
		}
		if missing > resolved(out.MaxUnavailable, r.Replicas, false) {
			out.MaxUnavailable = intstr.FromInt32(missing)
		}
	}
	out.Budget = budget(wanted, r.Replicas, exclusive, rm)
	return out
}

// budget lets a drain of any host end: at least as many routers may be missing
// as would find no other host.
func budget(wanted *int32, replicas int32, exclusive bool, rm Room) *intstr.IntOrString {
	var out intstr.IntOrString
	switch {
	case wanted == nil:
		out = intstr.FromString("50%")
	case *wanted < 2:
		return nil
	case *wanted == 2:
		out = intstr.FromInt32(1)
	default:
		out = intstr.FromString("25%")
	}
	if need := homeless(replicas, exclusive, rm); need > resolved(out, replicas, true) {
		out = intstr.FromInt32(need)
	}
	return &out
}

// homeless returns how many routers find no host while one more host is
// drained.
func homeless(replicas int32, exclusive bool, rm Room) int32 {
	others := int32(rm.Live) - 1 //nolint:gosec // a number of hosts
	switch {
	case rm.Live == 0 || others > 0 && !exclusive:
		return 0
	case others <= 0:
		return replicas
	}
	return max(0, replicas-others)
}

// resolved returns a number, or a percentage of a total, as a number of at
// least 0.
func resolved(value intstr.IntOrString, total int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, int(total), up)
	if err != nil {
		return 0
	}
	return int32(max(n, 0)) //nolint:gosec // at most the total
}

// minAvailable returns how many routers a Deployment keeps available during a
// roll-out.
func minAvailable(r *Router) int32 {
	surge, missing := resolved(r.Rollout.MaxSurge, r.Replicas, true), resolved(r.Rollout.MaxUnavailable, r.Replicas, false)
	if surge == 0 && missing == 0 {
		missing = 1 // the Deployment's controller does the same
	}
	return max(0, r.Replicas-missing)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// managedLoadBalancer reports whether a strategy publishes the routers through
// a load balancer that somebody else provides.
func managedLoadBalancer(s *operatorv1.EndpointPublishingStrategy) bool {
	return s.Type == operatorv1.LoadBalancerServiceStrategyType
}
