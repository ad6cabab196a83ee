package window_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/holdfast/holdfast/internal/decide/window"
)

// TestWhetherAPoolIsOpen has weekdays, midnight, the nights in which clocks change, and
// clocks that are wrong. 2026-11-23 is a Monday; Berlin changes its clocks on 2026-03-29
// at 02:00 and on 2026-10-25 at 03:00.
func TestWhetherAPoolIsOpen(t *testing.T) {
	const opens = "its maintenance window opens at "
	for _, c := range []struct{ sentence, windows, now, want string }{
		{"no windows", " ", "2026-11-23T12:00:00Z", ""},
		{"before it", "Mon 13:00 1h UTC", "2026-11-23T12:59:59Z", opens + "2026-11-23T13:00:00Z"},
		{"its first moment", "Mon 13:00 1h UTC", "2026-11-23T13:00:00Z", ""},
		{"its last moment", "Mon 13:00 1h UTC", "2026-11-23T13:59:59Z", ""},
		{"its end", "Mon 13:00 1h UTC", "2026-11-23T14:00:00Z", opens + "2026-11-30T13:00:00Z"},
		{"another day", "Tue,Thu 13:00 1h UTC", "2026-11-25T13:00:00Z", opens + "2026-11-26T13:00:00Z"},
		{"a range of days over the end of the week", "Fri-Mon 13:00 1h UTC", "2026-11-22T13:30:00Z", ""},
		{"each day", "Daily 13:00 1h UTC", "2026-11-25T13:30:00Z", ""},
		{"over midnight", "Sun 23:00 3h UTC", "2026-11-23T01:59:59Z", ""},
		{"over midnight, and over", "Sun 23:00 3h UTC", "2026-11-23T02:00:00Z", opens + "2026-11-29T23:00:00Z"},
		{"a whole day", "Sun 12:00 24h UTC", "2026-11-23T11:59:59Z", ""},
		{"the day is that of the zone", "Mon 01:00 1h Asia/Tokyo", "2026-11-22T16:30:00Z", ""},
		{"a zone far from others", "Sun 23:30 1h Pacific/Kiritimati", "2026-11-22T09:45:00Z", ""},
		{"the first of several", "Sat 02:00 1h UTC; Tue 22:00 1h Europe/Berlin", "2026-11-23T12:00:00Z", opens + "2026-11-24T22:00:00+01:00"},
		{"one of several is open", "Sat 02:00 1h UTC; Mon 11:00 2h UTC", "2026-11-23T12:00:00Z", ""},
		{"the year ends", "Daily 01:00 1h UTC", "2026-12-31T12:00:00Z", opens + "2027-01-01T01:00:00Z"},

		{"the clock leaves its start out", "Sun 02:30 1h Europe/Berlin", "2026-03-29T01:29:59Z", opens + "2026-03-29T03:30:00+02:00"},
		{"the clock left its start out", "Sun 02:30 1h Europe/Berlin", "2026-03-29T01:30:00Z", ""},
		{"it is as long as any other", "Sun 01:30 1h Europe/Berlin", "2026-03-29T01:29:59Z", ""},
		{"and not longer", "Sun 01:30 1h Europe/Berlin", "2026-03-29T01:30:00Z", opens + "2026-04-05T01:30:00+02:00"},
		{"after the clock went forward", "Sun 12:00 1h Europe/Berlin", "2026-03-29T10:00:00Z", ""},
		{"before the clock goes forward", "Sat 12:00 1h Europe/Berlin", "2026-03-28T10:59:59Z", opens + "2026-03-28T12:00:00+01:00"},
		{"the clock shows its start for the first time", "Sun 02:30 30m Europe/Berlin", "2026-10-25T00:30:00Z", ""},
		{"the clock shows its start for the second time", "Sun 02:30 30m Europe/Berlin", "2026-10-25T01:30:00Z", opens + "2026-11-01T02:30:00+01:00"},
		{"it lasts over the hour that is there twice", "Sun 01:30 2h Europe/Berlin", "2026-10-25T01:29:59Z", ""},
		{"after the clock went back", "Sun 12:00 1h Europe/Berlin", "2026-10-25T11:00:00Z", ""},
		{"a zone that leaves midnight out", "Sun 00:00 1h America/Santiago", "2026-09-06T03:59:59Z", opens + "2026-09-06T01:00:00-03:00"},

		{"a clock without a battery", "Sun 02:00 1h UTC", "1970-01-01T00:00:00Z", opens + "1970-01-04T02:00:00Z"},
		{"a clock far ahead", "Sun 02:00 1h UTC", "2099-12-31T23:00:00Z", opens + "2100-01-03T02:00:00Z"},
		{"a mistake", "Mon 13:00 1h UTC; Mon 25:00 1h UTC", "2026-11-23T13:30:00Z", `it has no maintenance window: holdfast.io/maintenance-window: "Mon 25:00 1h UTC": the start is "25:00", and not a time such as 22:00`},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := window.Closed(c.windows, now, time.LoadLocation); got != c.want {
			t.Errorf("%s: %q, want %q", c.sentence, got, c.want)
		}
	}
}

func TestAllMistakesOfAWindowAreNamed(t *testing.T) {
	_, err := window.Parse("Mo-Fr 7 1s Berlin; Mon 02:00; Mon 02:00 1h Local; Mon 02:00 25h UTC; Tue-, 02:00 1h UTC", time.LoadLocation)
	if err == nil {
		t.Fatal("no mistake")
	}
	for _, want := range []string{
		`the days are "Mo-Fr"`, `the start is "7"`, `the length is "1s"`, `the time zone is "Berlin"`, `"Mon 02:00": a window has days`, `the time zone is "Local"`, `the length is "25h"`, `the days are "Tue-,"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it lacks %s:\n%v", want, err)
		}
	}
}

// TestAWindowIsOpenForItsLengthOncePerDay walks over a year of a zone in steps of
// a quarter of an hour, whatever its clocks do.
func TestAWindowIsOpenForItsLengthOncePerDay(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"} {
		for _, start := range []string{"00:00", "02:30"} {
			windows, err := window.Parse("Daily "+start+" 1h "+zone, time.LoadLocation)
			if err != nil {
				t.Fatal(err)
			}
			in := windows[0].Zone
			opened, looks := 0, 0
			was := true
			for now := time.Date(2026, 1, 1, 12, 0, 0, 0, in); now.Before(time.Date(2027, 1, 1, 12, 0, 0, 0, in)); now = now.Add(15 * time.Minute) {
				open, next := window.Next(windows, now)
				if open {
					looks++
				}
				if open && !was {
					opened++
				}
				if was = open; !open && (!next.After(now) || next.Sub(now) > 25*time.Hour) {
					t.Fatalf("%s in %s: at %s it opens at %s", start, zone, now, next)
				}
			}
			if opened != 365 || looks != 365*4 {
				t.Errorf("%s in %s: it opened %d times, for %d quarters of an hour", start, zone, opened, looks)
			}
		}
	}
}
