package handover

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAConditionKeepsItsTimeWhileItsStatusStays(t *testing.T) {
	const yes, no = operatorv1.ConditionTrue, operatorv1.ConditionFalse
	before, at := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now)
	have := []operatorv1.OperatorCondition{
		{Type: "Foreign", Status: operatorv1.ConditionUnknown, Reason: "r", Message: "m", LastTransitionTime: before},
		{Type: SetupProgressing, Status: yes, Reason: "Auth", Message: "1", LastTransitionTime: before},
		{Type: SetupDegraded, Status: no, Reason: AsExpected, Message: "fine", LastTransitionTime: before},
	}
	wanted := []Condition{
		{Type: SetupProgressing, Status: true, Reason: "Setup", Message: "3"},
		{Type: SetupDegraded, Status: true, Reason: "SetupFailed", Message: "oh"},
		{Type: SetupAvailable, Reason: "r", Message: "m"},
	}
	got, changed := Kept(have, wanted, now)
	want := []operatorv1.OperatorCondition{
		have[0],
		{Type: SetupProgressing, Status: yes, Reason: "Setup", Message: "3", LastTransitionTime: before},
		{Type: SetupDegraded, Status: yes, Reason: "SetupFailed", Message: "oh", LastTransitionTime: at},
		{Type: SetupAvailable, Status: no, Reason: "r", Message: "m", LastTransitionTime: at},
	}
	if diff := cmp.Diff(want, got); diff != "" || !changed {
		t.Errorf("changed %v (-want +got):\n%s", changed, diff)
	}
	if again, changed := Kept(got, wanted, now.Add(time.Hour)); changed || !slices.Equal(again, got) {
		t.Errorf("the same conditions were written again: %v", again)
	}
	for i, c := range wanted {
		c.Changed = got[i+1].LastTransitionTime.Time
		if back := Of(got[i+1]); back != c {
			t.Errorf("it comes back as %+v", back)
		}
	}
}

func TestALongMessageIsCutBetweenTwoCharacters(t *testing.T) {
	long := []Condition{{Type: SetupDegraded, Message: "x" + strings.Repeat("ä", maxMessage)}}
	got, _ := Kept(nil, long, now)
	if m := got[0].Message; !utf8.ValidString(m) || len(m) > maxMessage+len(" ...") || !strings.HasSuffix(m, "ä ...") {
		t.Errorf("%d bytes end in %q", len(m), m[len(m)-8:])
	}
	if _, changed := Kept(got, long, now); changed {
		t.Error("it is written again")
	}
}
