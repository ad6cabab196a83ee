package fencing

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
)

// The intervals for a BMC that refuses the account. A BMC that boots refuses
// accounts, and knows no systems, for a while. Neither ends a fence, because the
// fence can only ask again. But too many refused attempts lock the account, also
// for the administrator who comes with the right password: iDRACs allow three
// attempts within a minute by default.
const (
	// RefusedOnce is the wait after the first refusal.
	RefusedOnce = 2 * time.Second
	// RefusedAgain is the wait after each later refusal.
	RefusedAgain = 30 * time.Second
)

// pace returns how long to wait before the next reading.
func pace(p Progress, r Reading, usual time.Duration) time.Duration {
	return Pace(r.Reason, p.Refused, usual)
}

// Pace returns how long to wait before a BMC is asked again that could not be read for
// a reason: the usual time, or longer where it refused the account. It has refused
// that so many times.
func Pace(reason bmc.Reason, refused int, usual time.Duration) time.Duration {
	switch {
	case reason != bmc.Credentials:
		return usual
	case refused <= 1:
		return max(usual, RefusedOnce)
	}
	return max(usual, RefusedAgain)
}
