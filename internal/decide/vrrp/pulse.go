package vrrp

import "time"

// The pauses between two readings of a daemon, and for how many readings in a row
// it may not have moved. A holder wakes for each advert that it sends, every 200 ms:
// one that has not moved for three readings is silent, and the others take its
// VIPs. One that holds nothing may have nothing to do, so it is poked first.
const (
	PulseHolder  = 200 * time.Millisecond
	PulseOther   = time.Second
	holderMisses = 3
	pokeAfter    = 5
	otherMisses  = pokeAfter + 3
)

// Pulse holds the last reading of a daemon: how often it has gone to sleep of its
// own will. A daemon that is stopped, deadlocked or in a loop does not. Unlike
// listening to its adverts or dumping its state, this costs one small read.
type Pulse struct {
	Sleeps uint64
	At     time.Time
	// Misses counts the readings in a row that found no change.
	Misses int
	// Wanting is the time since when each reading found that it wants to run and
	// does not.
	Wanting time.Time
}

// wanting is how long a daemon may want to run before it is taken to be in a loop.
// On a host without a processor to spare (a load of 90 on two was seen, without
// real-time scheduling) a daemon that wants to run is in no loop; to end it would
// help nobody.
const wanting = 15 * time.Second

// Want takes in a reading of a daemon that wants to run: it waits for a processor,
// or for a disk. It returns false once that has lasted too long.
func (p Pulse) Want(now time.Time) (Pulse, bool) {
	if p.Wanting.IsZero() {
		p.Wanting = now
	}
	if now.Sub(p.Wanting) > wanting {
		return p, false
	}
	return Pulse{Sleeps: p.Sleeps, At: now, Wanting: p.Wanting}, true
}

// Beat is the result of a reading.
type Beat int

// The beats.
const (
	Alive Beat = iota
	// Poke asks for something that a live daemon wakes for.
	Poke
	// Hung: it neither sends nor receives.
	Hung
)

// Look takes in a reading of the daemon. A late reading says more about the reader,
// as on a host that was paused, so the count begins anew.
func (p Pulse) Look(sleeps uint64, holder bool, now time.Time) (Pulse, Beat) {
	next := Pulse{Sleeps: sleeps, At: now, Wanting: p.Wanting}
	if sleeps != p.Sleeps {
		next.Wanting = time.Time{}
	}
	if p.At.IsZero() || sleeps != p.Sleeps || now.Sub(p.At) > 2*Every(holder) {
		return next, Alive
	}
	next.Misses = p.Misses + 1
	switch {
	case holder && next.Misses >= holderMisses, next.Misses >= otherMisses:
		return next, Hung
	case !holder && next.Misses == pokeAfter:
		return next, Poke
	}
	return next, Alive
}

// Every returns the pause between two readings.
func Every(holder bool) time.Duration {
	if holder {
		return PulseHolder
	}
	return PulseOther
}
