package incident

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// apart is the difference of two clocks from which on it is corrected. A smaller
// one is mostly a membership that was noted late (1.1 s by a busy host that had just
// booted; lab, 2026-11-21), and to correct for that would change the order of
// events.
const apart = 2 * time.Second

// boot is one boot of one host.
type boot struct{ host, id string }

// clocks put the records of several hosts on one clock.
type clocks struct {
	// reference is the host whose clock it is.
	reference string
	// base is when each boot began by its host's clock as that last was, at
	// latest; moved is by how much the clock was set since then.
	base   map[boot]time.Time
	first  map[boot]time.Time // when something was first noted in it
	latest map[boot]time.Duration
	moved  map[boot]time.Duration
	// ahead is how far the clock of a host is before the reference in a boot;
	// least marks where it is only known to be no more than that.
	ahead map[boot]time.Duration
	least map[boot]bool
	// compared is false for a host of which nothing tells how its clock goes.
	compared map[string]bool
}

// read looks at all records. The reference is the first host by name.
func read(records []Record) *clocks {
	c := &clocks{
		base: map[boot]time.Time{}, first: map[boot]time.Time{}, latest: map[boot]time.Duration{}, moved: map[boot]time.Duration{},
		ahead: map[boot]time.Duration{}, least: map[boot]bool{}, compared: map[string]bool{},
	}
	for _, r := range records {
		if c.reference == "" || r.Host < c.reference {
			c.reference = r.Host
		}
		if r.Up == 0 {
			continue
		}
		if b := (boot{r.Host, r.Boot}); r.Up >= c.latest[b] {
			c.latest[b], c.base[b] = r.Up, r.At.Add(-r.Up)
		}
	}
	for _, r := range records {
		b := boot{r.Host, r.Boot}
		if r.Up == 0 {
			continue
		}
		c.moved[b] = max(c.moved[b], c.base[b].Sub(r.At.Add(-r.Up)).Abs())
		if first, known := c.first[b]; !known || c.own(r).Before(first) {
			c.first[b] = c.own(r)
		}
	}
	c.compare(records)
	return c
}

// noticing is how late a host that boots may note a membership that was there
// before its agent: 1.1 and 1.4 s in the lab.
const noticing = 5 * time.Second

// met is when a host noted that a membership of several had come about.
type met struct {
	at time.Time
	// late is set where it noted none before in this boot: it may have been so
	// for a while.
	late bool
}

// compare finds how far clocks are apart. A membership of Corosync comes about
// on both hosts at the same moment, and has the same number on both.
func (c *clocks) compare(records []Record) {
	type place struct {
		boot
		ring uint64
	}
	places := map[place]met{}
	byRing := map[uint64]met{}
	noted := map[boot]bool{}
	for _, r := range records {
		if r.Kind != Members || r.Ring == 0 {
			continue
		}
		b := boot{r.Host, r.Boot}
		late := !noted[b]
		noted[b] = true
		key := place{b, r.Ring}
		if _, known := places[key]; known || len(r.Members) < 2 {
			continue
		}
		places[key] = met{c.own(r), late}
		if r.Host == c.reference {
			byRing[r.Ring] = places[key]
		}
	}
	differences := map[boot][]time.Duration{}
	for key, there := range places {
		if here, both := byRing[key.ring]; both && key.host != c.reference {
			differences[key.boot] = append(differences[key.boot], difference(there, here))
		}
	}
	for b, list := range differences {
		slices.Sort(list)
		c.ahead[b], c.compared[b.host] = list[len(list)/2], true
		if c.ahead[b].Abs() < apart {
			c.ahead[b] = 0
		}
	}
	c.compared[c.reference] = true
	c.guess()
	c.follow(records)
}

// difference is how far the clock there is ahead of the one here. What one of
// them may have noted late is no difference.
func difference(there, here met) time.Duration {
	d := there.at.Sub(here.at)
	if there.late && d > 0 && d <= noticing || here.late && d < 0 && d >= -noticing {
		return 0
	}
	return d
}

// follow moves what came about by something else behind it: a host that was
// switched off has booted after that.
func (c *clocks) follow(records []Record) {
	for _, fence := range records {
		if fence.Kind != Fenced || !fence.OK || c.compared[fence.Target] {
			continue
		}
		off := c.at(fence)
		for _, r := range records {
			b := boot{r.Host, r.Boot}
			if d := off.Sub(c.at(r)); r.Kind == Booted && r.Host == fence.Target && c.begins(records, b) && d > 0 && d < long {
				c.ahead[b], c.least[b] = -d-time.Millisecond, true
			}
		}
	}
}

// long is more than clocks that are worth a thought are apart.
const long = time.Hour

// begins reports whether a host had been up before a boot.
func (c *clocks) begins(records []Record, b boot) bool {
	return slices.ContainsFunc(records, func(r Record) bool {
		return r.Host == b.host && r.Boot != "" && r.Boot != b.id && c.own(r).Before(c.first[b])
	})
}

// guess takes, for a boot in which a host has not met the reference, what is
// known of its boot next to that.
func (c *clocks) guess() {
	met := sortedBoots(c.ahead)
	for _, b := range sortedBoots(c.first) {
		if slices.Contains(met, b) || b.host == c.reference {
			continue
		}
		best := time.Duration(-1)
		for _, other := range met {
			if d := c.first[other].Sub(c.first[b]).Abs(); other.host == b.host && (best < 0 || d < best) {
				best, c.ahead[b] = d, c.ahead[other]
			}
		}
	}
}

func sortedBoots[T any](m map[boot]T) []boot {
	return slices.SortedFunc(maps.Keys(m), func(a, b boot) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.id, b.id))
	})
}

// own is the time of a record by its host's own clock, as that was at the end
// of the boot: most clocks that are wrong are set soon after a boot.
func (c *clocks) own(r Record) time.Time {
	if r.Up == 0 {
		return r.At
	}
	return c.base[boot{r.Host, r.Boot}].Add(r.Up)
}

// at is the time of a record by the clock of the reference.
func (c *clocks) at(r Record) time.Time {
	b := boot{r.Host, r.Boot}
	if r.Boot == "" {
		b = c.boots(r)
	}
	return c.own(r).Add(-c.ahead[b])
}

// boots is the boot of a host in which a time by its clock lies.
func (c *clocks) boots(r Record) boot {
	found := boot{r.Host, ""}
	for _, b := range sortedBoots(c.first) {
		if b.host == r.Host && !c.first[b].After(r.At) && (found.id == "" || c.first[b].After(c.first[found])) {
			found = b
		}
	}
	return found
}

// notes says what the clocks of these records were like.
func (c *clocks) notes(records []Record) []string {
	var out []string
	for _, r := range records {
		for _, text := range c.note(r) {
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

func (c *clocks) note(r Record) []string {
	var out []string
	b := boot{r.Host, r.Boot}
	if d := c.ahead[b]; d.Abs() >= apart {
		way := "ahead of"
		if d < 0 {
			way = "behind"
		}
		if c.least[b] {
			way = "or more " + way
		}
		out = append(out, fmt.Sprintf("the clock of %s was %s %s that of %s; all times here are by the clock of %s", r.Host, length(d.Abs()), way, c.reference, c.reference))
	}
	if d := c.moved[b]; r.Up > 0 && d >= apart {
		out = append(out, fmt.Sprintf("the clock of %s was set by %s after it had started; its times of before are corrected", r.Host, length(d)))
	}
	if !c.compared[r.Host] {
		out = append(out, fmt.Sprintf("nothing tells how far the clocks of %s and %s are apart: their times may not fit together", r.Host, c.reference))
	}
	return out
}
