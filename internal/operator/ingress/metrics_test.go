package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// shown returns the conditions of one IngressController as metrics have them.
func shown(t *testing.T, name string) string {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "holdfast_ingress_controller_conditions" && labels["name"] == name {
				out = append(out, fmt.Sprintf("%s=%g", labels["condition"], m.GetGauge().GetValue()))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestMetricsShowConditionsAndForgetWhatIsGone(t *testing.T) {
	measure("metrics-test", []operatorv1.OperatorCondition{
		{Type: "Available", Status: operatorv1.ConditionTrue},
		{Type: "Degraded", Status: operatorv1.ConditionFalse},
		{Type: "DNSReady", Status: operatorv1.ConditionUnknown},
	})
	if got := shown(t, "metrics-test"); got != "Available=1 DNSReady=-1 Degraded=0" {
		t.Error(got)
	}
	if forget("metrics-test"); shown(t, "metrics-test") != "" {
		t.Error("it is still shown")
	}
}
