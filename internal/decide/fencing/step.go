package fencing

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Times of a fence.
const (
	// HoldInterval is how often the fence reads the BMC while it waits.
	HoldInterval = time.Second
	// PollInterval is how often the fence reads the BMC after a request to cut the
	// power.
	PollInterval = 100 * time.Millisecond
	// DefaultRetryAfter is how long a request may show no effect before it is sent
	// again: longer than the distribution's agent takes on a busy host, and short
	// against the token and the delay that the cluster spends anyway.
	DefaultRetryAfter = 2 * time.Second
	// laterRetry multiplies that time for the second and later requests: some BMCs
	// report a power state that is half a minute old.
	laterRetry = 5
	// slowAnswer is the answer time from which a BMC counts as slow. The
	// distribution's agent needs some five answers before it cuts the power, so it
	// is left out then.
	slowAnswer = time.Second
	// LongestAnswer is the longest that a BMC may take for one answer.
	LongestAnswer = 30 * time.Second
	// answersOfFence counts the answers that a fence needs: the identity and state
	// of the BMC's system, the request, and the reading after it. answersOfCut
	// counts those until the power is cut.
	answersOfFence = 3
	answersOfCut   = 2
	// OffLasts is how long a BMC must keep saying Off after a request to cut the
	// power, where the host's silence does not confirm it. Some say Off when they
	// accept the request, a few seconds before the host is off.
	OffLasts = 7 * time.Second
	// slack is the time for everything except waiting for the BMC.
	slack = 10 * time.Second
)

// Step is the next step of a fence.
type Step string

// The steps.
const (
	Proven Step = "proven"  // the host is off: write the evidence
	Hold   Step = "hold"    // give the peer's own fence the time to come first
	Ask    Step = "ask"     // request that the power be cut
	Again  Step = "again"   // read again
	Refuse Step = "refuse"  // this BMC must not, or cannot, be used
	GiveUp Step = "give-up" // the time is over
)

// Reading is one answer of a BMC about its system.
type Reading struct {
	// Power is the power state word for word, unknown where it could not be read.
	Power state.Fact[string]
	// Reason says why the state could not be read.
	Reason bmc.Reason
	// Heard says whether the host answered a question on a network that it shares
	// with this one, asked after the BMC had said Off. It is unknown where nobody
	// could ask, where silence proves nothing, or where it is not certain who
	// answered.
	Heard state.Fact[bool]
}

// Progress describes how far a fence has got.
type Progress struct {
	// Delay is the time that a fence of this target waits first. A slow BMC makes
	// it longer, because the peer's own fence is then slow too.
	Delay time.Duration
	// Elapsed is how long the fence has lasted.
	Elapsed time.Duration
	// Budget is how long the fence may last after its delay. A slow BMC gets the
	// time for as many answers as a fence needs.
	Budget time.Duration
	// Answer is the longest that the BMC has taken for one answer.
	Answer time.Duration
	// RetryAfter is how long a request may show no effect; zero means
	// DefaultRetryAfter.
	RetryAfter time.Duration
	// Requests is how often the fence requested that the power be cut.
	Requests int
	// SinceRequest is how long ago the last request was.
	SinceRequest time.Duration
	// RequestFailed is true where the last request ended with an error. It may
	// still have had an effect.
	RequestFailed bool
	// OffFor is how long the BMC has said nothing but Off: from its first such
	// answer, or from the last request where that came later, to the last question.
	OffFor time.Duration
	// Refused is how often the BMC refused the account.
	Refused int
	// Confirmed is true while an administrator's confirmation that the target is
	// off is valid.
	Confirmed bool
	// Turn says which host fences first where both may fence each other
	// (decide/fencerace); empty means RaceOrder.
	Turn state.RaceTurn
	// GaveWay is the time after the start of the fence when this host stops, or
	// stopped, giving way; zero where it does not give way.
	GaveWay time.Duration
	// Readable is the time after the start of the fence of the first question that
	// the BMC answered. A fencing network that hangs delays both hosts, and the
	// order between them counts from its end.
	Readable time.Duration
	// Back is true where the target was lost when the fence began and is a member
	// again: the reason for the fence is gone.
	Back bool
}

// Direct reports whether the agent sends the request itself instead of through the
// distribution's agent, which sends nothing to a BMC that says Off.
func (p Progress) Direct(r Reading) bool {
	return p.Requests > 0 || p.Answer >= slowAnswer || state.Is(r.Power, state.PowerOff)
}

// Limit returns how long the whole fence may last. It grows with the time that the
// BMC takes for an answer.
func (p Progress) Limit() time.Duration {
	if p.Answer < slowAnswer {
		return p.hold() + p.Budget
	}
	return p.hold() + max(p.Budget, answersOfFence*min(p.Answer, LongestAnswer)+slack)
}

// hold returns how long the fence waits before it requests the power cut: not at
// all where the peer gives way; otherwise until the BMC can be read and this host
// has stopped giving way, and then for its delay.
func (p Progress) hold() time.Duration {
	if p.Turn == state.RaceFirst {
		return 0
	}
	return max(p.Readable, p.GaveWay) + p.order()
}

// order returns the delay of the second host. The peer begins its own fence at the
// same time, and has the power cut after two answers of its BMC. That BMC is taken
// to be as slow as this one; a third answer is the margin.
func (p Progress) order() time.Duration {
	if p.Delay <= 0 {
		return 0
	}
	return max(p.Delay, (answersOfCut+1)*min(p.Answer, LongestAnswer))
}

// retryAfter returns how long a request may show no effect. Only a reading that
// starts after the answer to the request can show its effect.
func (p Progress) retryAfter() time.Duration {
	return max(cmp.Or(p.RetryAfter, DefaultRetryAfter), 2*p.Answer)
}

// OnBudget returns how long to keep asking a target's BMC to switch it on again:
// least, or longer where the BMC is slow.
func OnBudget(least, answer time.Duration) time.Duration {
	return max(least, min(answer, LongestAnswer)+slack)
}

// Longest returns the longest time of a whole fence, including switching the target
// on again. It covers the slowest BMC with the delay before a calibration, and the
// longest delay that a calibration allows.
func Longest(budget time.Duration) time.Duration {
	uncalibrated := Progress{Delay: DefaultDelay, Budget: budget, Answer: LongestAnswer}
	calibrated := Progress{Delay: MaximumDelay, Budget: budget, Answer: MaximumDelay / delayFactor / answersOfFence}
	return max(
		uncalibrated.Limit()+OnBudget(0, uncalibrated.Answer),
		calibrated.Limit()+OnBudget(0, calibrated.Answer),
	)
}

// Decision is the next step, its reason, and the wait before the next reading.
type Decision struct {
	Step Step
	Why  string
	Wait time.Duration
}

// lasting names the reasons that another attempt with the same device meets again.
// The BMC's error says what to do about each.
var lasting = map[bmc.Reason]bool{ //nolint:exhaustive // the others may pass
	bmc.Certificate: true, bmc.Pin: true, bmc.Unpinned: true, bmc.Unsupported: true, bmc.NoSystem: true,
}

// proves returns why a reading proves that the host is off, empty where it does
// not. Only a state that is spelled exactly Off means off; no other state, no error
// and no answer to a request does. A BMC may say Off too early, or may have
// forgotten the host's power when it restarted itself, so something has to confirm
// it: the host's silence, an administrator's confirmation, or that the BMC keeps
// saying Off after a request.
func proves(p Progress, r Reading) string {
	switch {
	case !state.Is(r.Power, state.PowerOff):
		return ""
	case state.Is(r.Heard, false):
		return "the BMC reads Off, and the host does not answer on the network"
	case p.Confirmed:
		return "the BMC reads Off, and an administrator confirmed it"
	case !r.Heard.Known && p.Requests > 0 && p.OffFor >= OffLasts:
		return fmt.Sprintf("the BMC has read Off for %s since the power cut was requested", OffLasts)
	}
	return ""
}

// Next decides the next step from one reading.
func Next(p Progress, r Reading) Decision {
	if why := proves(p, r); why != "" {
		return Decision{Step: Proven, Why: why}
	}
	switch {
	case r.Reason == bmc.WrongServer: // nothing that this BMC says is about the target
		return Decision{Step: Refuse, Why: "the BMC is another machine's"}
	case p.Confirmed:
		return Decision{Step: Refuse, Why: said(r) + ", and an administrator confirmed that the target is off: it has not joined since, and is not fenced again, so that it can come back"}
	case p.Requests == 0 && p.Back:
		return Decision{Step: Refuse, Why: said(r) + ", and the target is a member of the cluster again: the reason for the fence is gone, so its power is not cut"}
	case p.Requests == 0 && lasting[r.Reason]:
		return Decision{Step: Refuse, Why: "the BMC cannot be used: " + string(r.Reason)}
	case p.Requests == 0 && p.Elapsed < p.hold():
		return Decision{Step: Hold, Why: said(r), Wait: pace(p, r, min(HoldInterval, p.hold()-p.Elapsed))}
	case p.Elapsed >= p.Limit():
		return Decision{Step: GiveUp, Why: said(r) + ", and the time limit has passed"}
	case p.Requests == 0 && r.Power.Known:
		return Decision{Step: Ask, Why: said(r), Wait: PollInterval}
	case again(p, r):
		return Decision{Step: Ask, Why: said(r) + ", although the power cut was requested", Wait: PollInterval}
	}
	return Decision{Step: Again, Why: said(r), Wait: pace(p, r, PollInterval)}
}

// again reports whether to repeat a request: it failed, or it had time to work and
// the BMC says anything but that the machine is off or powering off. A machine that
// is powering off is left to finish.
//
// Some BMCs accept a request and drop it, more than once, so it is repeated for as
// long as the fence lasts. The first repetition comes soon, and at once after an
// error. Later ones wait longer, because a BMC with an outdated power state would
// otherwise switch off a host that was just switched on.
func again(p Progress, r Reading) bool {
	if p.Requests == 0 || !r.Power.Known {
		return false
	}
	if r.Power.Value == state.PowerOff && !state.Is(r.Heard, true) {
		return false
	}
	after := p.retryAfter()
	switch {
	case p.RequestFailed && p.Requests == 1:
		return true
	case p.RequestFailed:
		return p.SinceRequest >= after
	case p.Requests > 1:
		after *= laterRetry
	}
	return r.Power.Value != "PoweringOff" && p.SinceRequest >= after
}

// said describes a reading in words.
func said(r Reading) string {
	switch {
	case !r.Power.Known:
		return fmt.Sprintf("the power state cannot be read from the BMC (%s)", r.Reason)
	case r.Power.Value == "":
		return "the BMC reports no power state"
	case r.Power.Value == state.PowerOff && state.Is(r.Heard, true):
		return "the BMC reads Off, but the host still answers on the network"
	case r.Power.Value == state.PowerOff:
		return "the BMC reads Off, but nothing confirms it yet"
	}
	return fmt.Sprintf("the BMC reads %q", r.Power.Value)
}
