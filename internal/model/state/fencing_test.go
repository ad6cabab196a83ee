package state

import (
	"testing"
	"time"
)

// TestOnlyTheLastFencesThatCutPowerSayHowSlowABMCIs: the fence delay is judged by them, and a
// fence of years ago, or of a host that was off already, would hold it too long for ever.
func TestOnlyTheLastFencesThatCutPowerSayHowSlowABMCIs(t *testing.T) {
	fence := func(requests int, off bool, took time.Duration) FenceEntry {
		return FenceEntry{Target: "cp-2", Off: off, Requests: requests, Phases: FencePhases{Identify: took / 2, Hold: time.Hour, PowerOff: took / 4, Evidence: took / 4}}
	}
	all := FenceTotals{}
	steps := []struct {
		what string
		add  FenceEntry
		want time.Duration
	}{
		{"a host that was off already", fence(0, true, 40*time.Second), 0},
		{"a fence that failed", fence(3, false, 40*time.Second), 0},
		{"a slow one", fence(1, true, 16*time.Second), 16 * time.Second},
		{"a quick one", fence(1, true, 4*time.Second), 16 * time.Second},
	}
	for range 8 {
		steps = append(steps, steps[3])
	}
	last := steps[3]
	last.what, last.want = "ten quick ones after it", 4*time.Second
	for _, s := range append(steps, last) {
		if all.Add(s.add); all["cp-2"].Slowest() != s.want {
			t.Errorf("%s: %s, not %s", s.what, all["cp-2"].Slowest(), s.want)
		}
	}
}
