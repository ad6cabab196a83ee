// Package metric makes Prometheus metrics of values that are read at the moment
// somebody asks: what a collector of ours describes and sends is made here, so
// that a yes, a time and a condition are the same number wherever they stand.
package metric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Describe describes a metric. Every name of ours begins alike.
func Describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
}

// Send is what a collector is given to send metrics to.
type Send chan<- prometheus.Metric

// Gauge sends a value that may go up and down.
func (s Send) Gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// Counter sends a value that only grows.
func (s Send) Counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// Fact sends a yes or a no, and nothing where neither is known.
func (s Send) Fact(d *prometheus.Desc, f state.Fact[bool], labels ...string) {
	if f.Known {
		s.Gauge(d, Bool(f.Value), labels...)
	}
}

// Time sends a moment, and nothing where there is none.
func (s Send) Time(d *prometheus.Desc, t time.Time, labels ...string) {
	if !t.IsZero() {
		s.Gauge(d, Seconds(t), labels...)
	}
}

// Bool is 1 for yes and 0 for no.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Condition is 1 for True, 0 for False and -1 for Unknown, of any of the API's
// types that spell them so.
func Condition[S ~string](status S) float64 {
	switch status {
	case "True":
		return 1
	case "False":
		return 0
	}
	return -1
}

// Seconds is a moment as Prometheus counts it; 0 where there is none.
func Seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
