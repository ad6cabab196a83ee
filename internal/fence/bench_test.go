package fence

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// BenchmarkFence measures the phases of a fence; run it with -benchtime 20x.
func BenchmarkFence(b *testing.B) {
	quick, slow := bmc.Quirks{}, bmc.Quirks{Delay: bmc.Duration(200 * time.Millisecond)}
	for _, c := range []struct {
		name   string
		quirks bmc.Quirks
		on     bool
		driver bool
	}{
		{"already-off", quick, false, true},
		{"fence_redfish", quick, true, true},
		{"without-driver", quick, true, false},
		{"bmc-200ms/already-off", slow, false, true},
		{"bmc-200ms/fence_redfish", slow, true, true},
		{"bmc-200ms/without-driver", slow, true, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			password := "S3cr3t-battery-staple"
			if !c.driver {
				password = "пароль" // which fence_redfish does not accept
			}
			r := newBench(b, password)
			r.bmc.SetQuirks(c.quirks)
			for b.Loop() {
				r.machine.On.Store(c.on)
				if code := r.run(b.Context(), options{action: "reboot", target: "cp-1", powerTimeout: time.Minute}); code != exitOK {
					b.Fatal(r.err.String())
				}
			}
			r.report(b)
		})
	}
}

func (b *bench) report(t *testing.B) {
	t.Helper()
	records, err := b.Files.Fences()
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range []struct {
		name string
		of   func(state.FencePhases) time.Duration
	}{
		{"identify", func(p state.FencePhases) time.Duration { return p.Identify }},
		{"off", func(p state.FencePhases) time.Duration { return p.PowerOff }},
		{"evidence", func(p state.FencePhases) time.Duration { return p.Evidence }},
		{"proven", func(p state.FencePhases) time.Duration { return p.Identify + p.Hold + p.PowerOff + p.Evidence }},
		{"on", func(p state.FencePhases) time.Duration { return p.PowerOn }},
		{"total", func(p state.FencePhases) time.Duration { return p.Total }},
	} {
		var times []float64
		for _, r := range records {
			times = append(times, phase.of(r.Phases).Seconds()*1000)
		}
		slices.Sort(times)
		t.ReportMetric(times[len(times)/2], "ms-"+phase.name)
		if phase.name == "proven" {
			t.ReportMetric(times[len(times)-1], "ms-max-"+phase.name)
		}
		t.Log(phase.name, fmt.Sprintf("n=%d min %.1f p50 %.1f p90 %.1f max %.1f ms", len(times), times[0], times[len(times)/2], times[len(times)*9/10], times[len(times)-1]))
	}
}
