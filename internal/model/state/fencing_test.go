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

// TestABMCThatIsGoneProvesNothingAboutTheOneInItsPlace: another BMC may be slower, or cut no power at all.
func TestABMCThatIsGoneProvesNothingAboutTheOneInItsPlace(t *testing.T) {
	const former, present = "https://10.99.0.2/redfish/v1/Systems/1", "https://10.99.0.9/redfish/v1/Systems/1"
	fence := func(second int64, bmc string) FenceEntry {
		return FenceEntry{Time: time.Unix(second, 0), Target: "cp-2", Off: true, Requests: 1, BMC: bmc, Phases: FencePhases{PowerOff: time.Duration(second) * time.Second}}
	}
	tried := fence(40, present)
	tried.Off = false
	for name, c := range map[string]struct {
		history []FenceEntry
		cut     int64
		slowest time.Duration
	}{
		"never":                                {nil, 0, 0},
		"by the present one":                   {[]FenceEntry{fence(20, present), fence(10, present)}, 10, 20 * time.Second},
		"by the former one":                    {[]FenceEntry{fence(20, former)}, 0, 0},
		"by both":                              {[]FenceEntry{fence(20, former), fence(10, present)}, 10, 10 * time.Second},
		"the present one failed":               {[]FenceEntry{fence(20, former), tried}, 0, 0},
		"an older release wrote it":            {[]FenceEntry{fence(20, "")}, 20, 20 * time.Second},
		"an older release, then this one":      {[]FenceEntry{fence(20, ""), fence(10, present)}, 10, 20 * time.Second},
		"back at an older release for a while": {[]FenceEntry{fence(20, former), fence(10, "")}, 10, 20 * time.Second},
	} {
		all := FenceTotals{}
		for _, e := range c.history {
			all.Add(e)
		}
		got, cut := all["cp-2"].At(present), time.Time{}
		if c.cut != 0 {
			cut = time.Unix(c.cut, 0)
		}
		if !got.Cut.Equal(cut) || got.Slowest() != c.slowest {
			t.Errorf("%s: cut at %s, slowest %s", name, got.Cut, got.Slowest())
		}
	}
}
