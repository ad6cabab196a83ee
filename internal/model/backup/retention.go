package backup

import (
	"slices"
	"time"
)

// Policy says what a host keeps.
type Policy struct {
	// Host is whose backups these are. Those of others stay.
	Host string
	// Keep is how many good backups of the schedule stay, and as many others: somebody
	// who takes ten in an hour does not lose those of the last week.
	Keep int
	// Period is the longest time between two times of the schedule.
	Period time.Duration
	Now    time.Time
}

// Retained is which backups may go.
type Retained struct {
	// Go lists their ids, the oldest first.
	Go []string
	// Kept says why nothing may go although there are more than wanted; empty otherwise.
	Kept string
}

// Retention says which backups of a catalogue may go. What is not in the list is not
// touched. Good ones go only while more than Keep others of their kind stay, and while the
// newest good one is young: if no new ones are made, the old ones are the last. A bad one
// goes once there is a good one that is newer.
func Retention(entries []Entry, p Policy) Retained {
	own := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Host != p.Host || !ValidID(e.ID) })
	slices.SortStableFunc(own, func(a, b Entry) int { return b.Taken.Compare(a.Taken) })
	newest := slices.IndexFunc(own, func(e Entry) bool { return e.Good })
	if newest < 0 {
		return Retained{}
	}
	var out Retained
	kept := map[bool]int{} // by whether it is of the schedule
	for i, e := range own {
		scheduled := e.Reason == BySchedule
		switch {
		case !e.Good && i > newest:
			out.Go = append(out.Go, e.ID)
		case e.Good && kept[scheduled] >= max(p.Keep, 1):
			out.Go = append(out.Go, e.ID)
		case e.Good:
			kept[scheduled]++
		}
	}
	slices.Reverse(out.Go)
	if age := p.Now.Sub(own[newest].Taken); len(out.Go) > 0 && p.Period > 0 && age > 2*p.Period {
		return Retained{Kept: "the newest good backup is older than two periods of the schedule: nothing is removed until there is a new one"}
	}
	return out
}
