package cluster

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	nameCount = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "cluster", Name: "names",
		Help: "The number of names in the zone.",
	})
	serial = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "cluster", Name: "zone_serial",
		Help: "The serial number of the zone in use.",
	})
	brokenCount = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: "cluster", Name: "broken_files_total",
		Help: "The number of zone files that were refused.",
	})
)
