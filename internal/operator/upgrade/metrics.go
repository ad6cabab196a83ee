package upgrade

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
)

var (
	phaseMetric = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_upgrade_phase",
		Help: "How far the upgrade of the site is: 1 for the present phase, 0 for the others.",
	}, []string{"phase"})
	pausedMetric = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdfast_upgrade_paused",
		Help: "1 while an upgrade waits for a person, or for something that passes; 0 otherwise.",
	})
	wayBackMetric = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_upgrade_way_back_open_since_seconds",
		Help: "When the upgrade began that is not committed, so that the site can go back, in seconds since 1970; absent otherwise.",
	}, nil)
	gateMetric = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_upgrade_gate_closed",
		Help: "1 for each gate that keeps an upgrade from beginning or going on, by its name.",
	}, []string{"gate"})
)

// Collectors returns what the operator tells Prometheus of an upgrade.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{phaseMetric, pausedMetric, wayBackMetric, gateMetric}
}

func init() { //nolint:gochecknoinits // the registry is the library's own
	metrics.Registry.MustRegister(Collectors()...)
}

var phases = []cluster.Phase{
	cluster.Idle, cluster.Offered, cluster.Fetching, cluster.Checked, cluster.Hosts, cluster.Parts, cluster.Proving, cluster.Committing, cluster.Returning,
}

// measure exports the state of an upgrade.
func measure(g *gathered, next cluster.Step, judged gate.Judgement) {
	for _, p := range phases {
		phaseMetric.WithLabelValues(string(p)).Set(metric.Bool(p == next.Phase))
	}
	pausedMetric.Set(metric.Bool(next.Do == cluster.Pause))
	wayBackMetric.Reset()
	if h := g.version.Status.History; g.book.record.Started && !g.book.record.NoWayBack && len(h) > 0 {
		wayBackMetric.WithLabelValues().Set(float64(h[0].StartedTime.Unix()))
	}
	gateMetric.Reset()
	for _, c := range judged.Closed {
		gateMetric.WithLabelValues(string(c.ID)).Set(1)
	}
}
