package incident

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Merge joins lists of incidents, as two hosts assembled them at different
// times. Those that share a record are one incident: that report stays which
// knows more, under the least of their names, so that a name once told stays.
func Merge(lists ...[]Incident) []Incident {
	all := slices.Concat(lists...)
	same := make([]int, len(all)) // of each, the first that is the same
	owner := map[string]int{}
	for n := range all {
		same[n] = n
		for _, key := range signs(all[n]) {
			if first, known := owner[key]; known {
				unite(same, first, n)
			} else {
				owner[key] = n
			}
		}
	}
	kept := map[int]Incident{}
	for n, i := range all {
		if other, known := kept[root(same, n)]; known {
			i = join(other, i)
		}
		kept[root(same, n)] = i
	}
	return slices.SortedFunc(maps.Values(kept), func(a, b Incident) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})
}

// signs are what one incident has in common with another that is the same.
func signs(i Incident) []string {
	out := append([]string{i.ID}, i.Was...)
	// Trailing may come from a damaged file, or from the other host.
	for _, r := range i.Records[:len(i.Records)-min(max(i.Trailing, 0), len(i.Records))] {
		out = append(out, r.Key())
	}
	return out
}

func root(same []int, n int) int {
	for same[n] != n {
		n = same[n]
	}
	return n
}

func unite(same []int, a, b int) {
	a, b = root(same, a), root(same, b)
	same[max(a, b)] = min(a, b)
}

// join is the better of two reports of one incident, under the lesser name.
func join(a, b Incident) Incident {
	was := append(slices.Clone(a.Was), b.Was...)
	was = append(was, a.ID, b.ID)
	id := min(a.ID, b.ID)
	if knowsMore(a, b) {
		b = a
	}
	slices.Sort(was)
	b.ID, b.Was = id, slices.DeleteFunc(slices.Compact(was), func(w string) bool { return w == id })
	return b
}

// knowsMore reports whether a report is to be kept before another one of the
// same incident.
func knowsMore(a, b Incident) bool {
	switch {
	case len(a.Journals) != len(b.Journals):
		return len(a.Journals) > len(b.Journals)
	case (a.State == Over) != (b.State == Over):
		return a.State == Over
	}
	return len(a.Records) > len(b.Records)
}

// Teller is the host that tells the API of an incident: the one that went on,
// if anything is known from it; else the first by name that did not start anew
// meanwhile; else the first. Each host comes to the same answer.
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

// Event is what the API is told of an incident.
type Event struct {
	// Name is the same whoever tells it, and however often.
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
	// soon is how long an incident may last before the API is told that it does:
	// most are over before that, and are told once.
	soon = 2 * time.Minute
	// hearing is how long the journal of the other host is waited for.
	hearing = 5 * time.Minute
	// late is from when on an incident is not told any more.
	late = 24 * time.Hour
)

// Told is the event of an incident as it is now, false where there is nothing
// to be told.
func Told(i Incident, now time.Time) (Event, bool) {
	if i.State == Over && now.Sub(i.End) < hearing && len(i.Journals) < len(hostsOf(i)) {
		return Event{}, false // the other host has not said what it saw
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

// hostsOf are the hosts that an incident speaks of.
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

// Names are those of all events that may be told of an incident: first of one
// that is over, then of one that is not.
func Names(i Incident) []string {
	over := "holdfast-incident." + strings.ToLower(i.ID)
	return []string{over, over + ".under-way"}
}

// WasTold reports whether an event of an incident was told, under its present
// name or an earlier one.
func WasTold(i Incident, e Event, told map[string]bool) bool {
	for _, id := range append([]string{i.ID}, i.Was...) {
		for _, name := range Names(Incident{ID: id}) {
			if strings.HasSuffix(name, ".under-way") == e.Warning && told[name] {
				return true
			}
		}
	}
	return false
}
