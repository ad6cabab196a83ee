package ingress

import (
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// conditionMetric has the present status of each condition.
var conditionMetric = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "holdfast_ingress_controller_conditions",
	Help: "Conditions of IngressControllers: 1 true, 0 false, -1 unknown.",
}, []string{"name", "condition"})

func init() { metrics.Registry.MustRegister(conditionMetric) } //nolint:gochecknoinits // the registry is the library's own

// measure exports the conditions of one IngressController.
func measure(name string, conditions []operatorv1.OperatorCondition) {
	for _, c := range conditions {
		conditionMetric.WithLabelValues(name, c.Type).Set(metric.Condition(c.Status))
	}
}

// forget drops the metrics of an IngressController that is gone.
func forget(name string) { conditionMetric.DeletePartialMatch(prometheus.Labels{"name": name}) }

// tell makes events of what people want to know without looking.
func (r *Reconciler) tell(ic *operatorv1.IngressController, after operatorv1.IngressControllerStatus) {
	for _, kind := range []string{decide.Admitted, decide.Available, decide.Degraded} {
		was, is := condition(ic.Status.Conditions, kind), condition(after.Conditions, kind)
		if was.Status == is.Status || is.Status == "" {
			continue
		}
		level := corev1.EventTypeNormal
		if (kind == decide.Degraded) == (is.Status == operatorv1.ConditionTrue) {
			level = corev1.EventTypeWarning
		}
		if was.Status == "" && kind == decide.Degraded && level == corev1.EventTypeNormal {
			continue // it never was
		}
		r.event(ic, level, kind, fmt.Sprintf("%s is now %s: %s %s", kind, is.Status, is.Reason, is.Message))
	}
	was, is := ic.Status.EndpointPublishingStrategy, after.EndpointPublishingStrategy
	if was != nil && is != nil && was.Type != is.Type {
		r.event(ic, corev1.EventTypeNormal, "StrategyChanged", fmt.Sprintf("published by %s instead of %s", is.Type, was.Type))
	}
}

func condition(list []operatorv1.OperatorCondition, kind string) operatorv1.OperatorCondition {
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	return operatorv1.OperatorCondition{}
}
