package mdns

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	metricHosts = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "mdns", Name: "hosts",
		Help: "The number of neighbours that are known.",
	})
	metricLinks = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "mdns", Name: "links",
		Help: "The number of interfaces and families that neighbours are listened to on.",
	})
	metricIgnored = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: "mdns", Name: "ignored_packets_total",
		Help: "Packets that are no answers, cannot be read, or are not from the own link.",
	})
	metricDropped = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: "mdns", Name: "dropped_packets_total",
		Help: "Packets that came faster than they were looked at.",
	})
)
