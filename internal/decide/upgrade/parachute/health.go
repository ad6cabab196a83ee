package parachute

import (
	"maps"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Meaning is what a missed criterion means.
type Meaning string

// The meanings.
const (
	// Return: the host goes back.
	Return Meaning = "return"
	// Pause: a person looks, since the cause may lie elsewhere.
	Pause Meaning = "pause"
)

// Kind is a set of kinds of hosts.
type Kind int

// The kinds of hosts.
const (
	// Worker is no control plane.
	Worker Kind = 1 << iota
	// Alone is the only control plane of its site.
	Alone
	// OfTwo is one of two control planes, which Pacemaker holds together.
	OfTwo
	// OfMore is one of three or more control planes.
	OfMore

	withPeer = OfTwo | OfMore
	server   = Alone | withPeer
	every    = Worker | server
)

// Criterion is a part of what a new release shows before it is accepted.
type Criterion struct {
	ID string
	// Limit is how long after the switch, or the boot since then, it may take.
	Limit time.Duration
	Miss  Meaning
	// Of says which hosts show it.
	Of Kind
	// What says what it shows.
	What string
}

// Criteria returns all criteria, in the order in which people read them.
func Criteria() []Criterion {
	// The agent of a loaded lab host needed 26 s after its switch to speak at all
	// (docs/facts/upgrades.md), so a criterion leaves three times that.
	const soon, late = 90 * time.Second, judged
	return []Criterion{
		{"etcd", soon, Return, server, "its etcd votes, is of the release, and keeps up with the others"},
		{"api-server", late, Return, server, "its API server is of the release, and is ready for ten seconds without a restart"},
		{"controllers", late, Return, server, "its controller manager and scheduler say that they are well"},
		{"kubelet", late, Return, every, "its kubelet and its node are ready, and all daemons are of the release"},
		{"pods", late, Return, every, "the API's Service and a name of the cluster answer on it"},
		{"names", late, Return, every, "names outside answer on it, if the site's name servers answer"},
		{"router", late, Return, every, "its router answers, if it has one"},
		{"vip", soon, Return, server, "keepalived runs, no VIP is on two hosts, it may hold one, and its balancer leads to an API server"},
		{"pacemaker", late, Return, OfTwo, "Pacemaker has it as a member, and its fencing is available"},
		{"peer-view", late, Pause, withPeer, "its peer sees the same"},
	}
}

// judged is when each criterion has had its time.
const judged = 2 * time.Minute

// whole is how long after the switch a host returns that is not accepted.
const whole = 5 * time.Minute

// Proof holds what the new release has shown, by the ID of a criterion. One that
// nobody could find out is unknown.
type Proof map[string]state.Fact[bool]

// Twice returns the proof of a look that counts as not shown only what the look before did not show
// either; what was not shown once is unknown. A peer that loses its power in the middle of a look takes
// etcd's quorum with it before anybody knows that it is gone.
func (p Proof) Twice(before Proof) Proof {
	out := maps.Clone(p)
	for id, shown := range p {
		if state.Is(shown, false) && !state.Is(before[id], false) {
			out[id] = state.Fact[bool]{}
		}
	}
	return out
}

// missed returns the criteria that are not met although their time is over: those
// that failed, and those that are unknown.
func missed(p Proof, kind Kind, age time.Duration) (failed, open []Criterion) {
	for _, c := range Criteria() {
		switch {
		case c.Of&kind == 0 || age < c.Limit || state.Is(p[c.ID], true):
		case p[c.ID].Known && c.Miss == Return:
			failed = append(failed, c)
		default:
			open = append(open, c)
		}
	}
	return failed, open
}

// complete reports whether all criteria are met.
func complete(p Proof, kind Kind) bool {
	for _, c := range Criteria() {
		if c.Of&kind != 0 && !state.Is(p[c.ID], true) {
			return false
		}
	}
	return true
}

// words names criteria.
func words(list []Criterion) string {
	var out []string
	for _, c := range list {
		out = append(out, c.What+" (within "+c.Limit.String()+")")
	}
	return strings.Join(out, "; ")
}

// notShown adds criteria to a reason.
func notShown(list []Criterion) string {
	if len(list) == 0 {
		return ""
	}
	return "; not shown: " + words(list)
}
