package backup

import (
	"slices"
	"time"
)

// Policy has the rules for the backups that a host keeps.
type Policy struct {
	// Host is the host whose backups may go. Backups of other hosts stay.
	Host string
	// Keep is the number of good backups of the schedule that stay, and also that of other
	// good ones: a person who takes ten in an hour does not lose those of the last week.
	Keep int
	// Targets are the names of the targets of the site. The newest good backup that has a copy at
	// one of them stays, or the target would have none if it takes no new ones.
	Targets []string
	// Period is the longest time between two times of the schedule.
	Period time.Duration
	Now    time.Time
}

// Retained says which backups may go.
type Retained struct {
	// Go lists their ids, the oldest first.
	Go []string
	// Kept says why nothing may go although some are not wanted any more; empty otherwise.
	Kept string
}

// Retention decides which backups of a catalogue may go. A good one goes if Keep newer good
// ones of its kind stay; the kinds are those of the schedule and all others, and those that a clock
// that was ahead has made, which would push out each new one. A bad one goes if
// there is a newer good one. The newest good one with a copy at a target stays, too. Nothing goes
// while the newest good one is older than two periods: if no new ones are made, the old ones are
// the last.
func Retention(entries []Entry, p Policy) Retained {
	own := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Host != p.Host || !ValidID(e.ID) })
	slices.SortStableFunc(own, func(a, b Entry) int { return b.Taken.Compare(a.Taken) })
	newest := slices.IndexFunc(own, func(e Entry) bool { return e.Good && !Ahead(e.Taken, p.Now) })
	if newest < 0 {
		return Retained{}
	}
	var out Retained
	last := lastCopies(own, p.Targets, p.Now)
	type kind struct{ scheduled, ahead bool }
	kept := map[kind]int{}
	for i, e := range own {
		is := kind{e.Reason == BySchedule, Ahead(e.Taken, p.Now)}
		switch {
		case !e.Good && i > newest:
			out.Go = append(out.Go, e.ID)
		case e.Good && kept[is] >= max(p.Keep, 1):
			if !last[e.ID] {
				out.Go = append(out.Go, e.ID)
			}
		case e.Good:
			kept[is]++
		}
	}
	slices.Reverse(out.Go)
	if age := p.Now.Sub(own[newest].Taken); len(out.Go) > 0 && p.Period > 0 && age > 2*p.Period {
		return Retained{Kept: "the newest good backup is older than two periods of the schedule: nothing is removed until there is a new one"}
	}
	return out
}

// lastCopies returns the ids of the newest good backups that have a copy at a target. One of a clock
// that was ahead is it only where there is no other. The entries are sorted, the newest first.
func lastCopies(own []Entry, targets []string, now time.Time) map[string]bool {
	out := map[string]bool{}
	for _, name := range targets {
		i := slices.IndexFunc(own, func(e Entry) bool { return e.Good && e.Has(name) && !Ahead(e.Taken, now) })
		if i < 0 {
			i = slices.IndexFunc(own, func(e Entry) bool { return e.Good && e.Has(name) })
		}
		if i >= 0 {
			out[own[i].ID] = true
		}
	}
	return out
}
