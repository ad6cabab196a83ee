package leafcert

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
)

var (
	renewals = metric.Describe("certificate_renewals_total", "Leaf certificates that the agent has renewed since it started.", "file")
	lateFrom = metric.Describe("certificate_renewal_late_timestamp_seconds", "From when on a leaf certificate on this host should have been renewed, whoever is away; of a file that is damaged, since when the agent has seen that, and of one of Holdfast's own since it was written.", "file")
)

// counts counts renewals by file.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counts) add(file string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[file]++
}

func (c *counts) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.by)
}

// moments are times by file, as they were when the files were last read.
type moments struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (m *moments) set(at map[string]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
}

func (m *moments) all() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.at)
}

// Describe implements prometheus.Collector.
func (k *Keeper) Describe(out chan<- *prometheus.Desc) { out <- renewals; out <- lateFrom }

// Collect implements prometheus.Collector.
func (k *Keeper) Collect(out chan<- prometheus.Metric) {
	for file, n := range k.renewed.all() {
		metric.Send(out).Counter(renewals, float64(n), file)
	}
	for file, at := range k.late.all() {
		metric.Send(out).Time(lateFrom, at, file)
	}
	for file, at := range k.own() {
		metric.Send(out).Time(lateFrom, at, file)
	}
}
