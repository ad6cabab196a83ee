package backup

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// Zones returns the time zone of a name, or an error, as time.LoadLocation does.
type Zones func(name string) (*time.Location, error)

// Schedule has the times at which a site wants backups: those of a cron text on the clock of
// a time zone.
type Schedule struct {
	text string
	zone *time.Location
	// Each set has a bit for every number that fits.
	minutes, hours, days, months, weekdays uint64
}

// macros are the short forms of cron.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@hourly": "0 * * * *",
}

// field is a part of a cron text: its name, its bounds, and names for its numbers.
type field struct {
	name     string
	min, max int
	names    []string
}

var fields = []field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{"day of the week", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// closest is the least time between two times of a schedule. A backup of a big database takes
// minutes, and each control plane has its own part of that time.
const closest = time.Hour

// UTC is the time zone of a schedule that names none.
const UTC = "UTC"

// ParseSchedule reads a schedule. The error names every mistake.
func ParseSchedule(text, zone string, zones Zones) (Schedule, error) {
	if zone == "" {
		zone = UTC
	}
	s := Schedule{text: strings.TrimSpace(text)}
	var wrongZone error
	if s.zone, wrongZone = zones(zone); wrongZone != nil || zone == "Local" {
		wrongZone = fmt.Errorf("the time zone is %q, and not a name such as Europe/Berlin or UTC", zone)
	}
	wrong := s.parse()
	if err := errors.Join(wrong, wrongZone); err != nil {
		return Schedule{}, err
	}
	return s, s.comes()
}

// parse reads the fields.
func (s *Schedule) parse() error {
	text := s.text
	if long, is := macros[strings.ToLower(text)]; is {
		text = long
	}
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return fmt.Errorf("the schedule is %q, and not minute, hour, day of the month, month and day of the week such as %q, or one of @hourly, @daily, @weekly, @monthly, @yearly", s.text, "0 3 * * *")
	}
	var sets [5]uint64
	var mistakes []error
	for i, f := range fields {
		var err error
		if sets[i], err = f.set(parts[i]); err != nil {
			mistakes = append(mistakes, fmt.Errorf("the %s of the schedule: %w", f.name, err))
		}
	}
	sets[4] |= sets[4] >> 7 & 1 // Sunday is 0 and 7
	s.minutes, s.hours, s.days, s.months, s.weekdays = sets[0], sets[1], sets[2], sets[3], sets[4]
	return errors.Join(mistakes...)
}

// set reads a field: a list of *, N or N-M, each optionally with /STEP.
func (f field) set(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		one, err := f.part(part)
		if err != nil {
			return 0, err
		}
		set |= one
	}
	return set, nil
}

func (f field) part(text string) (set uint64, err error) {
	span, step, stepped := strings.Cut(text, "/")
	every := 1
	if stepped {
		if every, err = strconv.Atoi(step); err != nil || every < 1 {
			return 0, fmt.Errorf("%q has the step %q, which is no number of at least 1", text, step)
		}
	}
	from, to := f.min, f.max
	if span != "*" {
		first, last, isRange := strings.Cut(span, "-")
		if from, err = f.number(first); err != nil {
			return 0, err
		}
		switch {
		case isRange:
			if to, err = f.number(last); err != nil {
				return 0, err
			}
		case !stepped:
			to = from
		}
	}
	if from > to {
		return 0, fmt.Errorf("%q ends before it begins", text)
	}
	for n := from; n <= to; n += every {
		set |= 1 << n
	}
	return set, nil
}

func (f field) number(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToUpper(text)); i >= 0 && text != "" {
		return i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is no number from %d to %d", text, f.min, f.max)
	}
	return n, nil
}

// all is the set of a field that allows all its numbers.
func (f field) all() uint64 { return 1<<(f.max+1) - 1<<f.min }

// DefaultSchedule is once a day, between one and six o'clock UTC. The name of the site chooses
// the minute, so that many sites with one target do not all write at once.
func DefaultSchedule(site string) Schedule {
	h := fnv.New32a()
	_, _ = h.Write([]byte(site)) // never fails
	minute := 60 + int(h.Sum32()%300)
	s := Schedule{text: fmt.Sprintf("%d %d * * *", minute%60, minute/60), zone: time.UTC}
	if err := s.parse(); err != nil {
		panic(err) // the text is made above
	}
	return s
}

// String returns the schedule with its zone.
func (s Schedule) String() string {
	if s.zone == nil {
		return ""
	}
	return s.text + " " + s.zone.String()
}

// farthest is the number of days that a search covers: 29 February may be eight years away.
const farthest = 8*366 + 1

// Next returns the first time of the schedule after a moment; zero if there is none.
func (s Schedule) Next(after time.Time) time.Time { return s.search(after, 1) }

// Last returns the last time of the schedule that is not after a moment; zero if there is none.
func (s Schedule) Last(at time.Time) time.Time { return s.search(at, -1) }

// search looks day after day: forward (way 1) for a time after a moment, or backward (way -1)
// for one that is not after it.
func (s Schedule) search(from time.Time, way int) time.Time {
	if s.zone == nil {
		return time.Time{}
	}
	local := from.In(s.zone)
	for day := -1; day <= farthest; day++ { // a change of the clock may move a time over midnight
		var best time.Time
		for _, t := range s.on(local.Year(), local.Month(), local.Day()+way*day) {
			switch {
			case way > 0 && t.After(from) && (best.IsZero() || t.Before(best)):
				best = t
			case way < 0 && !t.After(from) && t.After(best):
				best = t
			}
		}
		if !best.IsZero() {
			return best
		}
	}
	return time.Time{}
}

// on returns the times of a day. As in cron, a day fits if either field about days names it,
// unless one of them allows all days. A time that the clock skips is moved by the change
// of the clock.
func (s Schedule) on(year int, month time.Month, day int) []time.Time {
	date := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	inMonth, inWeek := s.days>>date.Day()&1 == 1, s.weekdays>>int(date.Weekday())&1 == 1
	fits := inMonth && inWeek
	if s.days != fields[2].all() && s.weekdays|1<<7 != fields[4].all() {
		fits = inMonth || inWeek
	}
	if !fits || s.months>>int(date.Month())&1 == 0 {
		return nil
	}
	out := make([]time.Time, 0, bits.OnesCount64(s.hours)*bits.OnesCount64(s.minutes))
	for h := range 24 {
		for m := range 60 {
			if s.hours>>h&1 == 1 && s.minutes>>m&1 == 1 {
				out = append(out, time.Date(date.Year(), date.Month(), date.Day(), h, m, 0, 0, s.zone))
			}
		}
	}
	return out
}

// someDay is a moment from which the gaps of a schedule are measured.
var someDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// comes returns an error if a schedule never comes, or comes too often. A change of the zone's
// clock does not count.
func (s Schedule) comes() error {
	s.zone = time.UTC
	at := s.Next(someDay)
	if at.IsZero() {
		return fmt.Errorf("the schedule %q never comes", s.text)
	}
	for range 100 {
		next := s.Next(at)
		if apart := next.Sub(at); apart < closest {
			return fmt.Errorf("the schedule %q comes twice within %s: an hour at least must lie between two backups", s.text, page.Duration(apart))
		}
		at = next
	}
	return nil
}

// Period returns the longest time between two times of the schedule in the time after a moment.
// The newest backup reaches this age while all is well.
func (s Schedule) Period(from time.Time) time.Duration {
	const most = 200
	var longest time.Duration
	at := s.Next(from)
	for i := 0; i < most && !at.IsZero(); i++ {
		next := s.Next(at)
		longest = max(longest, next.Sub(at))
		if next.Sub(from) > 32*24*time.Hour && i > 0 {
			break
		}
		at = next
	}
	return longest
}
