package fencing

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Times of a fence.
const (
	// HoldInterval is how often the BMC is read while a fence waits.
	HoldInterval = time.Second
	// PollInterval is how often it is read once the power was to be cut.
	PollInterval = 100 * time.Millisecond
	// DefaultRetryAfter is how long a request may show no effect before it is sent
	// again: longer than the distribution's agent takes on a busy host, and
	// short against the token and the delay that the cluster spends anyway.
	DefaultRetryAfter = 2 * time.Second
	// laterRetry is how many times that the second and later requests may show
	// none: some BMCs tell a power state that is half a minute old.
	laterRetry = 5
	// slowAnswer is what makes a BMC a slow one: the distribution's agent needs
	// some five answers before it cuts the power, and is left out then.
	slowAnswer = time.Second
	// LongestAnswer is what a BMC may take for one answer.
	LongestAnswer = 30 * time.Second
	// answersOfFence are those that a fence cannot do without: whose BMC it is
	// and what it says, the request, and the reading after it. answersOfCut are
	// those until the power is cut.
	answersOfFence = 3
	answersOfCut   = 2
	// OffLasts is how long a BMC must go on to say Off, after it was to cut the
	// power, where the host's silence does not confirm it. Some say Off when they
	// accept the request, a few seconds before the host is off.
	OffLasts = 7 * time.Second
	// slack is for all that is not waiting for a BMC.
	slack = 10 * time.Second
)

// Step is what a fence does next.
type Step string

// The steps.
const (
	Proven Step = "proven"  // it is off: write the evidence
	Hold   Step = "hold"    // give the peer's own fence the time to come first
	Ask    Step = "ask"     // have the power cut
	Again  Step = "again"   // read again
	Refuse Step = "refuse"  // this BMC must not, or cannot, be used
	GiveUp Step = "give-up" // the time is over
)

// Reading is one answer of a BMC about its system.
type Reading struct {
	// Power is the power state word for word, unknown where it could not be
	// read.
	Power state.Fact[string]
	// Reason is why it could not be read, as internal/adapter/redfish calls it.
	Reason string
	// Heard is whether the host answered, on a network that it shares with this
	// one, a question that was asked after the BMC had said Off. It is unknown
	// where nobody could ask, silence says nothing, or it is not sure who answered.
	Heard state.Fact[bool]
}

// Progress is how far a fence has come.
type Progress struct {
	// Delay is what a fence of this target waits first. A slow BMC makes it
	// longer, since the peer's own fence is then slow too.
	Delay time.Duration
	// Elapsed is how long the fence has lasted.
	Elapsed time.Duration
	// Budget is how long it may last, its delay not counted. A slow BMC gets as
	// many of its answers as a fence needs.
	Budget time.Duration
	// Answer is the longest that the BMC has taken for one answer.
	Answer time.Duration
	// RetryAfter is how long a request may show no effect; zero means
	// DefaultRetryAfter.
	RetryAfter time.Duration
	// Requests is how often the power was to be cut.
	Requests int
	// SinceRequest is how long ago that was for the last time.
	SinceRequest time.Duration
	// RequestFailed is true where the last request ended with an error. It
	// does not say that nothing happened.
	RequestFailed bool
	// OffFor is how long the BMC has said nothing but Off: from its first such
	// answer, or the last request where that came later, to the last question.
	OffFor time.Duration
	// Refused is how often the BMC refused the account.
	Refused int
	// Confirmed is true where a person's word that the target is off stands.
	Confirmed bool
	// Turn is whose turn it is where both hosts may fence each other
	// (decide/fencerace); empty is RaceOrder.
	Turn state.RaceTurn
	// GaveWay is when this host's giving way ends, or ended, after the fence's
	// begin; zero where it does not give way.
	GaveWay time.Duration
	// Readable is when the first question was asked that the BMC answered, after
	// the fence's begin. A fencing network that hangs delays both hosts, and the
	// order between them counts from its end.
	Readable time.Duration
	// Back is true where the target was lost when the fence began, and is a member
	// again: what the fence was asked for is over.
	Back bool
}

// Direct reports whether the agent asks by itself and not through the
// distribution's, which sends nothing to a BMC that says Off.
func (p Progress) Direct(r Reading) bool {
	return p.Requests > 0 || p.Answer >= slowAnswer || state.Is(r.Power, state.PowerOff)
}

// Limit is how long the fence may last at all. It grows with the time that the
// BMC takes for an answer.
func (p Progress) Limit() time.Duration {
	if p.Answer < slowAnswer {
		return p.hold() + p.Budget
	}
	return p.hold() + max(p.Budget, answersOfFence*min(p.Answer, LongestAnswer)+slack)
}

// hold is how long the fence waits before it has the power cut: not at all
// where the peer gives way, else until this host has given way itself, and its
// delay after that.
func (p Progress) hold() time.Duration {
	if p.Turn == state.RaceFirst {
		return 0
	}
	return max(p.Readable, p.GaveWay) + p.order()
}

// order is the delay of the second host. The peer begins its own fence at the
// same time and has the power cut after two answers of its BMC, which is held to
// be as slow as this one; a third is the margin.
func (p Progress) order() time.Duration {
	if p.Delay <= 0 {
		return 0
	}
	return max(p.Delay, (answersOfCut+1)*min(p.Answer, LongestAnswer))
}

// retryAfter is how long a request may show no effect. What shows it is a
// reading that was asked for after the request was answered.
func (p Progress) retryAfter() time.Duration {
	return max(cmp.Or(p.RetryAfter, DefaultRetryAfter), 2*p.Answer)
}

// OnBudget is how long a target may be asked to switch on again: least, or
// longer where its BMC is slow.
func OnBudget(least, answer time.Duration) time.Duration {
	return max(least, min(answer, LongestAnswer)+slack)
}

// Longest is the longest that a whole fence takes, its target switched on again:
// for the slowest BMC with the delay as it is before a calibration, and for the
// longest delay that a calibration allows.
func Longest(budget time.Duration) time.Duration {
	uncalibrated := Progress{Delay: DefaultDelay, Budget: budget, Answer: LongestAnswer}
	calibrated := Progress{Delay: MaximumDelay, Budget: budget, Answer: MaximumDelay / delayFactor / answersOfFence}
	return max(
		uncalibrated.Limit()+OnBudget(0, uncalibrated.Answer),
		calibrated.Limit()+OnBudget(0, calibrated.Answer),
	)
}

// Decision is the next step, why, and how long to wait before the next
// reading.
type Decision struct {
	Step Step
	Why  string
	Wait time.Duration
}

// lasting are the reasons that another attempt with the same device meets
// again; what to do about each is part of the BMC's error.
var lasting = map[string]bool{
	"certificate": true, "pin": true, Unpinned: true, "unsupported": true, "no-system": true,
}

// Unpinned is the reason of a BMC that no authority vouches for and that nobody
// has pinned: whoever answers at its address would be believed. It is not spoken
// to, and certainly not in a fence, which is when somebody in between would wait.
const Unpinned = "unpinned"

// wrongServer is the one reason that ends a fence at any time: nothing that
// this BMC says is about the target.
const wrongServer = "wrong-server"

// proves says why a reading proves that the host is off, empty where it does
// not. Only the state that is spelled exactly Off is off; no other state, no error
// and no answer to a request is. A BMC may say so too early, or may have forgotten
// the host's power in a restart of its own, so that something has to confirm it:
// the host's silence, or that the BMC goes on to say it after a request.
func proves(p Progress, r Reading) string {
	switch {
	case !state.Is(r.Power, state.PowerOff):
		return ""
	case state.Is(r.Heard, false):
		return "the BMC says Off, and the host answers nothing"
	case p.Confirmed:
		return "the BMC says Off, and so does a person"
	case !r.Heard.Known && p.Requests > 0 && p.OffFor >= OffLasts:
		return fmt.Sprintf("the BMC has said Off for %s since the power was to be cut", OffLasts)
	}
	return ""
}

// Next decides the next step from one reading.
func Next(p Progress, r Reading) Decision {
	if why := proves(p, r); why != "" {
		return Decision{Step: Proven, Why: why}
	}
	switch {
	case r.Reason == wrongServer:
		return Decision{Step: Refuse, Why: "the BMC is another machine's"}
	case p.Confirmed:
		return Decision{Step: Refuse, Why: said(r) + ", and a person has confirmed that the target is off: it has not joined since, and is left to come back"}
	case p.Requests == 0 && p.Back:
		return Decision{Step: Refuse, Why: said(r) + ", and the target is a member of the cluster again: its power is not cut for what is over"}
	case p.Requests == 0 && lasting[r.Reason]:
		return Decision{Step: Refuse, Why: "the BMC cannot be used: " + r.Reason}
	case p.Requests == 0 && p.Elapsed < p.hold():
		return Decision{Step: Hold, Why: said(r), Wait: pace(p, r, min(HoldInterval, p.hold()-p.Elapsed))}
	case p.Elapsed >= p.Limit():
		return Decision{Step: GiveUp, Why: said(r) + ", and the time is over"}
	case p.Requests == 0 && r.Power.Known:
		return Decision{Step: Ask, Why: said(r), Wait: PollInterval}
	case again(p, r):
		return Decision{Step: Ask, Why: said(r) + ", although its power was to be cut", Wait: PollInterval}
	}
	return Decision{Step: Again, Why: said(r), Wait: pace(p, r, PollInterval)}
}

// again reports whether a request is to be repeated: it failed, or it had time
// to work and the BMC says anything but that the machine is off or on its way.
// A machine that is powering off is left to it.
//
// Some BMCs accept a request and drop it, more than once: it is repeated for as
// long as the fence lasts. The first repetition comes soon, and at once after an
// error; later ones have more time, since a BMC that is slow to tell would be
// switching a host off again that was just switched on.
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

// said is a reading in a person's words.
func said(r Reading) string {
	switch {
	case !r.Power.Known:
		return fmt.Sprintf("the BMC does not tell the power state (%s)", r.Reason)
	case r.Power.Value == "":
		return "the BMC reports no power state"
	case r.Power.Value == state.PowerOff && state.Is(r.Heard, true):
		return "the BMC says Off, and the host still answers on the network"
	case r.Power.Value == state.PowerOff:
		return "the BMC says Off, and nothing confirms it yet"
	}
	return fmt.Sprintf("the BMC says %q", r.Power.Value)
}
