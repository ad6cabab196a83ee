package pacemakerstatus

import (
	"strings"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions that the API does not name. It allows a cluster, a node and a resource
// to have more conditions than it knows.
const (
	// FencingEnabled is false while Pacemaker fences nobody.
	FencingEnabled = "FencingEnabled"
	// SettingsAsExpected is false while any setting of the table (decide/twonode)
	// has another value, or while a setting that an administrator added endangers
	// the cluster: stop-all-resources, a ban of etcd, wait_for_all taken away.
	SettingsAsExpected = "SettingsAsExpected"
	// Quorate is false on a part of the cluster that may run nothing.
	Quorate = "Quorate"
	// Redundant is true while each host holds every acknowledged write, so that
	// either may be lost.
	Redundant = "Redundant"
	// FencingProven of a node is true where its peer has reached the node's BMC.
	FencingProven = "FencingProven"
	// LastFenceSucceeded of a node is false where its last fence failed or has not
	// ended.
	LastFenceSucceeded = "LastFenceSucceeded"
)

// Reasons of those conditions, and the reason where no source reports anything.
const (
	ReasonNotReported = "NotReported" // for Unknown, in any condition

	ReasonFencingEnabled  = "FencingEnabled"
	ReasonFencingDisabled = "FencingDisabled"

	ReasonAsExpected      = "AsExpected"
	ReasonSettingsChanged = "SettingsChanged"

	ReasonQuorate       = "Quorate"
	ReasonNotQuorate    = "NotQuorate"
	ReasonNoCoordinator = "NoCoordinator"

	ReasonRedundant = "Redundant"
	ReasonPeerLost  = "PeerLost"
	ReasonResyncing = "Resyncing"
	ReasonStranger  = "StrangerInEtcd" // a member that belongs to neither host

	ReasonPeerReaches    = "PeerReachesBMC"
	ReasonPeerReachesNot = "PeerDoesNotReachBMC"
	ReasonUntrusted      = "BMCCertificateNotTrusted" // pin the certificate that it shows
	ReasonAccountRefused = "BMCRefusesAccount"        // set another account
	ReasonLegacyTLS      = "BMCNeedsLegacyTLS"        // allow the BMC older encryption
	ReasonOnOwnTarget    = "OnlyOnItsTarget"
	ReasonNotTested      = "NotTested"

	ReasonFenceSucceeded = "FenceSucceeded"
	ReasonNeverFenced    = "NeverFenced"
	ReasonFenceFailed    = "FenceFailed"
	ReasonFencePending   = "FencePending"
)

// meaning holds a condition's type and its reasons for true and for false.
type meaning struct{ kind, yes, no string }

// The API's conditions.
var (
	clusterHealthy = meaning{etcdv1.ClusterHealthyConditionType, etcdv1.ClusterHealthyReasonHealthy, etcdv1.ClusterHealthyReasonUnhealthy}
	clusterService = meaning{etcdv1.ClusterInServiceConditionType, etcdv1.ClusterInServiceReasonInService, etcdv1.ClusterInServiceReasonInMaintenance}

	nodeHealthy   = meaning{etcdv1.NodeHealthyConditionType, etcdv1.NodeHealthyReasonHealthy, etcdv1.NodeHealthyReasonUnhealthy}
	nodeOnline    = meaning{etcdv1.NodeOnlineConditionType, etcdv1.NodeOnlineReasonOnline, etcdv1.NodeOnlineReasonOffline}
	nodeService   = meaning{etcdv1.NodeInServiceConditionType, etcdv1.NodeInServiceReasonInService, etcdv1.NodeInServiceReasonInMaintenance}
	nodeActive    = meaning{etcdv1.NodeActiveConditionType, etcdv1.NodeActiveReasonActive, etcdv1.NodeActiveReasonStandby}
	nodeReady     = meaning{etcdv1.NodeReadyConditionType, etcdv1.NodeReadyReasonReady, etcdv1.NodeReadyReasonPending}
	nodeClean     = meaning{etcdv1.NodeCleanConditionType, etcdv1.NodeCleanReasonClean, etcdv1.NodeCleanReasonUnclean}
	nodeMember    = meaning{etcdv1.NodeMemberConditionType, etcdv1.NodeMemberReasonMember, etcdv1.NodeMemberReasonNotMember}
	nodeAvailable = meaning{etcdv1.NodeFencingAvailableConditionType, etcdv1.NodeFencingAvailableReasonAvailable, etcdv1.NodeFencingAvailableReasonUnavailable}
	nodeFencing   = meaning{etcdv1.NodeFencingHealthyConditionType, etcdv1.NodeFencingHealthyReasonHealthy, etcdv1.NodeFencingHealthyReasonUnhealthy}

	resourceHealthy     = meaning{etcdv1.ResourceHealthyConditionType, etcdv1.ResourceHealthyReasonHealthy, etcdv1.ResourceHealthyReasonUnhealthy}
	resourceService     = meaning{etcdv1.ResourceInServiceConditionType, etcdv1.ResourceInServiceReasonInService, etcdv1.ResourceInServiceReasonInMaintenance}
	resourceManaged     = meaning{etcdv1.ResourceManagedConditionType, etcdv1.ResourceManagedReasonManaged, etcdv1.ResourceManagedReasonUnmanaged}
	resourceEnabled     = meaning{etcdv1.ResourceEnabledConditionType, etcdv1.ResourceEnabledReasonEnabled, etcdv1.ResourceEnabledReasonDisabled}
	resourceOperational = meaning{etcdv1.ResourceOperationalConditionType, etcdv1.ResourceOperationalReasonOperational, etcdv1.ResourceOperationalReasonFailed}
	resourceActive      = meaning{etcdv1.ResourceActiveConditionType, etcdv1.ResourceActiveReasonActive, etcdv1.ResourceActiveReasonInactive}
	resourceStarted     = meaning{etcdv1.ResourceStartedConditionType, etcdv1.ResourceStartedReasonStarted, etcdv1.ResourceStartedReasonStopped}
	resourceSchedulable = meaning{etcdv1.ResourceSchedulableConditionType, etcdv1.ResourceSchedulableReasonSchedulable, etcdv1.ResourceSchedulableReasonUnschedulable}
)

// maxMessage is our limit on a condition's message, in bytes. It is far below the
// API's.
const maxMessage = 1024

// is returns the condition as true or false; the words say what is wrong.
func (m meaning) is(holds bool, words ...string) metav1.Condition {
	if holds {
		return condition(m.kind, metav1.ConditionTrue, m.yes, words...)
	}
	return condition(m.kind, metav1.ConditionFalse, m.no, words...)
}

// unknown returns the condition as Unknown; the words say why.
func (m meaning) unknown(words ...string) metav1.Condition {
	return condition(m.kind, metav1.ConditionUnknown, ReasonNotReported, words...)
}

// all returns a condition that is true where all conditions in of are true and more
// is empty. Its message names what is wrong.
func (m meaning) all(of []metav1.Condition, more ...string) metav1.Condition {
	var wrong []string
	said := map[string]bool{}
	for _, c := range of {
		if c.Status == metav1.ConditionTrue {
			continue
		}
		text := c.Reason
		if c.Status == metav1.ConditionUnknown {
			text = c.Type + " is unknown"
		}
		if c.Message != "" && !said[c.Message] {
			text += " (" + c.Message + ")"
		}
		said[c.Message] = true
		wrong = append(wrong, text)
	}
	wrong = append(wrong, more...)
	return m.is(len(wrong) == 0, strings.Join(wrong, "; "))
}

func condition(kind string, status metav1.ConditionStatus, reason string, words ...string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: shorten(strings.Join(words, "; "), maxMessage)}
}

// hint ends the message of a condition that one command mends.
func hint(command string) string { return " (" + command + ")" }

// WithoutHint returns a message without its hint, for a reader who is shown the
// command beside it.
func WithoutHint(message, command string) string {
	return strings.TrimSuffix(message, hint(command))
}

// Hinted splits a message into its words and its command; the command is empty if it has
// none.
func Hinted(message string) (words, command string) {
	words, command, _ = strings.Cut(strings.TrimSuffix(message, ")"), " (etcdctl ")
	if command == "" {
		return message, ""
	}
	return words, "etcdctl " + command
}

// WidensCommand follows the plan by which a third control plane comes or goes, which keeps Pacemaker in
// maintenance (docs/adr/0097, docs/adr/0102).
const WidensCommand = "holdfast topology apply"

// learns begins the message of the condition Redundant while a host catches up.
func learns(host string) string { return host + " is a learner and is catching up" }

// CatchesUp reports whether the condition Redundant is false because a host catches
// up. The API has no field for its name, so this reads the message that learns wrote.
func CatchesUp(redundant metav1.Condition, host string) bool {
	return redundant.Reason == ReasonResyncing && strings.HasPrefix(redundant.Message, learns(host))
}

// shorten cuts a text to a number of bytes, between two characters.
func shorten(text string, most int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= most {
		return text
	}
	cut := most - len(" ...")
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut] + " ..."
}

// Holds reports whether a condition is there and true.
func Holds(list []metav1.Condition, kind string) bool {
	return Find(list, kind).Status == metav1.ConditionTrue
}

// Reported reports whether a condition is True or False, not Unknown or missing.
func Reported(list []metav1.Condition, kind string) bool {
	c := Find(list, kind)
	return c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse
}

// Find returns a condition, or an empty one where there is none.
func Find(list []metav1.Condition, kind string) metav1.Condition {
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}
