package incident

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/order"
)

// Reports returns the incidents of the records and of earlier reports, each
// once. Earlier reports may be from any host and any moment; one that was made
// when little was known may cover two incidents. Complete reports stay as they
// are, and the records of earlier reports are used again. A name that was
// published stays.
func Reports(records []Record, before ...[]Incident) []Incident {
	earlier := slices.Concat(before...)
	list := slices.Concat(Assemble(slices.Concat(records, remembered(earlier, records))), earlier)
	slices.SortStableFunc(list, better)
	var m merger
	for _, i := range list {
		m.add(i)
	}
	return m.reports()
}

// remembered returns the records of earlier reports that are no older than the
// oldest record at hand. Older ones cannot be read again, because the states of
// the hosts before them are missing.
func remembered(list []Incident, atHand []Record) []Record {
	if len(atHand) == 0 {
		return nil
	}
	since := slices.MinFunc(atHand, func(a, b Record) int { return a.At.Compare(b.At) }).At
	var out []Record
	for _, i := range list {
		for _, r := range i.Records {
			if !r.At.Before(since) {
				out = append(out, r)
			}
		}
	}
	return out
}

// better sorts the report first that knows more.
func better(a, b Incident) int {
	return cmp.Or(
		order.First(a.Complete, b.Complete), cmp.Compare(len(b.Journals), len(a.Journals)), order.First(a.State == Over, b.State == Over),
		cmp.Compare(len(own(b)), len(own(a))),
	)
}

// own returns the records of an incident without those that came after it was
// over.
func own(i Incident) []Record {
	// Trailing may come from a damaged file, or from the other host.
	return i.Records[:len(i.Records)-min(max(i.Trailing, 0), len(i.Records))]
}

// merger keeps each incident once, in the report that it got first.
type merger struct {
	kept  []Incident
	names []map[string]bool // for each kept report, the names of all reports on the same incident
	owner map[string]int    // index of the kept report, by record key and by name
}

// add keeps a report, or gives its names to the kept report on the same
// incident. If a report covers several kept ones, the first match gets its
// names.
func (m *merger) add(i Incident) {
	signs := []string{i.ID}
	for _, r := range own(i) {
		signs = append(signs, r.Key())
	}
	for _, s := range signs {
		if n, known := m.owner[s]; known {
			m.called(n, append([]string{i.ID}, i.Was...))
			return
		}
	}
	if m.owner == nil {
		m.owner = map[string]int{}
	}
	for _, s := range signs {
		m.owner[s] = len(m.kept)
	}
	m.kept, m.names = append(m.kept, i), append(m.names, map[string]bool{})
	m.called(len(m.kept)-1, i.Was)
}

func (m *merger) called(n int, names []string) {
	for _, name := range names {
		m.names[n][name] = true
	}
}

// reports returns the kept reports, each under the smallest of its names that
// is not the ID of another one.
func (m *merger) reports() []Incident {
	taken := map[string]bool{}
	for _, i := range m.kept {
		taken[i.ID] = true
	}
	for n := range m.kept {
		i := &m.kept[n]
		names := []string{i.ID}
		for _, name := range slices.Sorted(maps.Keys(m.names[n])) {
			if !taken[name] {
				names = append(names, name)
				taken[name] = true
			}
		}
		slices.Sort(names)
		i.ID, i.Was = names[0], names[1:]
		if len(i.Was) == 0 {
			i.Was = nil
		}
	}
	return slices.SortedFunc(slices.Values(m.kept), func(a, b Incident) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})
}

// Teller returns the host that publishes an incident in the API: the one that
// went on, if its records are known; else the first by name that did not boot
// meanwhile; else the first. Every host gets the same answer.
func Teller(i Incident) string {
	if by := i.Failures[len(i.Failures)-1].By; slices.Contains(i.Journals, by) {
		return by
	}
	for _, name := range i.Journals {
		if !slices.ContainsFunc(i.Records, func(r Record) bool { return r.Host == name && r.Kind == Booted }) {
			return name
		}
	}
	return i.Journals[0]
}

// Event is the API event about an incident.
type Event struct {
	// Name is the same whichever host publishes it, and however often.
	Name            string
	Warning         bool
	Reason, Message string
	At              time.Time
}

// Reasons of events.
const (
	ReasonUnderWay = "HoldfastIncidentUnderWay"
	ReasonOver     = "HoldfastIncident"
)

const (
	// soon is how long an incident may last before it is published as under
	// way: most are over before that, and are published once.
	soon = 2 * time.Minute
	// hearing is how long a finished incident waits for the journal of the
	// other host.
	hearing = 5 * time.Minute
	// late is how long after its end an incident is still published.
	late = 24 * time.Hour
)

// Told returns the event for the present state of an incident, false if there
// is nothing to publish.
func Told(i Incident, now time.Time) (Event, bool) {
	if i.State == Over && now.Sub(i.End) < hearing && len(i.Journals) < len(hostsOf(i)) {
		return Event{}, false // the other host has not reported yet
	}
	names := Names(i)
	e := Event{Name: names[0], Reason: ReasonOver, At: i.End, Message: i.Title + ". " + i.summary()}
	switch {
	case i.State == Over && now.Sub(i.End) > late, i.State != Over && now.Sub(i.Start) < soon:
		return Event{}, false
	case i.State != Over:
		e.Name, e.Reason, e.Warning, e.At = names[1], ReasonUnderWay, true, i.Start
	}
	e.Message += " The whole report: holdfast incidents show " + i.ID
	return e, true
}

// hostsOf returns the hosts that an incident mentions.
func hostsOf(i Incident) []string {
	out := slices.Clone(i.Journals)
	for _, r := range i.Records {
		out = append(out, r.Members...)
	}
	for _, f := range i.Failures {
		out = append(out, f.Hosts...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Names returns the names of all events that may be published about an
// incident: first of one that is over, then of one that is not.
func Names(i Incident) []string {
	over := "holdfast-incident." + strings.ToLower(i.ID)
	return []string{over, over + ".under-way"}
}

// WasTold reports whether an event of an incident was published, under its
// present name or an earlier one.
func WasTold(i Incident, e Event, told map[string]bool) bool {
	for _, id := range append([]string{i.ID}, i.Was...) {
		names := Names(Incident{ID: id})
		if e.Warning && told[names[1]] || !e.Warning && told[names[0]] {
			return true
		}
	}
	return false
}
