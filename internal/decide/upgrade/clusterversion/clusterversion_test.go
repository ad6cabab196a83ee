package clusterversion

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
)

// minute returns a time of the test.
func minute(n int) metav1.Time { return metav1.Time{Time: time.Unix(int64(60*n), 0).UTC()} }

// text writes a history as image, state, beginning and end in minutes.
func text(h []configv1.UpdateHistory) string {
	var out []string
	for _, e := range h {
		end := "-"
		if e.CompletionTime != nil {
			end = fmt.Sprint(e.CompletionTime.Unix() / 60)
		}
		out = append(out, fmt.Sprintf("%s %s %d %s", e.Image, e.State, e.StartedTime.Unix()/60, end))
	}
	return strings.Join(out, ", ")
}

// TestAHistoryHasAnEntryForEachReleaseThatWasWanted over an upgrade, a return and a second
// attempt.
func TestAHistoryHasAnEntryForEachReleaseThatWasWanted(t *testing.T) {
	var h []configv1.UpdateHistory
	for i, c := range []struct {
		image     string
		completed bool
		want      string
	}{
		{"R1", false, "R1 Partial 0 -"},
		{"R1", true, "R1 Completed 0 1"},
		{"R1", false, "R1 Completed 0 1"},
		{"R2", false, "R2 Partial 3 -, R1 Completed 0 1"},
		{"R2", false, "R2 Partial 3 -, R1 Completed 0 1"},
		{"R1", false, "R1 Partial 5 -, R2 Partial 3 5, R1 Completed 0 1"},
		{"R1", true, "R1 Completed 5 6, R2 Partial 3 5, R1 Completed 0 1"},
		{"R2", true, "R2 Completed 7 7, R1 Completed 5 6, R2 Partial 3 5, R1 Completed 0 1"},
	} {
		before := text(h)
		next := History(h, Release{Image: c.image, Verified: true, Risks: []string{"a", "b"}}, c.completed, minute(i))
		if got := text(next); got != c.want || text(h) != before || !next[0].Verified || next[0].AcceptedRisks != "a; b" {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
		h = next
	}
	open := cluster.Record{Started: true}
	if got := Previous(h, open); got != "R1" {
		t.Errorf("the way back leads to %q", got)
	}
	for what, got := range map[string]string{"committed": Previous(h, cluster.Record{Started: true, NoWayBack: true}), "no upgrade": Previous(h, cluster.Record{}), "the first release": Previous(h[3:], open), "none": Previous(nil, open)} {
		if got != "" {
			t.Errorf("%s: the way back leads to %q", what, got)
		}
	}
}

func TestALongHistoryKeepsWhatCounts(t *testing.T) {
	var h []configv1.UpdateHistory
	for i := range 200 {
		h = History(h, Release{Image: fmt.Sprint(i)}, i == 0 || i == 50, minute(i))
	}
	if len(h) != mostEntries || h[0].Image != "199" || h[4].Image != "195" || h[99].Image != "0" || h[98].Image != "50" || h[97].Image != "102" {
		t.Errorf("%d entries: %s", len(h), text(h))
	}
}

func TestWhatTheConditionsOfAClusterVersionSay(t *testing.T) {
	yes, ok := metav1.ConditionTrue, gate.Condition{Status: metav1.ConditionTrue, Reason: "AsExpected"}
	said := func(list []configv1.ClusterOperatorStatusCondition) string {
		var out []string
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
		}
		return strings.Join(out, ", ")
	}
	for want, got := range map[string][]configv1.ClusterOperatorStatusCondition{
		"Available True AsExpected, Progressing False Idle, Failing False AsExpected, ReleaseAccepted True AsExpected, Upgradeable True AsExpected, RetrievedUpdates False NoChannel":           Conditions(nil, cluster.Step{Phase: cluster.Idle}, ok, yes, minute(1)),
		"Available True AsExpected, Progressing True Hosts, Failing True Paused, ReleaseAccepted False Refused, Upgradeable False DiskGateClosed, RetrievedUpdates False NoChannel":             Conditions(nil, cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "cp-1 is away", Refused: "another one"}, gate.Condition{Status: metav1.ConditionFalse, Reason: "DiskGateClosed"}, yes, minute(1)),
		"Available Unknown AsExpected, Progressing True Proving, Failing False AsExpected, ReleaseAccepted True AsExpected, Upgradeable Unknown FactsUnknown, RetrievedUpdates False NoChannel": Conditions(nil, cluster.Step{Phase: cluster.Proving, Do: cluster.Write}, gate.Condition{Status: metav1.ConditionUnknown, Reason: "FactsUnknown"}, metav1.ConditionUnknown, minute(1)),
	} {
		if said(got) != want {
			t.Errorf("%s, want %s", said(got), want)
		}
	}
	first := Conditions(nil, cluster.Step{Phase: cluster.Idle}, ok, yes, minute(1))
	again := Conditions(first, cluster.Step{Phase: cluster.Idle}, ok, yes, minute(2))
	if !reflect.DeepEqual(first, again) {
		t.Errorf("nothing has changed, but %v", again)
	}
	for i, c := range Conditions(first, cluster.Step{Phase: cluster.Hosts}, ok, yes, minute(2)) {
		if changed := c.Type == configv1.OperatorProgressing; c.LastTransitionTime.Time.Equal(minute(2).Time) != changed {
			t.Errorf("%d: %s changed at %s", i, c.Type, c.LastTransitionTime)
		}
	}
}
