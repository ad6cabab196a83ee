package metric

import (
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAConditionIsTheSameNumberInEveryType(t *testing.T) {
	for got, want := range map[float64]float64{
		Condition(metav1.ConditionTrue): 1, Condition(operatorv1.ConditionFalse): 0, Condition(metav1.ConditionUnknown): -1,
	} {
		if got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if Condition(operatorv1.ConditionTrue) != 1 || Condition("") != -1 {
		t.Error("another type is another number")
	}
}

func TestWhatIsNotKnownIsNotSent(t *testing.T) {
	sent := make(chan prometheus.Metric, 4)
	d := Describe("x", "A test.")
	Send(sent).Fact(d, state.Fact[bool]{})
	Send(sent).Time(d, time.Time{})
	if len(sent) != 0 {
		t.Errorf("%d are sent", len(sent))
	}
	Send(sent).Fact(d, state.Known(false))
	Send(sent).Time(d, time.UnixMilli(1500))
	if len(sent) != 2 || Seconds(time.UnixMilli(1500)) != 1.5 || Seconds(time.Time{}) != 0 {
		t.Errorf("%d are sent", len(sent))
	}
}
