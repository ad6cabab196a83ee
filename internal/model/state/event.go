package state

import (
	"strings"
	"time"
)

// EventKind says what an event is about.
type EventKind string

// The kinds of events.
const (
	EventMembership EventKind = "membership" // Corosync on the host reports its membership
	EventDecision   EventKind = "decision"   // another rule of the two-node protocol decides than before
	EventRecord     EventKind = "record"     // the durable record of etcd was replaced
	EventWish       EventKind = "wish"       // Pacemaker wants etcd started or stopped
	EventAskFence   EventKind = "ask-fence"  // Pacemaker is asked to fence the target
	EventRestart    EventKind = "restart"    // etcd's process is ended, to be restarted with the same data
	EventTaint      EventKind = "taint"      // the API was told that the target is out of service
	EventUntaint    EventKind = "untaint"    // the API was told that it is in service again
	EventPlan       EventKind = "plan"       // the host is about to leave in order, by its own decision
	EventMissed     EventKind = "missed"     // events before this one could not be written
)

// Programs that write events. Each appends to its own file, and nothing else
// does.
const (
	EtcdEvents  = "podman-etcd"
	AgentEvents = "holdfast-agent"
	// ParachuteEvents are of the program that takes a host back to its old release.
	ParachuteEvents = "holdfast-parachute"
)

// EventPrograms returns all programs that write events.
func EventPrograms() []string { return []string{EtcdEvents, AgentEvents, ParachuteEvents} }

// Event is an observation, a decision or an action of a part of Holdfast on its
// host. It is data for other parts: they read these fields, never the text of a
// log.
type Event struct {
	// Boot and Up are the result of observe.Boot at that moment. At is the time by
	// the host's clock, which may be set. Boot is empty if the kernel gave none.
	Boot string        `json:"boot,omitempty"`
	Up   time.Duration `json:"up,omitempty"`
	At   time.Time     `json:"at"`
	Kind EventKind     `json:"kind"`
	// Members, Ring and Quorate describe a membership; without members it is
	// unknown.
	Members []string `json:"members,omitempty"`
	Ring    uint64   `json:"ring,omitempty"`
	Quorate bool     `json:"quorate,omitempty"`
	// Rule and Action belong to a decision; State and Seq belong to a record, whose
	// Rule is the one that wrote it.
	Rule   string     `json:"rule,omitempty"`
	Action EtcdAction `json:"action,omitempty"`
	State  EtcdState  `json:"state,omitempty"`
	Seq    uint64     `json:"seq,omitempty"`
	Wish   EtcdWish   `json:"wish,omitempty"`
	// Target is the host that the event is about, if it is another one.
	Target string `json:"target,omitempty"`
	Why    string `json:"why,omitempty"`
	// Count is the number of events that are missing.
	Count int `json:"count,omitempty"`
}

// MembershipEvent reports the membership that Corosync has.
func MembershipEvent(m Fact[Membership]) Event {
	if !m.Known {
		return Event{Kind: EventMembership}
	}
	return Event{Kind: EventMembership, Members: m.Value.Members, Ring: m.Value.Ring, Quorate: m.Value.Quorate}
}

// DecisionEvent reports that another rule decides than before.
func DecisionEvent(v EtcdVerdict) Event {
	return Event{Kind: EventDecision, Rule: v.Rule, Action: v.Action, Why: v.Reason}
}

// RecordEvent reports that a rule had a record written, which is durable now.
func RecordEvent(r EtcdRecord, v EtcdVerdict) Event {
	return Event{Kind: EventRecord, State: r.State, Seq: r.Seq, Rule: v.Rule, Why: v.Reason}
}

// WishEvent reports that Pacemaker wants another state of etcd.
func WishEvent(w EtcdWish) Event { return Event{Kind: EventWish, Wish: w} }

// AskFenceEvent reports that Pacemaker is asked to fence a host.
func AskFenceEvent(target string) Event { return Event{Kind: EventAskFence, Target: target} }

// RestartEvent reports why etcd's process is ended, to be restarted.
func RestartEvent(why string) Event { return Event{Kind: EventRestart, Why: why} }

// PlanEvent reports for what a host is about to leave in order.
func PlanEvent(why string) Event { return Event{Kind: EventPlan, Why: why} }

// TaintEvent reports that the API was told whether a host is out of service.
func TaintEvent(target string, out bool, why string) Event {
	if out {
		return Event{Kind: EventTaint, Target: target, Why: why}
	}
	return Event{Kind: EventUntaint, Target: target, Why: why}
}

// The bounds of one event. maxEventText is more than a reader shows: readers
// remove secrets and then cut the text, so they never show a part of a secret
// that was cut here.
const (
	maxEventText    = 1000
	maxEventName    = 253
	maxEventMembers = 8
)

// Bounded returns the event with each of its texts cut to its bound.
func (e Event) Bounded() Event {
	e.Why = cut(e.Why, maxEventText)
	for _, name := range []*string{&e.Boot, &e.Rule, &e.Target, (*string)(&e.Kind), (*string)(&e.Action), (*string)(&e.State), (*string)(&e.Wish)} {
		*name = cut(*name, maxEventName)
	}
	members := make([]string, 0, maxEventMembers)
	for _, m := range e.Members[:min(len(e.Members), maxEventMembers)] {
		members = append(members, cut(m, maxEventName))
	}
	if e.Members != nil {
		e.Members = members
	}
	return e
}

func cut(text string, most int) string {
	const dots = " ..."
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(dots)], "") + dots
}
