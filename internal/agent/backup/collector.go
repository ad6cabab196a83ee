package backup

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	decide "github.com/holdfast/holdfast/internal/decide/backup"
)

var (
	good     = metric.Describe("backup_good_timestamp_seconds", "When the newest good backup of this host was taken.")
	since    = metric.Describe("backup_since_timestamp_seconds", "Since when this host takes backups.")
	periods  = metric.Describe("backup_period_seconds", "The longest time between two backups of the schedule.")
	failures = metric.Describe("backup_failures", "How many tries in a row made no good backup.")
	sent     = metric.Describe("backup_sent_timestamp_seconds", "When the newest good backup was taken whose copy was read back at a target.", "target")
	aimed    = metric.Describe("backup_aimed_timestamp_seconds", "Since when this host is to send its backups to a target.", "target")
)

// Describe implements prometheus.Collector.
func (a *Agent) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{good, since, periods, failures, sent, aimed} {
		out <- d
	}
}

// Collect implements prometheus.Collector. Before the first look there is nothing.
func (a *Agent) Collect(out chan<- prometheus.Metric) {
	a.mu.Lock()
	s := a.summary
	a.mu.Unlock()
	send := metric.Send(out)
	send.Time(since, s.Since)
	if s.Period == 0 {
		return
	}
	send.Gauge(periods, s.Period.Seconds())
	if b, is := s.Newest(a.Now()); is {
		send.Time(good, b.Taken)
	}
	n := 0
	if s.Failed != nil {
		n = s.Failed.Times
	}
	send.Gauge(failures, float64(n))
	site := decide.Site{Now: a.Now(), Hosts: []decide.Host{{Summary: s}}}
	for _, name := range s.Targets {
		send.Time(sent, site.Sent(name), name)
		send.Time(aimed, s.Aimed[name], name) // a host that has just joined says nothing about the site's copies
	}
}
