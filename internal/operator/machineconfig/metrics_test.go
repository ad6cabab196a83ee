package machineconfig

import (
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSinceWhenAPoolIsLateOutlivesTheOperator: the time is that of the pool's status, whenever this
// operator began.
func TestSinceWhenAPoolIsLateOutlivesTheOperator(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "late-pool"}}
	say := func(is corev1.ConditionStatus) {
		p.Status.Conditions = []mcfgv1.MachineConfigPoolCondition{{Type: mcfgv1.MachineConfigPoolUpdated, Status: is, LastTransitionTime: metav1.NewTime(at)}}
		measureSince(p)
	}
	late := func() bool {
		all := make(chan prometheus.Metric, 100)
		sinceMetric.Collect(all)
		close(all)
		for one := range all {
			var m dto.Metric
			if err := one.Write(&m); err != nil {
				t.Fatal(err)
			}
			if m.GetLabel()[0].GetValue() == p.Name && m.GetGauge().GetValue() == float64(at.Unix()) {
				return true
			}
		}
		return false
	}
	if say(corev1.ConditionFalse); !late() {
		t.Error("a pool that lacks its configuration is not late since then")
	}
	if say(corev1.ConditionTrue); late() {
		t.Error("a pool whose hosts all have it is late")
	}
	p.Status.Conditions = nil
	if measureSince(p); late() {
		t.Error("a pool of which nothing is known is late")
	}
	say(corev1.ConditionFalse)
	measured = append(measured, p.Name)
	if forget(nil); late() {
		t.Error("a pool that is gone is late")
	}
}
