// Package clusterhealth judges the status of the PacemakerCluster. It decides
// what degrades the operator of etcd, what is only a warning, when a silent
// status degrades too, and which events people get. It remembers only when it
// saw the status move, so an operator that has just started judges like any
// other.
package clusterhealth

import (
	"fmt"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// Degraded is the condition of etcd's object that this package sets.
const Degraded = "PacemakerHealthCheckDegraded"

// Reasons of the condition Degraded.
const (
	ReasonUnhealthy = "PacemakerUnhealthy"
	ReasonStale     = "PacemakerStatusStale"
	ReasonMissing   = "PacemakerStatusMissing"
	ReasonPending   = "HandOverOutstanding"
)

// MaxAge is the age up to which a status counts.
const MaxAge = 5 * time.Minute

// Input holds the facts that Judge decides from.
type Input struct {
	// HandedOver is true once Pacemaker runs etcd: before that there is nothing to
	// judge. Since is the time at which it became true.
	HandedOver bool
	Since      time.Time
	// Object is nil if there is none.
	Object *etcdv1.PacemakerCluster
	// Seen is the time at which the judge first saw the object's present
	// lastUpdated; Moved is true if it had seen another one before. Clocks of hosts
	// differ, and a status that moves is alive, whatever time it names.
	Seen  time.Time
	Moved bool
	Now   time.Time
}

// Verdict describes the health of the cluster.
type Verdict struct {
	Condition handover.Condition
	// Errors degrade the operator, Warnings do not.
	Errors, Warnings []string
	// Again is the time after which the verdict may change without new facts, zero
	// for never.
	Again time.Duration
}

// Judge decides whether two hosts that run etcd by Pacemaker are degraded. It
// returns the condition for etcd's object and the time of the next judgement.
func Judge(in Input) Verdict {
	if !in.HandedOver {
		return Verdict{Condition: handover.Condition{Type: Degraded, Reason: ReasonPending, Message: "kubelet still runs etcd: Pacemaker is not checked yet"}}
	}
	age, there := in.age()
	v := Verdict{Again: max(MaxAge-age, 0) + time.Second}
	if there {
		v.Errors, v.Warnings = problems(in.Object.Status, in.Now)
	}
	v.Condition = handover.Condition{Type: Degraded, Reason: handover.AsExpected, Message: "both hosts are healthy"}
	switch {
	case age > MaxAge && !there:
		v.Errors = append(v.Errors, fmt.Sprintf("no report from either host for %s: check holdfast-agent.service on both", age.Round(time.Second)))
		v.Condition.Reason = ReasonMissing
	case age > MaxAge:
		v.Errors = append([]string{fmt.Sprintf("the last report is %s old: check holdfast-agent.service and pacemaker.service on both hosts", age.Round(time.Second))}, v.Errors...)
		v.Condition.Reason = ReasonStale
	case !there:
		v.Condition.Reason, v.Condition.Message = "Waiting", "no host has reported yet"
	case len(v.Errors) > 0:
		v.Condition.Reason = ReasonUnhealthy
	}
	if len(v.Errors) > 0 {
		v.Condition.Status, v.Condition.Message = true, strings.Join(v.Errors, "\n")
	}
	if len(v.Warnings) > 0 {
		v.Condition.Message += "\nwarning: " + strings.Join(v.Warnings, "\nwarning: ")
	}
	return v
}

// age returns the time since the last report; there is false if no host ever
// reported.
func (in Input) age() (age time.Duration, there bool) {
	if in.Object == nil {
		return in.Now.Sub(in.Since), false
	}
	at := in.Object.Status.LastUpdated.Time
	if at.IsZero() {
		return in.Now.Sub(later(in.Since, in.Object.CreationTimestamp.Time)), false
	}
	switch {
	case at.After(in.Now):
		at = in.Seen // a clock is ahead: the time at which the status last moved counts
	case in.Moved:
		at = later(at, in.Seen)
	}
	return in.Now.Sub(at), true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// problem pairs a condition with the words for it when it is false.
type problem struct{ kind, words string }

// Conditions that degrade the operator while they are false, of the cluster and
// of a node. They are the causes that make a node unhealthy; its condition
// Healthy itself is not repeated.
var (
	ofCluster = []problem{
		{etcdv1.ClusterNodeCountAsExpectedConditionType, "not two nodes"},
		{etcdv1.ClusterInServiceConditionType, "the cluster is in maintenance"},
		{pacemakerstatus.FencingEnabled, "fencing is disabled"},
		{pacemakerstatus.SettingsAsExpected, "a setting was changed"},
		{pacemakerstatus.Quorate, "no quorum"},
	}
	ofNode = []problem{
		{etcdv1.NodeInServiceConditionType, "is in maintenance"},
		{etcdv1.NodeActiveConditionType, "is in standby"},
		{etcdv1.NodeMemberConditionType, "is not a member"},
		{etcdv1.NodeFencingAvailableConditionType, "cannot be fenced"},
	}
)

// maxPending is the longest time that a node may take to join or leave.
const maxPending = 5 * time.Minute

func problems(s etcdv1.PacemakerClusterStatus, now time.Time) (errs, warnings []string) {
	for _, p := range ofCluster {
		if c := pacemakerstatus.Find(s.Conditions, p.kind); c.Status == metav1.ConditionFalse {
			errs = append(errs, say(p.words, c))
		}
	}
	if s.Nodes == nil || len(*s.Nodes) == 0 {
		errs = append(errs, "Pacemaker reports no nodes")
	}
	if c := pacemakerstatus.Find(s.Conditions, pacemakerstatus.Redundant); c.Status == metav1.ConditionFalse {
		warnings = append(warnings, say("not redundant", c))
	}
	if s.Nodes == nil {
		return errs, warnings
	}
	alone := 0 // hosts that are online
	for _, n := range *s.Nodes {
		if holds(n.Conditions, etcdv1.NodeOnlineConditionType) {
			alone++
		}
	}
	for _, n := range *s.Nodes {
		e, w := nodeProblems(n, alone == 1, now)
		errs, warnings = append(errs, e...), append(warnings, w...)
	}
	return errs, warnings
}

// nodeProblems returns the problems of one node. alone is set for the last host
// that is online: that it cannot be fenced follows from the loss of the other.
func nodeProblems(n etcdv1.PacemakerClusterNodeStatus, alone bool, now time.Time) (errs, warnings []string) {
	c := pacemakerstatus.Find(n.Conditions, etcdv1.NodeCleanConditionType)
	if c.Status == metav1.ConditionFalse {
		errs = append(errs, say(n.NodeName+" is unclean", c))
	}
	if c := pacemakerstatus.Find(n.Conditions, etcdv1.NodeOnlineConditionType); c.Status == metav1.ConditionFalse {
		return append(errs, say(n.NodeName+" is offline", c)), lastFence(n) // stopped resources there follow from it
	}
	for _, p := range ofNode {
		if alone && p.kind == etcdv1.NodeFencingAvailableConditionType {
			continue
		}
		if c := pacemakerstatus.Find(n.Conditions, p.kind); c.Status == metav1.ConditionFalse {
			errs = append(errs, say(n.NodeName+" "+p.words, c))
		}
	}
	if c := pacemakerstatus.Find(n.Conditions, etcdv1.NodeReadyConditionType); c.Status == metav1.ConditionFalse {
		words := say(n.NodeName+" is joining or leaving", metav1.Condition{})
		if now.Sub(c.LastTransitionTime.Time) > maxPending {
			errs = append(errs, words+" for more than "+maxPending.String())
		} else {
			warnings = append(warnings, words)
		}
	}
	for _, r := range n.Resources {
		if c := pacemakerstatus.Find(r.Conditions, etcdv1.ResourceHealthyConditionType); c.Status == metav1.ConditionFalse {
			errs = append(errs, say(fmt.Sprintf("%s on %s is unhealthy", strings.ToLower(string(r.Name)), n.NodeName), c))
		}
	}
	if len(errs) == 0 && unreported(n) {
		errs = append(errs, "no report about "+n.NodeName+": "+pacemakerstatus.Find(n.Conditions, etcdv1.NodeHealthyConditionType).Message)
	}
	return errs, append(warnings, nodeWarnings(n)...)
}

// unreported reports whether nothing is known about a node.
func unreported(n etcdv1.PacemakerClusterNodeStatus) bool {
	return pacemakerstatus.Find(n.Conditions, etcdv1.NodeOnlineConditionType).Status != metav1.ConditionTrue
}

func nodeWarnings(n etcdv1.PacemakerClusterNodeStatus) []string {
	out := lastFence(n)
	if !holds(n.Conditions, etcdv1.NodeFencingAvailableConditionType) {
		return out // already reported as an error
	}
	if c := pacemakerstatus.Find(n.Conditions, etcdv1.NodeFencingHealthyConditionType); c.Status == metav1.ConditionFalse {
		return append(out, say("not every way to fence "+n.NodeName+" works", c))
	}
	if c := pacemakerstatus.Find(n.Conditions, pacemakerstatus.FencingProven); c.Status == metav1.ConditionFalse {
		out = append(out, say("fencing of "+n.NodeName+" is not proven", c))
	}
	return out
}

func lastFence(n etcdv1.PacemakerClusterNodeStatus) []string {
	if c := pacemakerstatus.Find(n.Conditions, pacemakerstatus.LastFenceSucceeded); c.Status == metav1.ConditionFalse {
		return []string{say("the last fence of "+n.NodeName+" did not succeed", c)}
	}
	return nil
}

func say(words string, c metav1.Condition) string {
	if c.Message == "" {
		return words
	}
	return words + ": " + c.Message
}

func holds(list []metav1.Condition, kind string) bool { return pacemakerstatus.Holds(list, kind) }
