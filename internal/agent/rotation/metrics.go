package rotation

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/rotation"
)

var lateFrom = metric.Describe("authority_rotation_late_timestamp_seconds", "From when on somebody should look at the rotation of an authority, or of the key that encrypts secrets in etcd (encryption-key); absent while none is under way.", "authority")

// Gauge exports rotations that are under way, as a control plane knows them.
type Gauge struct {
	mu   sync.Mutex
	late map[rotation.Authority]time.Time
	keys time.Time
}

// set takes what was read last; nil takes nothing.
func (g *Gauge) set(late map[rotation.Authority]time.Time) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late = late
}

// SetKeys takes from when on somebody should look at the rotation of the keys of secrets in etcd,
// zero if none is under way; nil takes nothing.
func (g *Gauge) SetKeys(late time.Time) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = late
}

// Describe implements prometheus.Collector.
func (*Gauge) Describe(out chan<- *prometheus.Desc) { out <- lateFrom }

// Collect implements prometheus.Collector.
func (g *Gauge) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	late, keys := g.late, g.keys
	g.mu.Unlock()
	for a, at := range late {
		metric.Send(out).Time(lateFrom, at, string(a))
	}
	metric.Send(out).Time(lateFrom, keys, encryption.Subject)
}
