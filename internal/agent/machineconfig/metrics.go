package machineconfig

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

var (
	stateOf       = metric.Describe("machine_config_state", "1 for what this host says of its machine configuration; absent on a host that never had one.", "config", "state", "stage")
	bootRequired  = metric.Describe("reboot_required", "1 while the distribution of this host wants a reboot that nobody has asked for yet; absent otherwise.")
	updatesFailed = metric.Describe("updates_failed", "1 while the last updates that somebody wanted of this host were not installed; absent otherwise.")
)

// Describe implements prometheus.Collector.
func (*Agent) Describe(out chan<- *prometheus.Desc) {
	out <- stateOf
	out <- bootRequired
	out <- updatesFailed
}

// Collect implements prometheus.Collector. What it tells of updates is what the node
// says, as `holdfast status` reads it.
func (a *Agent) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	r := a.said
	a.mu.Unlock()
	if r.State != "" {
		metric.Send(to).Gauge(stateOf, 1, r.Current, string(r.State), string(r.Stage))
	}
	for _, t := range rollout.HostOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: a.annotations()}}).OfUpdates() {
		desc := updatesFailed
		if t.Kind == rollout.WantsBoot {
			desc = bootRequired
		}
		metric.Send(to).Gauge(desc, 1)
	}
}
