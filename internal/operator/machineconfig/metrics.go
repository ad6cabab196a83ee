package machineconfig

import (
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

var (
	// conditionMetric has the present status of each condition.
	conditionMetric = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_machine_config_pool_conditions",
		Help: "Conditions of MachineConfigPools: 1 true, 0 false, -1 unknown.",
	}, []string{"pool", "condition"})
	// hostMetric has the counts of the pool's status.
	hostMetric = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_machine_config_pool_hosts",
		Help: "Hosts of MachineConfigPools, by what is said of them: all, updated, ready, unavailable, degraded.",
	}, []string{"pool", "are"})
	// sinceMetric has the time of the pool's status, which outlives the operator's pod.
	sinceMetric = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_machine_config_pool_not_updated_since_seconds",
		Help: "Since when not every host of a MachineConfigPool has its configuration; absent while all have it.",
	}, []string{"pool"})
	measured []string
)

// Collectors returns what the operator tells Prometheus of pools.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{conditionMetric, hostMetric, sinceMetric}
}

func init() { //nolint:gochecknoinits // the registry is the library's own
	metrics.Registry.MustRegister(Collectors()...)
}

// measure exports the state of one pool.
func measure(s rollout.Status) {
	for _, c := range s.Conditions {
		conditionMetric.WithLabelValues(s.Pool, string(c.Type)).Set(metric.Condition(c.Status))
	}
	for are, n := range map[string]int{"all": len(s.Hosts), "updated": s.Updated, "ready": s.Ready, "unavailable": s.Unavailable, "degraded": s.Degraded} {
		hostMetric.WithLabelValues(s.Pool, are).Set(float64(n))
	}
	if !slices.Contains(measured, s.Pool) {
		measured = append(measured, s.Pool)
	}
}

// measureSince exports since when a pool lacks its configuration, as its status says.
func measureSince(p *mcfgv1.MachineConfigPool) {
	c := find(p.Status.Conditions, mcfgv1.MachineConfigPoolUpdated)
	if c.Status == corev1.ConditionTrue || c.LastTransitionTime.IsZero() {
		sinceMetric.DeleteLabelValues(p.Name)
		return
	}
	sinceMetric.WithLabelValues(p.Name).Set(float64(c.LastTransitionTime.Unix()))
}

// forget drops the metrics of pools that are gone.
func forget(pools []mcfgv1.MachineConfigPool) {
	measured = slices.DeleteFunc(measured, func(name string) bool {
		if slices.ContainsFunc(pools, func(p mcfgv1.MachineConfigPool) bool { return p.Name == name }) {
			return false
		}
		gone := prometheus.Labels{"pool": name}
		conditionMetric.DeletePartialMatch(gone)
		hostMetric.DeletePartialMatch(gone)
		sinceMetric.DeletePartialMatch(gone)
		return true
	})
}
