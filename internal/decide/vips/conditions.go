package vips

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// Types of the conditions about virtual IPs.
const (
	ConditionAccepted    = "Accepted"
	ConditionProgressing = "Progressing"
	ConditionApplied     = "Applied"
	ConditionAvailable   = "Available"
	ConditionDegraded    = "Degraded"
)

// Reasons of the conditions.
const (
	ReasonAsExpected     = "AsExpected"
	ReasonNoVIPs         = "NoVirtualIPs"
	ReasonNotManagedHere = "NotManagedHere"
	ReasonRuleBroken     = "RuleBroken"
	ReasonChecking       = "Checking"
	ReasonRollingOut     = "RollingOut"
	ReasonNotAnswering   = "VirtualIPNotAnswering"
	ReasonSyncFailed     = "SyncFailed"
)

// Statuses of conditions.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// DegradedAfter is how long a trouble has to last before it counts. An API that is
// away for a moment does not count.
const DegradedAfter = 2 * time.Minute

// Condition is one condition of the object that reports.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Changed time.Time `json:"lastTransitionTime"`
}

// Trouble describes what is wrong at the moment; its zero value means nothing.
type Trouble struct {
	Reason, Message string
	// Since is the time of its first observation.
	Since time.Time
}

// Lasting returns the trouble with the time since when it lasts: that of before
// where the reason is the same, else now.
func (t Trouble) Lasting(before Trouble, now time.Time) Trouble {
	t.Since = now
	if t.Reason == before.Reason {
		t.Since = before.Since
	}
	return t
}

// Standing holds the facts that the conditions describe.
type Standing struct {
	Platform Platform
	Plan     Plan
	Decision Decision
	Rollout  Rollout
	// AppliedBefore holds the VIPs with which the change was once complete. The
	// change stays complete: a VIP that is away later is an outage, not an
	// unfinished change.
	AppliedBefore []netip.Addr
	// Failure says why this reading is incomplete, empty for nothing.
	Failure string
}

// Complete reports whether the change to the present VIPs is done, or was done
// earlier.
func (s Standing) Complete() bool {
	return s.Rollout.Applied || SameSet(s.AppliedBefore, s.Plan.All())
}

// SameSet reports whether two lists hold the same addresses, in any order.
func SameSet(a, b []netip.Addr) bool { return slices.Equal(sorted(a), sorted(b)) }

func sorted(list []netip.Addr) []netip.Addr {
	out := slices.Clone(list)
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// Trouble returns what is wrong. It is reported only once it lasts.
func (s Standing) Trouble() Trouble {
	switch {
	case s.Failure != "":
		return Trouble{Reason: ReasonSyncFailed, Message: s.Failure}
	case s.Decision.Outcome == Unmanaged:
		return Trouble{}
	case s.Decision.Outcome == Refused:
		return Trouble{Reason: ReasonRuleBroken, Message: s.refusal()}
	case s.Decision.Outcome == Undecided:
		return Trouble{Reason: ReasonChecking, Message: strings.Join(s.Decision.Pending, "; ")}
	case !s.Complete():
		return Trouble{Reason: ReasonRollingOut, Message: s.Rollout.Words()}
	case !s.Rollout.Applied && s.away() != "":
		return Trouble{Reason: ReasonNotAnswering, Message: s.away()}
	}
	return Trouble{}
}

// away names the VIPs that have no holder or do not answer.
func (s Standing) away() string {
	var words []string
	for _, v := range s.Rollout.VIPs {
		if v.Waiting != "" {
			words = append(words, fmt.Sprintf("%s VIP %s: %s", v.Role, v.Address, v.Waiting))
		}
	}
	return strings.Join(words, "; ")
}

func (s Standing) refusal() string {
	var words []string
	for _, f := range s.Decision.Findings {
		words = append(words, fmt.Sprintf("%s (rule %s: %s)", f.Err.Error(), f.Rule, f.Rule.Sentence()))
	}
	return strings.Join(words, "; ")
}

// Conditions returns the conditions of a cluster's VIPs, in the order of an
// administrator's questions: is it allowed, how far is it, is it done, does it
// work. A condition whose status is the same as before keeps the time of its last
// change.
func Conditions(s Standing, t Trouble, before []Condition, now time.Time) []Condition {
	want := s.present()
	if s.Failure != "" { // nothing new is known
		want = known(before)
	}
	want = append(want, s.health(t, before, now)...)
	for i := range want {
		want[i].Changed = now
		if old, ok := conditionOf(before, want[i].Type); ok && old.Status == want[i].Status {
			want[i].Changed = old.Changed
		}
	}
	return want
}

// known returns those conditions of an earlier reading that describe the change.
func known(before []Condition) []Condition {
	var out []Condition
	for _, kind := range []string{ConditionAccepted, ConditionProgressing, ConditionApplied} {
		if c, ok := conditionOf(before, kind); ok {
			out = append(out, c)
		}
	}
	return out
}

func conditionOf(list []Condition, kind string) (Condition, bool) {
	i := slices.IndexFunc(list, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		return Condition{}, false
	}
	return list[i], true
}

func (s Standing) present() []Condition {
	if s.Decision.Outcome == Unmanaged {
		return s.unmanaged()
	}
	return []Condition{s.accepted(), s.progressing(), s.applied()}
}

func (s Standing) unmanaged() []Condition {
	all := func(status, reason, message string) []Condition {
		return []Condition{
			{Type: ConditionAccepted, Status: status, Reason: reason, Message: message},
			{Type: ConditionProgressing, Status: False, Reason: reason, Message: message},
			{Type: ConditionApplied, Status: status, Reason: reason, Message: message},
		}
	}
	if s.Platform != VSphere && s.Platform != OpenStack {
		return all(True, ReasonNoVIPs, fmt.Sprintf("platform %s has no virtual IPs that hosts hold", orNone(s.Platform)))
	}
	words := fmt.Sprintf("virtual IPs of platform %s are not managed by Holdfast: change them at its load balancer", s.Platform)
	if len(s.Decision.Findings) == 0 {
		return all(False, ReasonNotManagedHere, words)
	}
	return all(False, ReasonRuleBroken, s.refusal()+"; and "+words)
}

func orNone(p Platform) Platform {
	if p == "" {
		return "None"
	}
	return p
}

func (s Standing) accepted() Condition {
	c := Condition{Type: ConditionAccepted, Status: True, Reason: ReasonAsExpected, Message: "the requested virtual IPs keep every rule"}
	switch s.Decision.Outcome {
	case Refused:
		c.Status, c.Reason, c.Message = False, ReasonRuleBroken, s.refusal()
	case Undecided:
		c.Status, c.Reason, c.Message = Unknown, ReasonChecking, strings.Join(s.Decision.Pending, "; ")
	case Unmanaged, Settled, Accepted:
	}
	return c
}

func (s Standing) progressing() Condition {
	c := Condition{Type: ConditionProgressing, Status: True, Reason: ReasonRollingOut, Message: s.Rollout.Words()}
	switch {
	case s.Decision.Outcome == Undecided:
		c.Reason, c.Message = ReasonChecking, strings.Join(s.Decision.Pending, "; ")
	case s.Complete() && s.Rollout.Everywhere:
		c.Status, c.Reason = False, ReasonAsExpected
		c.Message = fmt.Sprintf("%d of %d hosts", s.Rollout.Done(), len(s.Rollout.Hosts))
	}
	return c
}

func (s Standing) applied() Condition {
	c := Condition{Type: ConditionApplied, Status: False, Reason: ReasonRollingOut, Message: s.Rollout.Words()}
	if s.Complete() {
		c.Status, c.Reason = True, ReasonAsExpected
		c.Message = "API " + netaddr.Join(s.Plan.API) + ", ingress " + netaddr.Join(s.Plan.Ingress)
	}
	return c
}

// health returns the conditions that wait until a trouble lasts. A trouble that the
// earlier conditions reported stays reported after the operator was restarted.
func (s Standing) health(t Trouble, before []Condition, now time.Time) []Condition {
	available := Condition{Type: ConditionAvailable, Status: True, Reason: ReasonAsExpected, Message: "the operator manages the virtual IPs"}
	degraded := Condition{Type: ConditionDegraded, Status: False, Reason: ReasonAsExpected}
	old, _ := conditionOf(before, ConditionDegraded)
	lasts := t.Reason != "" && (now.Sub(t.Since) >= DegradedAfter || old.Status == True && old.Reason == t.Reason)
	if lasts {
		degraded.Status, degraded.Reason, degraded.Message = True, t.Reason, t.Message
	}
	if lasts && t.Reason == ReasonNotAnswering {
		available.Status, available.Reason, available.Message = False, t.Reason, t.Message
	}
	return []Condition{available, degraded}
}

// Same reports whether conditions say the same, whatever their times of change.
func Same(a, b []Condition) bool {
	return slices.EqualFunc(a, b, func(x, y Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
	})
}

// News returns the conditions about the change that need an event: those that
// differ from before. A condition that is as expected from the beginning needs
// none, nor does one that is still being checked.
func News(before, now []Condition) []Condition {
	var out []Condition
	for _, c := range now {
		if c.Type != ConditionAccepted && c.Type != ConditionApplied || c.Reason == ReasonChecking {
			continue
		}
		old, ok := conditionOf(before, c.Type)
		if !ok && c.Status == True || ok && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			continue
		}
		if c.Type == ConditionApplied && c.Status == False && ok && old.Status == False {
			continue // the condition itself shows the progress
		}
		out = append(out, c)
	}
	return out
}
