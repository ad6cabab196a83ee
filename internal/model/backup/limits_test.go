package backup

import (
	"testing"
	"time"
)

// TestALargeBackupHasLongerForATarget: an hour at least, and what the request allows at most.
func TestALargeBackupHasLongerForATarget(t *testing.T) {
	for _, c := range []struct {
		size  int64
		limit Limits
		want  time.Duration
	}{
		{0, Limits{Most: 12 * time.Hour}, time.Hour},
		{100 << 20, Limits{Most: 12 * time.Hour}, time.Hour},
		{1 << 30, Limits{Most: 12 * time.Hour}, 16384 * time.Second},
		{8 << 30, Limits{Most: 12 * time.Hour}, 12 * time.Hour},
		{1 << 50, Limits{Most: 12 * time.Hour}, 12 * time.Hour},
		{8 << 30, Limits{}, time.Hour}, // an agent of before
		{8 << 30, Limits{Most: time.Minute}, time.Hour},
		{8 << 30, Limits{Send: time.Minute, Most: 2 * time.Minute}, 2 * time.Minute},
	} {
		if got := c.limit.Complete().ToSend(c.size); got != c.want {
			t.Errorf("%d bytes, %+v: %s, want %s", c.size, c.limit, got, c.want)
		}
	}
}
