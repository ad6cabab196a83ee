package pacemakerstatus

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/metric"
	"github.com/holdfast/holdfast/internal/state"
)

// What the metrics of fences are read from.
var (
	fenceHistory = state.FencingHistoryPath
	fenceDevices = state.FencingDir
	fenceSums    fence.Sums
)

var (
	fences       = metric.Describe("fences_total", "Fences by this host, as far as its history goes.", "host", "proven")
	fenceSeconds = metric.Describe("fence_last_seconds", "How long the last proven fence by this host took, from its begin to the proof.", "host")
	fencePhase   = metric.Describe("fence_last_phase_seconds", "How long the parts of the last proven fence by this host took.", "host", "phase")
	fenceWorst   = metric.Describe("fence_worst_seconds", "How long the slowest proven fence by this host took, without its delay.", "host")
	fenceProven  = metric.Describe("fence_proven_timestamp_seconds", "When a fence by this host was last proven; 0 for never.", "host")
	fenceDelay   = metric.Describe("fence_delay_seconds", "How long this host waits before it fences, so that of two hosts one is off before the other begins.", "host")
)

var aboutFences = []*prometheus.Desc{fences, fenceSeconds, fencePhase, fenceWorst, fenceProven, fenceDelay}

// collectFences tells what the history of this host's fences says of each host
// that it may fence.
func collectFences(out metric.Send) {
	totals, err := fenceSums.Of(fenceHistory)
	if err != nil {
		return // `holdfast explain` tells
	}
	for target, delay := range delays() {
		out.Gauge(fenceDelay, delay.Seconds(), target)
		collectFencesOf(out, target, totals[target])
	}
}

func collectFencesOf(out metric.Send, target string, total fence.Total) {
	last := total.Last
	out.Counter(fences, float64(total.Proven), target, "true")
	out.Counter(fences, float64(total.Failed), target, "false")
	out.Gauge(fenceProven, metric.Seconds(last.Time), target)
	if total.Proven == 0 {
		return
	}
	p := last.Phases
	out.Gauge(fenceSeconds, (p.Identify + p.Hold + p.PowerOff + p.Evidence).Seconds(), target)
	out.Gauge(fenceWorst, total.Worst.Seconds(), target)
	for name, took := range map[string]time.Duration{
		"identify": p.Identify, "hold": p.Hold, "power-off": p.PowerOff, "evidence": p.Evidence, "power-on": p.PowerOn,
	} {
		out.Gauge(fencePhase, took.Seconds(), target, name)
	}
}

// delays are the hosts that this one may fence, and what it waits first. Of a
// device's file nothing else is read.
func delays() map[string]time.Duration {
	out := map[string]time.Duration{}
	files, _ := filepath.Glob(filepath.Join(fenceDevices, "*.json")) // the pattern is well formed
	for _, file := range files {
		var device struct {
			Target string        `json:"target"`
			Delay  time.Duration `json:"delay"`
		}
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &device) == nil && device.Target != "" {
			out[device.Target] = device.Delay
		}
	}
	return out
}
