package ingress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// deploymentConditions derives conditions from the routers' Deployment and
// pods.
func deploymentConditions(before []operatorv1.OperatorCondition, r *Router, o Observed, now time.Time) []operatorv1.OperatorCondition {
	if o.Deployment == nil {
		const reason, words = "DeploymentNotFound", "the Deployment does not exist"
		return []operatorv1.OperatorCondition{
			no(DeploymentAvailable, reason, words), no(MinAvailable, reason, words),
			no(AllAvailable, reason, words), no(RollingOut, reason, words),
		}
	}
	least := leastAvailable(r, o)
	return []operatorv1.OperatorCondition{
		deploymentAvailable(before, r, o, now), least, allAvailable(r, o), rollingOut(o),
	}
}

// deploymentAvailable passes on the Deployment's own condition, with one
// correction: if the roll-out may take the last router, a Deployment calls
// itself available without any. So no ready router for half a minute counts as
// unavailable.
func deploymentAvailable(before []operatorv1.OperatorCondition, r *Router, o Observed, now time.Time) operatorv1.OperatorCondition {
	own, known := deploymentCondition(o.Deployment, appsv1.DeploymentAvailable)
	switch {
	case !known:
		return operatorv1.OperatorCondition{
			Type: DeploymentAvailable, Status: operatorv1.ConditionUnknown, Reason: "DeploymentAvailabilityUnknown",
			Message: "the Deployment reports no condition Available",
		}
	case own.Status != corev1.ConditionTrue && ready(o) == 0:
		return no(DeploymentAvailable, "DeploymentUnavailable", own.Message+unscheduled(o))
	case r.Replicas > 0 && ready(o) == 0 && !wasAvailable(before):
		return no(DeploymentAvailable, "DeploymentUnavailable", "no router has been ready yet"+unscheduled(o))
	case r.Replicas > 0 && ready(o) == 0 && noneSince(before, now) >= restartGrace:
		return no(DeploymentAvailable, "DeploymentUnavailable", fmt.Sprintf("no router has been ready for %s", restartGrace)+unscheduled(o))
	}
	return yes(DeploymentAvailable, "DeploymentAvailable", "")
}

func wasAvailable(before []operatorv1.OperatorCondition) bool {
	c, ok := find(before, DeploymentAvailable)
	return ok && c.Status == operatorv1.ConditionTrue
}

// noneSince returns how long no router has been ready, as far as the previous
// conditions show.
func noneSince(before []operatorv1.OperatorCondition, now time.Time) time.Duration {
	c, ok := find(before, MinAvailable)
	if !ok || c.Status != operatorv1.ConditionFalse {
		return 0
	}
	return now.Sub(c.LastTransitionTime.Time)
}

// untilUnavailable returns the time until no router will have been ready for
// too long, 0 if that does not apply.
func untilUnavailable(list []operatorv1.OperatorCondition, r *Router, o Observed, now time.Time) time.Duration {
	if r == nil || r.Replicas == 0 || o.Deployment == nil || ready(o) > 0 {
		return 0
	}
	if c, ok := find(list, DeploymentAvailable); !ok || c.Status != operatorv1.ConditionTrue {
		return 0
	}
	return max(restartGrace-noneSince(list, now), time.Second)
}

func ready(o Observed) int32 {
	if o.Deployment == nil {
		return 0
	}
	return o.Deployment.Status.ReadyReplicas
}

// leastAvailable expects as many routers as a roll-out leaves, and always at
// least one.
func leastAvailable(r *Router, o Observed) operatorv1.OperatorCondition {
	want := minAvailable(r)
	if r.Replicas > 0 {
		want = max(want, 1)
	}
	// A ready router serves, even if the Deployment does not count it as
	// available yet.
	have := o.Deployment.Status.AvailableReplicas
	if have == 0 {
		have = min(ready(o), 1)
	}
	if have >= want {
		return yes(MinAvailable, "DeploymentMinimumReplicasMet", "")
	}
	return no(MinAvailable, "DeploymentMinimumReplicasNotMet", fmt.Sprintf("%d of at least %d routers are available", have, want)+unscheduled(o))
}

func allAvailable(r *Router, o Observed) operatorv1.OperatorCondition {
	if have := o.Deployment.Status.AvailableReplicas; have < r.Replicas {
		return no(AllAvailable, "DeploymentReplicasNotAvailable", fmt.Sprintf("%d of %d routers are available", have, r.Replicas)+unscheduled(o))
	}
	return yes(AllAvailable, "DeploymentReplicasAvailable", "")
}

// rollingOut distinguishes a roll-out from a router that merely restarts: a
// reboot must not look like a change.
func rollingOut(o Observed) operatorv1.OperatorCondition {
	s, want := o.Deployment.Status, int32(1)
	if o.Deployment.Spec.Replicas != nil {
		want = *o.Deployment.Spec.Replicas
	}
	switch {
	case s.ObservedGeneration < o.Deployment.Generation, s.UpdatedReplicas < want:
		return yes(RollingOut, "DeploymentRollingOut", fmt.Sprintf("%d of %d routers are of this version", s.UpdatedReplicas, want)+unscheduled(o))
	case s.Replicas > s.UpdatedReplicas:
		return yes(RollingOut, "DeploymentRollingOut", fmt.Sprintf("%d routers of older versions are still running", s.Replicas-s.UpdatedReplicas)+unscheduled(o))
	case s.ReadyReplicas < want:
		return yes(RollingOut, "PodsStarting", fmt.Sprintf("%d of %d routers are ready", s.ReadyReplicas, want))
	case s.AvailableReplicas < want:
		return yes(RollingOut, "ReplicasStabilizing", fmt.Sprintf("%d of %d routers are available", s.AvailableReplicas, want))
	}
	return no(RollingOut, "DeploymentNotRollingOut", "")
}

func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) (appsv1.DeploymentCondition, bool) {
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
	if i < 0 {
		return appsv1.DeploymentCondition{}, false
	}
	return d.Status.Conditions[i], true
}

// maxNamed is the number of pods that a message names.
const maxNamed = 3

// unscheduled names the routers that found no host, with the scheduler's
// reason.
func unscheduled(o Observed) string {
	var out []string
	for i := range o.Pods {
		p := &o.Pods[i]
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && p.DeletionTimestamp == nil {
				out = append(out, fmt.Sprintf("pod %s cannot be scheduled: %s", p.Name, c.Message))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return "; " + strings.Join(out[:min(len(out), maxNamed)], "; ")
}
