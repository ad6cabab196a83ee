// Package window decides when a pool is open for turns: the maintenance windows of a
// site.
//
// A window says when a turn may begin. What has begun ends, also after the window.
package window

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotation is that of a MachineConfigPool with its windows, separated by semicolons:
//
//	Mon-Fri 22:00 4h Europe/Berlin; Sun 02:00 6h UTC
//
// days, start on the clock of a time zone, length. People write it.
const Annotation = state.AnnotationDomain + "maintenance-window"

// The bounds of a window's length. A shorter one could pass between two looks of the
// operator.
const (
	Shortest = 15 * time.Minute
	Longest  = 24 * time.Hour
)

// Window is one window.
type Window struct {
	// Days has the days of the week on which it starts.
	Days [7]bool
	// Start is the time on the clock in Zone, since midnight.
	Start  time.Duration
	Length time.Duration
	Zone   *time.Location
}

// Zones returns the time zone of a name, as time.LoadLocation does.
type Zones func(name string) (*time.Location, error)

// Parse reads the windows of a pool. An error names each mistake.
func Parse(text string, zones Zones) ([]Window, error) {
	var out []Window
	var mistakes []error
	for part := range strings.SplitSeq(text, ";") {
		w, err := parse(strings.Fields(part), zones)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%q: %w", strings.TrimSpace(part), err))
		}
		out = append(out, w)
	}
	return out, errors.Join(mistakes...)
}

const form = "a window has days, a start, a length and a time zone, such as Mon-Fri 22:00 4h Europe/Berlin"

func parse(words []string, zones Zones) (w Window, err error) {
	if len(words) != 4 {
		return w, errors.New(form)
	}
	var days, start, length, zone error
	w.Days, days = parseDays(words[0])
	at, start := time.Parse("15:04", words[1])
	w.Start = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	if start != nil {
		start = fmt.Errorf("the start is %q, and not a time such as 22:00", words[1])
	}
	w.Length, length = time.ParseDuration(words[2])
	if length != nil || w.Length < Shortest || w.Length > Longest {
		length = fmt.Errorf("the length is %q, and not one from %s to %s, such as 4h or 90m", words[2], "15m", "24h")
	}
	w.Zone, zone = zones(words[3])
	if zone != nil || words[3] == "Local" {
		zone = fmt.Errorf("the time zone is %q, and not a name such as Europe/Berlin or UTC", words[3])
	}
	return w, errors.Join(days, start, length, zone)
}

var names = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// parseDays reads a list of days and ranges of them: Mon-Fri,Sun or Daily.
func parseDays(text string) (days [7]bool, err error) {
	if text == "Daily" {
		return [7]bool{true, true, true, true, true, true, true}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(names, first), slices.Index(names, last)
		if from < 0 || to < 0 {
			return days, fmt.Errorf("the days are %q, and not Daily or a list of %s and ranges such as Mon-Fri", text, strings.Join(names, ", "))
		}
		for day := from; ; day = (day + 1) % 7 {
			days[day] = true
			if day == to {
				break
			}
		}
	}
	return days, nil
}

// Closed says why no turn begins in a pool now; empty if one may. A pool without
// windows is always open, and one with a mistake in them never.
func Closed(text string, now time.Time, zones Zones) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	windows, err := Parse(text, zones)
	if err != nil {
		return "it has no maintenance window: " + Annotation + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	open, next := Next(windows, now)
	if open {
		return ""
	}
	return "its maintenance window opens at " + next.Format(time.RFC3339)
}

// Next reports whether one of some windows is open, and when the first of them opens
// next if none is.
func Next(windows []Window, now time.Time) (open bool, at time.Time) {
	for _, w := range windows {
		today := now.In(w.Zone)
		// The longest one may have begun the day before, and each begins within a week.
		for day := -2; day <= 8; day++ {
			start, is := w.on(today.Year(), today.Month(), today.Day()+day)
			switch {
			case !is:
			case !now.Before(start) && now.Before(start.Add(w.Length)):
				return true, time.Time{}
			case now.Before(start) && (at.IsZero() || start.Before(at)):
				at = start
			}
		}
	}
	return false, at
}

// on returns when a window starts on a day, if it does. A time that the clock shows
// twice is the first of them. One that it leaves out is as long after midnight as if it
// had not been changed.
func (w Window) on(year int, month time.Month, day int) (start time.Time, is bool) {
	clock := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Add(w.Start)
	if !w.Days[clock.Weekday()] {
		return time.Time{}, false
	}
	_, before := clock.Add(-24 * time.Hour).In(w.Zone).Zone()
	_, after := clock.Add(24 * time.Hour).In(w.Zone).Zone()
	start = clock.Add(-time.Duration(before) * time.Second).In(w.Zone)
	if later := clock.Add(-time.Duration(after) * time.Second).In(w.Zone); !shows(start, clock) && shows(later, clock) {
		start = later
	}
	return start, true
}

// shows reports whether the clock of a zone shows at a moment what another one does.
func shows(t, clock time.Time) bool {
	return t.Day() == clock.Day() && t.Hour() == clock.Hour() && t.Minute() == clock.Minute()
}
