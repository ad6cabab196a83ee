package installation

import (
	"strings"
	"testing"
	"time"
)

// docs/facts/loss.md#hard-cases-of-loss, L56: the clock of a new machine is years behind.
func TestL56AClockBeforeWhatHasHappenedIsBehind(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC) }
	passed := []Moment{{at(1), "the authority of etcd began"}, {at(20), "the backup was taken"}, {at(3), "the authority of the API began"}}
	for what, c := range map[string]struct {
		now  time.Time
		want string
	}{
		"an empty battery":       {time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC), "says 2019-01-01 00:00 UTC, and the backup was taken on 2026-11-20 12:00 UTC"},
		"an hour before":         {at(20).Add(-time.Hour), "the backup was taken"},
		"the very moment":        {at(20), ""},
		"a clock that is right":  {at(25), ""},
		"a clock that is ahead":  {at(20).AddDate(30, 0, 0), ""},
		"another zone, the same": {at(20).In(time.FixedZone("", -8*3600)), ""},
	} {
		err := Clock(c.now, passed)
		if (err != nil) != (c.want != "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "chronyc makestep")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := Clock(time.Time{}, nil); err != nil {
		t.Errorf("nothing is known to have happened: %v", err)
	}
}
