package cluster

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	nameCount = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "cluster", Name: "names",
		Help: "The number of names that are answered for.",
	})
	serial = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "cluster", Name: "zone_serial",
		Help: "The serial of the zone that serves.",
	})
	brokenCount = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: "cluster", Name: "broken_files_total",
		Help: "How often a zone file was refused.",
	})
)
