// Package metric makes Prometheus metrics from values that are read at the
// moment of a scrape. All our collectors describe and send their metrics with
// it, so that a yes, a time and a condition are the same number everywhere.
package metric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Describe describes a metric. All our names have the same prefix.
func Describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
}

// Send is the channel to which a collector sends its metrics.
type Send chan<- prometheus.Metric

// Gauge sends a value that may go up and down.
func (s Send) Gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// Counter sends a value that only grows.
func (s Send) Counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// Fact sends a yes or a no, or nothing if the fact is unknown.
func (s Send) Fact(d *prometheus.Desc, f state.Fact[bool], labels ...string) {
	if f.Known {
		s.Gauge(d, Bool(f.Value), labels...)
	}
}

// Time sends a moment, or nothing if it is zero.
func (s Send) Time(d *prometheus.Desc, t time.Time, labels ...string) {
	if !t.IsZero() {
		s.Gauge(d, Seconds(t), labels...)
	}
}

// Bool returns 1 for yes and 0 for no.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Condition returns 1 for True, 0 for False and -1 for anything else, such as
// Unknown. It takes any of the API's types that use these words.
func Condition[S ~string](status S) float64 {
	switch status {
	case "True":
		return 1
	case "False":
		return 0
	}
	return -1
}

// Seconds returns a moment as Prometheus counts it, or 0 for the zero time.
func Seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
