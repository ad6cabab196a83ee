package mdns

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	metricHosts = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "mdns", Name: "hosts",
		Help: "The number of known neighbours.",
	})
	metricLinks = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: "mdns", Name: "links",
		Help: "The number of interfaces and address families on which the plugin listens to neighbours.",
	})
	metricIgnored = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: "mdns", Name: "ignored_packets_total",
		Help: "The number of ignored packets: not an answer, unreadable, or not from the own link.",
	})
	metricDropped = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: "mdns", Name: "dropped_packets_total",
		Help: "The number of packets that were dropped because they came faster than they were read.",
	})
)
