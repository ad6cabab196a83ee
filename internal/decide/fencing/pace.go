package fencing

import "time"

// A BMC that boots refuses accounts, and knows no systems, for a while: neither
// ends a fence, which has nothing better to do than to ask again. But who is
// refused too often is locked out, and so is the person who comes with the right
// password: three attempts within a minute are what iDRACs bear with by default.
const (
	// RefusedOnce is how soon a BMC is asked again that refused the account once.
	RefusedOnce = 2 * time.Second
	// RefusedAgain is how soon where it did so before.
	RefusedAgain = 30 * time.Second
)

// pace is how long to wait before the next reading: as long as usual, longer
// where the account was refused.
func pace(p Progress, r Reading, usual time.Duration) time.Duration {
	switch {
	case r.Reason != "credentials":
		return usual
	case p.Refused <= 1:
		return RefusedOnce
	}
	return RefusedAgain
}
