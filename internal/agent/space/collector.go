package space

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
)

var (
	databaseSize  = metric.Describe("etcd_database_size_bytes", "The size of the database of etcd on this host.")
	databaseInUse = metric.Describe("etcd_database_in_use_bytes", "How much of the database of etcd on this host is in use.")
	quota         = metric.Describe("etcd_quota_bytes", "The size of its database at which etcd on this host takes no more writes.")
	noSpace       = metric.Describe("etcd_no_space", "Whether a member of etcd has raised the alarm NOSPACE.")
	failures      = metric.Describe("etcd_defragmentation_failures", "How many defragmentations of etcd on this host failed in a row.")
)

// Describe implements prometheus.Collector.
func (a *Agent) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{databaseSize, databaseInUse, quota, noSpace, failures} {
		out <- d
	}
}

// Collect implements prometheus.Collector. While etcd of this host says nothing there is nothing.
func (a *Agent) Collect(out chan<- prometheus.Metric) {
	a.mu.Lock()
	s := a.summary
	a.mu.Unlock()
	if s.Quota == 0 {
		return
	}
	send := metric.Send(out)
	send.Gauge(databaseSize, float64(s.Size))
	send.Gauge(databaseInUse, float64(s.InUse))
	send.Gauge(quota, float64(s.Quota))
	send.Gauge(noSpace, metric.Bool(len(s.NoSpace) > 0))
	send.Gauge(failures, float64(s.Failed))
}
