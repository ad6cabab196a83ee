package backup

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	decide "github.com/holdfast/holdfast/internal/decide/backup"
)

var (
	good     = metric.Describe("backup_good_timestamp_seconds", "When the newest good backup of this host was taken.")
	since    = metric.Describe("backup_since_timestamp_seconds", "Since when this host takes backups.")
	periods  = metric.Describe("backup_period_seconds", "The longest time between two backups of the schedule.")
	failures = metric.Describe("backup_failures", "How many tries in a row made no good backup.")
	sent     = metric.Describe("backup_sent_timestamp_seconds", "When the newest good backup was taken whose copy was read back at a target; before the first copy, when the target was configured.", "target")
)

// Describe implements prometheus.Collector.
func (a *Agent) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{good, since, periods, failures, sent} {
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
	for name, at := range sentAt(s, a.Now()) {
		send.Time(sent, at, name)
	}
}

// sentAt returns for each target the time that its metric has.
func sentAt(s decide.Summary, now time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	site := decide.Site{Now: now, Hosts: []decide.Host{{Summary: s}}}
	for _, name := range s.Targets {
		if at := site.SentSince(name); !at.IsZero() {
			out[name] = at
		}
	}
	return out
}
