package installation

import (
	"fmt"
	"time"
)

// Moment is a time that has passed for certain, and what happened then. A zero time is unknown.
type Moment struct {
	At   time.Time
	What string
}

// Clock returns an error if a clock is earlier than a moment that has passed: then nothing that
// the site has signed counts on this machine, and what the machine signs begins in the past.
func Clock(now time.Time, passed []Moment) error {
	var last Moment
	for _, m := range passed {
		if m.At.After(last.At) {
			last = m
		}
	}
	if !last.At.After(now) {
		return nil
	}
	const form = "2006-01-02 15:04 UTC"
	return fmt.Errorf("the clock of this machine says %s, and %s on %s: the clock is behind. Set it (chronyc makestep, or timedatectl set-time 'YYYY-MM-DD HH:MM:SS'; "+
		"then hwclock --systohc); the installation goes on by itself", now.UTC().Format(form), last.What, last.At.UTC().Format(form))
}
