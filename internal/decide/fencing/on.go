package fencing

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The power states of a host that has power.
const (
	powerOn    = "On"
	poweringOn = "PoweringOn"
)

// Times for a host that gets its power back.
const (
	// OnPollInterval is how often its BMC is read.
	OnPollInterval = 500 * time.Millisecond
	// OnRefusedInterval is how soon a BMC that refused is asked again: some refuse
	// for as long as they are busy with the power-off.
	OnRefusedInterval = time.Second
	// laterOn multiplies the time that a request has to show an effect, for the
	// later requests.
	laterOn = 2.5
)

// Done means that the host has its power back.
const Done Step = "done"

// OnProgress describes how far the switching-on of a host has got.
type OnProgress struct {
	// Elapsed is how long it has lasted, Budget how long it may last.
	Elapsed, Budget time.Duration
	// Answer is the longest that the BMC has taken for one answer.
	Answer time.Duration
	// RetryAfter is how long a request may show no effect; zero means
	// DefaultRetryAfter.
	RetryAfter time.Duration
	// Requests is how often power was requested, SinceRequest how long ago the last
	// request was.
	Requests     int
	SinceRequest time.Duration
	// RequestFailed is true where the last request ended with an error.
	RequestFailed bool
	// Refused is how often the BMC refused the account.
	Refused int
}

// NextOn decides the next step of switching a host on. A BMC's answer to a request
// proves nothing: some accept one and drop it while they are busy with the
// power-off, some refuse it for as long, and some refuse to switch on a host that
// is on. NextOn asks again until the BMC says On, or the time is over.
func NextOn(p OnProgress, r Reading) Decision {
	switch {
	case state.Is(r.Power, powerOn), state.Is(r.Power, poweringOn):
		return Decision{Step: Done, Why: saidOn(r)}
	case r.Reason == bmc.WrongServer, lasting[r.Reason]:
		return Decision{Step: Refuse, Why: "the BMC cannot be used: " + string(r.Reason)}
	case p.Elapsed >= p.Budget:
		return Decision{Step: GiveUp, Why: fmt.Sprintf("%s, and the time limit has passed; switching on was requested %d times", saidOn(r), p.Requests)}
	case !r.Power.Known:
		return Decision{Step: Again, Why: saidOn(r), Wait: pace(Progress{Refused: p.Refused}, r, OnRefusedInterval)}
	case p.Requests == 0, p.SinceRequest >= p.patience():
		return Decision{Step: Ask, Why: saidOn(r)}
	}
	return Decision{Step: Again, Why: saidOn(r), Wait: min(OnPollInterval, p.patience()-p.SinceRequest)}
}

func saidOn(r Reading) string {
	if r.Power.Known {
		return fmt.Sprintf("the BMC reads %q", r.Power.Value)
	}
	return said(r)
}

// patience returns how long the last request may show no effect. Only a reading
// that starts after the answer to the request can show its effect.
func (p OnProgress) patience() time.Duration {
	after := max(cmp.Or(p.RetryAfter, DefaultRetryAfter), 2*p.Answer)
	switch {
	case p.RequestFailed:
		return max(OnRefusedInterval, p.Answer)
	case p.Requests > 1:
		return time.Duration(laterOn * float64(after))
	}
	return after
}
