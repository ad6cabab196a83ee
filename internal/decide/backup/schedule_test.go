package backup

import (
	"strings"
	"testing"
	"time"
)

func schedule(t *testing.T, text, zone string) Schedule {
	t.Helper()
	s, err := ParseSchedule(text, zone, time.LoadLocation)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAScheduleComesAsItsTextSays(t *testing.T) {
	for _, c := range []struct{ text, zone, from, want string }{
		{"0 3 * * *", "", "2026-03-01T03:00:00Z", "2026-03-02T03:00:00Z"},
		{"0 3 * * *", "", "2026-03-01T02:59:59Z", "2026-03-01T03:00:00Z"},
		{"30 */6 * * *", "UTC", "2026-03-01T06:31:00Z", "2026-03-01T12:30:00Z"},
		{"0 1-5/2 * * *", "UTC", "2026-03-01T01:00:00Z", "2026-03-01T03:00:00Z"},
		{"0 22,4 * * *", "UTC", "2026-03-01T05:00:00Z", "2026-03-01T22:00:00Z"},
		{"15 4 * * SUN", "UTC", "2026-03-02T00:00:00Z", "2026-03-08T04:15:00Z"},
		{"15 4 * * 7", "UTC", "2026-03-02T00:00:00Z", "2026-03-08T04:15:00Z"},
		{"0 0 31 * *", "UTC", "2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"},
		{"0 0 29 2 *", "UTC", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 1 JAN *", "UTC", "2026-03-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"0 0 13 * 5", "UTC", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"}, // the 13th, and each Friday
		{"@weekly", "UTC", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"},
		{"@hourly", "UTC", "2026-03-02T00:30:00Z", "2026-03-02T01:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-01-10T12:00:00Z", "2026-01-11T02:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-07-10T12:00:00Z", "2026-07-11T01:00:00Z"},
	} {
		if got := schedule(t, c.text, c.zone).Next(at(t, c.from)); !got.Equal(at(t, c.want)) {
			t.Errorf("%s %s after %s: %s, want %s", c.text, c.zone, c.from, got.UTC(), c.want)
		}
	}
}

func TestADayOnWhichTheClockIsSetHasEachTimeOnce(t *testing.T) {
	for _, text := range []string{"30 2 * * *", "0 2 * * *", "59 23 * * *", "0 0 * * *"} {
		s := schedule(t, text, "Europe/Berlin")
		for _, from := range []string{"2026-03-26T12:00:00Z", "2026-10-22T12:00:00Z"} {
			now, days := at(t, from), 0
			for end := now.AddDate(0, 0, 6); ; days++ {
				next := s.Next(now)
				if next.After(end) {
					break
				}
				if apart := next.Sub(now); days > 0 && (apart < 22*time.Hour || apart > 26*time.Hour) {
					t.Errorf("%s: %s comes %s after %s", text, next, apart, now)
				}
				now = next
			}
			if days != 6 {
				t.Errorf("%s from %s: %d times in six days", text, from, days)
			}
		}
	}
}

func TestTheLastTimeIsTheOneBeforeTheNext(t *testing.T) {
	for _, text := range []string{"17 4 * * *", "0 */2 * * *", "0 0 31 * *", "0 5 * * MON"} {
		s := schedule(t, text, "Europe/Berlin")
		for now := at(t, "2026-01-01T00:07:00Z"); now.Before(at(t, "2026-12-20T00:00:00Z")); now = now.Add(97 * time.Hour) {
			last, next := s.Last(now), s.Next(now)
			if last.After(now) || !next.After(now) || !s.Next(last).Equal(next) || !s.Last(last).Equal(last) {
				t.Fatalf("%s at %s: %s and %s", text, now, last, next)
			}
		}
	}
}

func TestEachMistakeOfAScheduleIsNamedAtOnce(t *testing.T) {
	for _, c := range []struct {
		text, zone string
		want       []string
	}{
		{"daily", "UTC", []string{`the schedule is "daily"`, "@daily"}},
		{"60 24 * * 8", "Mars/Olympus", []string{`minute of the schedule: "60" is no number from 0 to 59`, `hour of the schedule: "24"`, `day of the week of the schedule: "8"`, `time zone is "Mars/Olympus"`}},
		{"0 5-3 * * *", "", []string{`"5-3" ends before it begins`}},
		{"0 */0 * * *", "", []string{"no number of at least 1"}},
		{"0 3 * * *", "Local", []string{`time zone is "Local"`}},
		{"0 0 31 2 *", "", []string{"never comes"}},
		{"*/5 * * * *", "", []string{"comes twice within 5m00s", "an hour at least"}},
		{"0,30 3 * * *", "", []string{"comes twice within 30m00s"}},
	} {
		_, err := ParseSchedule(c.text, c.zone, time.LoadLocation)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", c.text, err, want)
			}
		}
	}
}

func TestThePeriodIsTheLongestGap(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0 3 * * *": 24 * time.Hour, "0 */2 * * *": 2 * time.Hour, "0 3 * * MON-FRI": 72 * time.Hour, "0 8-18 * * *": 14 * time.Hour, "@monthly": 31 * 24 * time.Hour,
	} {
		if got := schedule(t, text, "UTC").Period(at(t, "2026-02-10T09:30:00Z")); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestSitesHaveTheirBackupsSpreadOverTheNight(t *testing.T) {
	seen := map[string]bool{}
	for _, site := range []string{"shop-1", "shop-2", "shop-3", "shop-4", "berlin", "x"} {
		s := DefaultSchedule(site)
		next := s.Next(at(t, "2026-03-01T00:00:00Z"))
		if next.Hour() < 1 || next.Hour() > 5 || s.Period(next) != 24*time.Hour {
			t.Errorf("%s: %s", site, s)
		}
		if s.String() != DefaultSchedule(site).String() {
			t.Errorf("%s is not always the same", site)
		}
		seen[s.String()] = true
	}
	if len(seen) < 5 {
		t.Errorf("of six sites only %d have a time of their own: %v", len(seen), seen)
	}
}

func FuzzSchedule(f *testing.F) {
	for _, seed := range []string{"0 3 * * *", "@daily", "*/7 1-5 1,15 JAN-DEC/2 MON", "0 0 29 2 *", "- - - - -", "0 0 * * 7/9"} {
		f.Add(seed)
	}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(text, "UTC", time.LoadLocation)
		if err != nil {
			return
		}
		next := s.Next(now)
		if next.IsZero() || !next.After(now) || s.Last(next) != next || s.Period(now) < closest {
			t.Errorf("%q: next %s, period %s", text, next, s.Period(now))
		}
	})
}
