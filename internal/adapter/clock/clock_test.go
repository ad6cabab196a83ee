package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheLargerEstimateOfAnOffsetCounts(t *testing.T) {
	for _, c := range []struct {
		of   unix.Timex
		want time.Duration
	}{
		{unix.Timex{Offset: -2_000_000, Esterror: 500, Status: unix.STA_NANO}, 2 * time.Millisecond},
		{unix.Timex{Offset: 2000}, 2 * time.Millisecond},
		{unix.Timex{Offset: 1, Esterror: 7000}, 7 * time.Millisecond},
	} {
		if got := offset(c.of); got != c.want {
			t.Errorf("%+v: %s, want %s", c.of, got, c.want)
		}
	}
}
