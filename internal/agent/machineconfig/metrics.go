package machineconfig

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
)

var stateOf = metric.Describe("machine_config_state", "1 for what this host says of its machine configuration; absent on a host that never had one.", "config", "state", "stage")

// Describe implements prometheus.Collector.
func (*Agent) Describe(out chan<- *prometheus.Desc) { out <- stateOf }

// Collect implements prometheus.Collector.
func (a *Agent) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	r := a.said
	a.mu.Unlock()
	if r.State != "" {
		metric.Send(to).Gauge(stateOf, 1, r.Current, string(r.State), string(r.Stage))
	}
}
