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

// TestWhatIsLearntOnTheWayBelongsToTheEntry: a release is described only once a host has it,
// and a gate may be skipped later.
func TestWhatIsLearntOnTheWayBelongsToTheEntry(t *testing.T) {
	now := metav1.Now()
	h := History(nil, Release{Image: "sha256:2"}, false, now)
	h = History(h, Release{Image: "sha256:2", Version: "0.2.0", Verified: true, Risks: []string{"ada skipped window: closed at 12: so"}}, false, now)
	h = History(h, Release{Image: "sha256:2", Version: "0.2.0", Risks: []string{"ada skipped window: closed until 13: so", "bob skipped backup: old: so"}}, true, now)
	if e := h[0]; len(h) != 1 || e.Version != "0.2.0" || !e.Verified || e.AcceptedRisks != "ada skipped window: closed at 12: so; bob skipped backup: old: so" {
		t.Errorf("%+v", h)
	}
	h = History(h, Release{Image: "sha256:2", Version: "0.3.0", Risks: []string{"eve skipped battery: x: y"}}, true, now)
	if e := h[0]; e.Version != "0.2.0" || strings.Contains(e.AcceptedRisks, "eve") {
		t.Errorf("a completed entry changed: %+v", e)
	}
}

// TestWhichImagesNameARelease: by a digest alone.
func TestWhichImagesNameARelease(t *testing.T) {
	hex := strings.Repeat("0f", 32)
	for image, want := range map[string]string{
		"sha256:" + hex: "sha256:" + hex, "registry.example:5000/a/b@sha256:" + hex: "sha256:" + hex, "a:v1@sha256:" + hex: "sha256:" + hex,
		"": "", "a:v1": "", "sha256:" + hex[1:]: "", "sha256:" + strings.ToUpper(hex): "", "sha512:" + hex: "", hex: "", "sha256:" + hex + "0": "",
	} {
		if got, ok := Digest(image); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", image, got, ok)
		}
	}
}
