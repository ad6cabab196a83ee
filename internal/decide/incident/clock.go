package incident

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// apart is the difference of two clocks from which on it is corrected. A
// smaller difference is mostly a membership that was noted late (by 1.1 s on a
// busy host that had just booted; lab, 2026-11-21); correcting for that would
// reorder events.
const apart = 2 * time.Second

// boot is one boot of one host.
type boot struct{ host, id string }

// clocks puts the records of several hosts on one clock.
type clocks struct {
	// reference is the host whose clock is used for all.
	reference string
	// base is the start of each boot by its host's clock, as that clock stood
	// at the boot's last record. latest is the uptime at that record. moved is
	// by how much the clock was set during the boot.
	base   map[boot]time.Time
	first  map[boot]time.Time // when the boot's first record was made
	latest map[boot]time.Duration
	moved  map[boot]time.Duration
	// ahead is how far a host's clock is ahead of the reference in a boot.
	// least marks a value that was only inferred: the clock is at least that
	// far behind.
	ahead map[boot]time.Duration
	least map[boot]bool
	// compared is false for a host whose clock could not be compared with the
	// reference.
	compared map[string]bool
}

// read derives the clocks from all records. The reference is the first host by
// name.
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

// noticing is how late a booting host may note a membership that existed before
// its agent started: 1.1 and 1.4 s in the lab. An agent that first speaks later
// than usual after the boot, as one does that a bad release has kept from
// starting, may note a membership that is as old as the boot.
const (
	noticing = 5 * time.Second
	usual    = 2 * time.Minute
)

// met is the time at which a host noted that a membership of several hosts had
// formed.
type met struct {
	at time.Time
	// late is set if this is the first membership that the host noted in this
	// boot: it may have formed a while before. up is for how long the boot lasted, if
	// its beginning is known: without it an earlier note may have been thrown away.
	late bool
	up   time.Duration
}

// lateness is by how much a membership may be noted late.
func (m met) lateness() time.Duration {
	switch {
	case !m.late:
		return 0
	case m.up > usual:
		return m.up
	}
	return noticing
}

// compare finds the differences of the clocks. A membership of Corosync forms
// on both hosts at the same moment and has the same number on both.
func (c *clocks) compare(records []Record) {
	type place struct {
		boot
		ring uint64
	}
	places := map[place]met{}
	byRing := map[uint64]met{}
	noted, booted := map[boot]bool{}, map[boot]bool{}
	for _, r := range records {
		booted[boot{r.Host, r.Boot}] = booted[boot{r.Host, r.Boot}] || r.Kind == Booted
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
		places[key] = met{at: c.own(r), late: late}
		if booted[b] {
			places[key] = met{c.own(r), late, r.Up}
		}
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

// difference returns how far the clock there is ahead of the one here. It is 0
// if it may only mean that one of them noted the membership late.
func difference(there, here met) time.Duration {
	d := there.at.Sub(here.at)
	if d > 0 && d <= there.lateness() || d < 0 && -d <= here.lateness() {
		return 0
	}
	return d
}

// follow moves effects behind their causes: a host that was fenced, and whose
// clock could not be compared, has booted after the fence.
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

// long limits the clock difference that follow assumes.
const long = time.Hour

// begins reports whether a host had an earlier boot.
func (c *clocks) begins(records []Record, b boot) bool {
	return slices.ContainsFunc(records, func(r Record) bool {
		return r.Host == b.host && r.Boot != "" && r.Boot != b.id && c.own(r).Before(c.first[b])
	})
}

// guess handles boots in which a host never met the reference: it takes the
// difference of the host's boot that is nearest in time.
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

// own returns the time of a record by its host's own clock, as that clock was
// set at the end of the boot: most wrong clocks are set right soon after a
// boot.
func (c *clocks) own(r Record) time.Time {
	if r.Up == 0 {
		return r.At
	}
	return c.base[boot{r.Host, r.Boot}].Add(r.Up)
}

// at returns the time of a record by the clock of the reference.
func (c *clocks) at(r Record) time.Time {
	b := boot{r.Host, r.Boot}
	if r.Boot == "" {
		b = c.boots(r)
	}
	return c.own(r).Add(-c.ahead[b])
}

// boots returns the boot of a host in which a time by its clock lies.
func (c *clocks) boots(r Record) boot {
	found := boot{r.Host, ""}
	for _, b := range sortedBoots(c.first) {
		if b.host == r.Host && !c.first[b].After(r.At) && (found.id == "" || c.first[b].After(c.first[found])) {
			found = b
		}
	}
	return found
}

// notes returns remarks on the clocks of these records for the reader.
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
		out = append(out, fmt.Sprintf("the clock of %s was changed by %s after boot; its earlier times are corrected", r.Host, length(d)))
	}
	if !c.compared[r.Host] {
		out = append(out, fmt.Sprintf("the clocks of %s and %s could not be compared: the order of their entries may be wrong", r.Host, c.reference))
	}
	return out
}
