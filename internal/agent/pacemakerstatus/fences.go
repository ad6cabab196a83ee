package pacemakerstatus

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The sources of the metrics of fences.
var (
	fenceFiles records.Files
	fenceSums  records.FenceSums
)

var (
	fences       = metric.Describe("fences_total", "Fences by this host, as far as its history goes.", "host", "proven")
	fenceSeconds = metric.Describe("fence_last_seconds", "How long the last proven fence by this host took, from its start to the proof.", "host")
	fencePhase   = metric.Describe("fence_last_phase_seconds", "How long the parts of the last proven fence by this host took.", "host", "phase")
	fenceWorst   = metric.Describe("fence_worst_seconds", "How long the slowest of the last ten fences by this host that cut the power took, without its delay.", "host")
	fenceProven  = metric.Describe("fence_proven_timestamp_seconds", "When a fence by this host last cut the power by the present BMC; 0 for never.", "host")
	fenceDelay   = metric.Describe("fence_delay_seconds", "How long this host waits before it fences, so that of two hosts one is off before the other begins.", "host")
)

var aboutFences = []*prometheus.Desc{fences, fenceSeconds, fencePhase, fenceWorst, fenceProven, fenceDelay}

// collectFences exports, for each host that this host may fence, what the history
// of fences says. `holdfast explain` shows what cannot be read.
func collectFences(out metric.Send) {
	totals, err := fenceSums.Of(fenceFiles)
	targets, errTargets := fenceFiles.Targets()
	if err != nil || errTargets != nil {
		return
	}
	for _, target := range targets {
		total := totals[target]
		if device, err := fenceFiles.Device(target); err == nil {
			out.Gauge(fenceDelay, device.Delay.Seconds(), target)
			total = total.At(device.Address)
		}
		collectFencesOf(out, target, total)
	}
}

func collectFencesOf(out metric.Send, target string, total state.FenceTotal) {
	last := total.Last
	if len(total.Cuts) > 0 {
		out.Gauge(fenceWorst, total.Slowest().Seconds(), target)
	}
	out.Counter(fences, float64(total.Proven), target, "true")
	out.Counter(fences, float64(total.Failed), target, "false")
	out.Gauge(fenceProven, metric.Seconds(total.Cut), target) // a fence of a host that was off proves nothing about its BMC
	if total.Proven == 0 {
		return
	}
	p := last.Phases
	out.Gauge(fenceSeconds, (p.Identify + p.Hold + p.PowerOff + p.Evidence).Seconds(), target)
	for name, took := range map[string]time.Duration{
		"identify": p.Identify, "hold": p.Hold, "power-off": p.PowerOff, "evidence": p.Evidence, "power-on": p.PowerOn,
	} {
		out.Gauge(fencePhase, took.Seconds(), target, name)
	}
}
