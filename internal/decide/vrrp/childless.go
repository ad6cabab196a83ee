package vrrp

import "time"

// Childless is a parent of keepalived that was seen without the process that speaks VRRP. Its zero
// value stands for none.
type Childless struct {
	parent int
	since  time.Time
}

// Look adds a look at a parent that has no such process, by its pid; 0 if no parent runs. end is true
// once the same parent has had none for limit: it does not start it any more. A parent that has just
// started has the whole limit, however long ago the last process ended: on a busy host its pod
// comes back later than that, and its file of a pid is empty for a moment before it is written.
func (c Childless) Look(parent int, now time.Time, limit time.Duration) (next Childless, end bool) {
	switch {
	case parent == 0:
		return Childless{}, false
	case parent != c.parent || now.Before(c.since):
		return Childless{parent, now}, false
	}
	return c, now.Sub(c.since) >= limit
}
