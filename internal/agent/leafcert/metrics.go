package leafcert

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
)

var renewals = metric.Describe("certificate_renewals_total", "Leaf certificates that the agent has renewed since it started.", "file")

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

// Describe implements prometheus.Collector.
func (k *Keeper) Describe(out chan<- *prometheus.Desc) { out <- renewals }

// Collect implements prometheus.Collector.
func (k *Keeper) Collect(out chan<- prometheus.Metric) {
	for file, n := range k.renewed.all() {
		metric.Send(out).Counter(renewals, float64(n), file)
	}
}
