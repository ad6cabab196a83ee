package plans

import (
	"testing"
	"time"
)

// TestTheEndOfAPlanWaitsForTheOtherHostTenMinutesAtMost, and not while the clock is before the last write:
// it would wait as long as the clock was set back.
func TestTheEndOfAPlanWaitsForTheOtherHostTenMinutesAtMost(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]bool{
		0: true, 9 * time.Minute: true, 10 * time.Minute: false, -time.Minute: false, -48 * time.Hour: false,
	} {
		s := Sight{Mine: true, Since: noon, Now: noon.Add(age)}
		if s.awaits() != want {
			t.Errorf("%s after the last write it waits: %t", age, !want)
		}
	}
}
