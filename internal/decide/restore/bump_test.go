package restore

import (
	"testing"
	"time"
)

// docs/facts/loss.md#hard-cases-of-loss, L48: whatever backup a site is restored to, and
// however often, it begins above all that it has served before.
func TestL48EveryRestoreBeginsAboveAllThatWasServed(t *testing.T) {
	type life struct {
		backup   int // which of the backups, one of each life
		writes   int64
		lastsFor time.Duration
	}
	const day = 24 * time.Hour
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, lives := range map[string][]life{
		"the same backup twice":           {{0, 10, day}, {0, 10, day}, {0, 10, day}},
		"an older backup the second time": {{0, 500, 400 * day}, {1, 500, day}, {0, 500, day}, {2, 500, day}, {0, 1, day}},
		"minutes later":                   {{0, 900, 100 * day}, {0, 900, time.Minute}, {0, 900, time.Minute}},
		"years later":                     {{0, 100, 3000 * day}, {1, 999, 3000 * day}, {0, 999, 3000 * day}, {2, 999, 3000 * day}},
	} {
		t.Run(what, func(t *testing.T) {
			now, served, backups := begin, int64(0), []int64{0}
			for i, l := range lives {
				revision := int64(0) // an installation begins at nothing
				if i > 0 {
					from := backups[l.backup]
					revision = from + Bump(from, now)
					if revision <= served {
						t.Fatalf("life %d begins at %d, and %d was served before", i, revision, served)
					}
					if revision >= 1<<53 {
						t.Fatalf("life %d begins at %d, which programs that count with floating point do not hold", i, revision)
					}
				}
				now = now.Add(l.lastsFor)
				wrote := l.writes * int64(l.lastsFor/time.Second)
				backups = append(backups, revision+wrote/2)
				served = revision + wrote
			}
		})
	}
}

func TestL48ARevisionIsRaisedAlsoByAWrongClock(t *testing.T) {
	for what, c := range map[string]struct {
		revision int64
		now      time.Time
	}{
		"the clock is in 1970":          {1_000_000, time.Unix(60, 0)},
		"the clock is before 1970":      {1_000_000, time.Unix(-60, 0)},
		"the site writes without pause": {9_000_000_000_000, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if got := Bump(c.revision, c.now); got != otherwise {
			t.Errorf("%s: %d", what, got)
		}
	}
}
