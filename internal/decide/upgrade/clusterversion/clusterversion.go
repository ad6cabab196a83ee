// Package clusterversion decides what the ClusterVersion object of a site says: its
// history and its conditions, by the rules that its users know.
package clusterversion

import (
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
)

// The types of conditions that the API module has no names for.
const (
	Failing         configv1.ClusterStatusConditionType = "Failing"
	ReleaseAccepted configv1.ClusterStatusConditionType = "ReleaseAccepted"
)

// How many entries a history keeps.
const (
	mostEntries   = 100
	newestEntries = 5
)

// Release is what a history says of a release.
type Release struct {
	// Image names the release by its digest.
	Image, Version string
	Verified       bool
	// Risks are the gates that a person skipped to begin.
	Risks []string
}

// History returns the history with the release that is wanted now, newest first.
// Whenever another release is wanted, also on the way back, a new entry begins, and the
// one before ends as it is. Completed is true once all hosts and parts run the
// release; an entry that was completed stays so. Until then version, verification and risks
// are added as they become known.
func History(old []configv1.UpdateHistory, wanted Release, completed bool, now metav1.Time) []configv1.UpdateHistory {
	out := slices.Clone(old)
	if len(out) == 0 || out[0].Image != wanted.Image {
		if len(out) > 0 && out[0].CompletionTime == nil {
			out[0].CompletionTime = &now
		}
		entry := configv1.UpdateHistory{State: configv1.PartialUpdate, StartedTime: now, Image: wanted.Image, Version: wanted.Version, Verified: wanted.Verified, AcceptedRisks: strings.Join(wanted.Risks, "; ")}
		out = append([]configv1.UpdateHistory{entry}, out...)
	}
	if newest := &out[0]; newest.State != configv1.CompletedUpdate { // what is learnt on the way belongs to it
		newest.Verified = newest.Verified || wanted.Verified
		if newest.Version == "" {
			newest.Version = wanted.Version
		}
		newest.AcceptedRisks = added(newest.AcceptedRisks, wanted.Risks)
	}
	if completed && out[0].State != configv1.CompletedUpdate {
		out[0].State, out[0].CompletionTime = configv1.CompletedUpdate, &now
	}
	return pruned(out)
}

// added adds risks that are new: each has who skipped which gate before its first colon.
func added(have string, risks []string) string {
	for _, risk := range risks {
		who, _, _ := strings.Cut(risk, ":")
		switch {
		case have == "":
			have = risk
		case !strings.Contains(have, who+":") && !strings.Contains(have, risk):
			have += "; " + risk
		}
	}
	return have
}

// pruned leaves out the oldest entries, but neither the first one of the site, nor the
// newest ones, nor the last that was completed.
func pruned(all []configv1.UpdateHistory) []configv1.UpdateHistory {
	completed := slices.IndexFunc(all, func(h configv1.UpdateHistory) bool { return h.State == configv1.CompletedUpdate })
	for i := len(all) - 2; i >= newestEntries && len(all) > mostEntries; i-- {
		if i != completed {
			all = slices.Delete(all, i, i+1)
		}
	}
	return all
}

// Previous returns the image to which a site may go back: the completed one before the
// newest entry. It is empty if there is none, or the way back is closed.
func Previous(history []configv1.UpdateHistory, r cluster.Record) string {
	if !r.Started || r.NoWayBack || len(history) == 0 {
		return ""
	}
	for _, h := range history[1:] {
		if h.State == configv1.CompletedUpdate && h.Image != history[0].Image {
			return h.Image
		}
	}
	return ""
}

// Updates returns what the status has of releases that lie on all hosts; nil for none.
func Updates(available []gate.Release) []configv1.Release {
	var out []configv1.Release
	for _, r := range available {
		out = append(out, configv1.Release{Image: r.Digest, Version: r.Version.String()})
	}
	return out
}

// Conditions returns the conditions of the object. One whose status has not changed
// keeps the time of its last change. Serves is whether the API and etcd serve: an
// upgrade that pauses does not make a site unavailable.
func Conditions(old []configv1.ClusterOperatorStatusCondition, step cluster.Step, upgradeable gate.Condition, serves metav1.ConditionStatus, now metav1.Time) []configv1.ClusterOperatorStatusCondition {
	progressing := step.Phase != cluster.Idle && step.Phase != cluster.Offered
	paused := step.Do == cluster.Pause
	accepted := condition(ReleaseAccepted, step.Refused == "", "AsExpected", "")
	if step.Refused != "" {
		accepted.Reason, accepted.Message = "Refused", step.Refused
	}
	failing := condition(Failing, paused, "AsExpected", "")
	if paused {
		failing.Reason, failing.Message = "Paused", step.Why
	}
	out := []configv1.ClusterOperatorStatusCondition{
		{Type: configv1.OperatorAvailable, Status: configv1.ConditionStatus(serves), Reason: "AsExpected"},
		condition(configv1.OperatorProgressing, progressing, string(step.Phase), step.Why),
		failing,
		accepted,
		{Type: configv1.OperatorUpgradeable, Status: configv1.ConditionStatus(upgradeable.Status), Reason: upgradeable.Reason, Message: upgradeable.Message},
		condition(configv1.RetrievedUpdates, false, "NoChannel", "releases are offered by an administrator"),
	}
	for i, c := range out {
		before := slices.IndexFunc(old, func(o configv1.ClusterOperatorStatusCondition) bool { return o.Type == c.Type })
		out[i].LastTransitionTime = now
		if before >= 0 && old[before].Status == c.Status {
			out[i].LastTransitionTime = old[before].LastTransitionTime
		}
	}
	return out
}

func condition(kind configv1.ClusterStatusConditionType, is bool, reason, message string) configv1.ClusterOperatorStatusCondition {
	status := configv1.ConditionFalse
	if is {
		status = configv1.ConditionTrue
	}
	return configv1.ClusterOperatorStatusCondition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Digest returns the digest by which an image names a release, as sha256:HEX: the whole
// of it, or what follows an @. ok is false if it names none.
func Digest(image string) (digest string, ok bool) {
	if i := strings.LastIndexByte(image, '@'); i >= 0 {
		image = image[i+1:]
	}
	hex, found := strings.CutPrefix(image, "sha256:")
	if !found || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", false
	}
	return image, true
}
