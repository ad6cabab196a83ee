package install

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/handover"
)

func TestEtcdsConditionsAreRead(t *testing.T) {
	changed := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	etcd := &operatorv1.Etcd{}
	etcd.Status.Conditions = []operatorv1.OperatorCondition{
		{Type: "A", Status: operatorv1.ConditionTrue, Reason: "R", Message: "m", LastTransitionTime: metav1.NewTime(changed)},
		{Type: "B", Status: operatorv1.ConditionUnknown},
	}
	want := []handover.Condition{{Type: "A", Status: true, Reason: "R", Message: "m", Changed: changed}, {Type: "B"}}
	if diff := cmp.Diff(want, conditionsOf(etcd)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := conditionsOf(nil); len(got) != 0 {
		t.Errorf("no object: %v", got)
	}
}
