package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
)

// Status is the status of a pool.
type Status struct {
	Pool string
	// Hosts are the names of its hosts.
	Hosts []string
	// Updated have the target, Ready take pods besides, Unavailable count against
	// maxUnavailable, Degraded could not get what they were given.
	Updated, Ready, Unavailable, Degraded int
	// Wait says for what the hosts wait that do not have the target; empty if none
	// waits.
	Wait       string
	Conditions []Condition
}

// Condition is a condition of a pool, without its time.
type Condition struct {
	Type            mcfgv1.MachineConfigPoolConditionType
	Status          corev1.ConditionStatus
	Reason, Message string
}

// Reached reports whether all hosts of a pool have the target and take pods, but for a
// pressure. The target is then what the pool's status names.
func (s Status) Reached() bool { return s.Conditions[0].Status == corev1.ConditionTrue }

func (t turn) status(wait string) Status {
	s := Status{Pool: t.pool.Name, Wait: wait}
	var failures []string
	for _, h := range t.hosts {
		h = h.relieved() // nobody waits for years for a pool that has its target
		if h.silent(t.site.Now) {
			failures = append(failures, fmt.Sprintf("%s: its agent has not answered since %s, when it was %s; look whether holdfast-agent.service runs there, and is of this release", h.Name, h.asked().UTC().Format(time.RFC3339), h.task()))
		}
		if h.late(t.site.Now) {
			failures = append(failures, fmt.Sprintf("%s: its pods have not moved since %s. In the way: %s", h.Name, h.Draining.UTC().Format(time.RFC3339), cmp.Or(h.InTheWay, "nobody knows who")))
		}
		s.Hosts = append(s.Hosts, h.Name)
		if h.unavailable() {
			s.Unavailable++
		}
		if h.failing() {
			s.Degraded++
			failures = append(failures, h.Name+": "+cmp.Or(h.Reason, "it gave no reason"))
		}
		if h.done(t.pool.Target) {
			s.Updated++
			if h.away() == "" {
				s.Ready++
			}
		}
	}
	s.Conditions = t.conditions(s, strings.Join(failures, "; "))
	return s
}

// conditions returns the conditions of a pool. Updated is the first.
func (t turn) conditions(s Status, failures string) []Condition {
	all := len(s.Hosts)
	whole := t.pool.Target != "" && s.Ready == all && s.Unavailable == 0
	progress := fmt.Sprintf("%d of %d hosts have %s", s.Updated, all, t.pool.Target)
	if s.Wait != "" {
		progress += "; " + s.Wait
	}
	updated := condition(mcfgv1.MachineConfigPoolUpdated, whole, "AllHostsUpdated", progress)
	updating := condition(mcfgv1.MachineConfigPoolUpdating, !whole && !t.pool.Paused && t.pool.Target != "", "HostsUpdating", progress)
	if t.pool.Paused && !whole {
		updating.Reason, updating.Message = "Paused", progress
	}
	node := condition(mcfgv1.MachineConfigPoolNodeDegraded, failures != "", "HostsFailed", failures)
	render := condition(mcfgv1.MachineConfigPoolRenderDegraded, t.pool.Problem != "", "Refused", t.pool.Problem)
	both := strings.Trim(render.Message+"; "+node.Message, "; ")
	return []Condition{updated, updating, node, render, condition(mcfgv1.MachineConfigPoolDegraded, both != "", "HostsFailedOrRefused", both)}
}

// condition returns a condition, which has a reason and a message only if it is
// true.
func condition(kind mcfgv1.MachineConfigPoolConditionType, is bool, reason, message string) Condition {
	if !is {
		return Condition{Type: kind, Status: corev1.ConditionFalse}
	}
	return Condition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}
