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
	wishLate      = metric.Describe("wish_late", "1 while what somebody wants of this host has waited for longer than it should: a reboot or updates for their turn, or a drain for a pod; absent otherwise.", "wish")
	hostEmpty     = metric.Describe("host_empty", "1 while this host has been empty for longer than a day, as an administrator wants; absent otherwise.")
	updatesFailed = metric.Describe("updates_failed", "1 while the last updates that somebody wanted of this host were not installed; absent otherwise.")
)

// Describe implements prometheus.Collector.
func (*Agent) Describe(out chan<- *prometheus.Desc) {
	out <- stateOf
	out <- bootRequired
	out <- updatesFailed
	out <- wishLate
	out <- hostEmpty
}

// Collect implements prometheus.Collector. What it tells of updates and wishes is what the
// node says, as `holdfast status` reads it.
func (a *Agent) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	r, self := a.said, a.self
	a.mu.Unlock()
	if r.State != "" {
		metric.Send(to).Gauge(stateOf, 1, r.Current, string(r.State), string(r.Stage))
	}
	h := rollout.HostOf(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: self.Name, Annotations: self.Annotations},
		Spec:       corev1.NodeSpec{Unschedulable: self.Cordoned}, // a person may have cordoned it, which no annotation says
	})
	for _, t := range h.OfUpdates() {
		desc := updatesFailed
		if t.Kind == rollout.WantsBoot {
			desc = bootRequired
		}
		metric.Send(to).Gauge(desc, 1)
	}
	for _, t := range h.OfWishes(a.Now()) {
		switch {
		case !t.Late:
		case t.Kind == rollout.IsEmpty:
			metric.Send(to).Gauge(hostEmpty, 1)
		case t.Kind == rollout.DrainWaits:
			metric.Send(to).Gauge(wishLate, 1, "drain")
		case t.Patch:
			metric.Send(to).Gauge(wishLate, 1, "updates")
		default:
			metric.Send(to).Gauge(wishLate, 1, "reboot")
		}
	}
}
