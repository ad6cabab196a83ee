// Package etcdmember decides the next step of one of two etcd members: the two-node
// protocol of docs/adr/0010-two-node-protocol.md as one function of a snapshot. The
// etcd keeper, the explanation for an administrator and the simulator use the same
// function.
//
// The rules are an ordered table, in sections; the first rule whose condition holds
// decides. Whatever the snapshot does not know never leads to a step.
package etcdmember

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The times that the protocol waits before it gives up on a peer that is there.
const (
	// RestartGrace is how long a peer whose etcd is down may take to restart
	// it, before the survivor of an unfinished join goes on without it.
	RestartGrace = 10 * time.Second
	// VoidAfter is how long a host stays alone with evidence of a fence that its
	// peer may have outlived, before it asks for another fence. Pacemaker asks by
	// itself, and sooner, where the peer did join and was lost again.
	VoidAfter = 5 * time.Second
	// FenceAfter is how long both of a pair may be without a leader because the
	// peer's etcd is down, before Pacemaker is asked to fence it. It also limits
	// the wait for a lost peer that nobody fences, and for a peer that should give
	// way in a stall.
	FenceAfter = 60 * time.Second
	// StallAfter is how long nothing may be committed, although both hosts are
	// there and both etcds run, before one of them gives way or is fenced. A disk
	// that hangs and comes back takes 5 to 15 s; other
	// software also takes one that hangs for over 20 s for dead
	// (docs/facts/etcd.md#stalled-disks, 1).
	StallAfter = 20 * time.Second
	// SilentAfter is how old the peer's statement may be while nothing is
	// committed. The peer renews it every StallStep then.
	SilentAfter = 12 * time.Second
	// StallStep is the unit in which a statement gives the time without a commit.
	StallStep = 5 * time.Second
	// LeaveSettle is how long a host that stops waits for the news that its peer
	// stops too, before it leaves: a site that is switched off as a whole keeps
	// both data directories. Statements take some 10 ms, people and scripts longer.
	LeaveSettle = 2 * time.Second
	// LeaveLook is how long a host that stops looks again while it does not know
	// whether its peer can carry the cluster. On a busy host etcd was late with one
	// answer: the host stopped without leaving, and its peer could not write until
	// it was back (48 s, measured in the lab). Where two cores were short of time for
	// all else, looks took up to 7 s and 8 s were one or three of them: the peer had half of
	// the votes for 60 s (2026-12-01).
	LeaveLook = 25 * time.Second
	// LeaveLimit is how long a leaving member waits for its removal before it stops
	// anyway and gives its data directory up. Both serve meanwhile. On such a machine the
	// peer read only after 10 s that this host leaves, which after 20 s had stopped a
	// second before its removal (2026-12-01). A stop of Pacemaker has time for this and
	// for an etcd that hangs (keeper.StopLimit).
	LeaveLimit = 30 * time.Second
	// ToldLimit is how long a stop that etcd has ended waits until the peer has read what
	// it needs in order to go on alone. Once Pacemaker ends nobody can tell it any more, and
	// the peer would have no leader until this host is back: on a machine short of processors
	// that was a minute (lab, 2026-12-01).
	ToldLimit = 10 * time.Second
)

// Rule is one line of the table, for a reader.
type Rule struct {
	Section string
	ID      string
	When    string
	Action  state.EtcdAction
	Why     string
}

type rule struct {
	id     string
	says   string // the condition, in words
	why    string // also the reason of the verdict
	action state.EtcdAction
	when   func(*view) bool
	// fill completes the verdict: a record to write, a member, a next command.
	fill func(*view, *state.EtcdVerdict)
}

// section is a part of the table; all its rules share one condition, and its
// last rule always applies.
type section struct {
	title string
	when  func(*view) bool
	rules []rule
}

// Decide returns the next step of the host that took the snapshot. It returns
// the same verdict for the same snapshot.
func Decide(s state.EtcdSnapshot) state.EtcdVerdict {
	v := look(&s)
	for i := range table {
		if !table[i].when(v) {
			continue
		}
		if verdict, ok := first(table[i].rules, v); ok {
			return verdict
		}
	}
	return state.EtcdVerdict{Action: state.EtcdWait, Rule: "nothing-fits", Reason: "no rule fits: please report this snapshot"}
}

func first(rules []rule, v *view) (state.EtcdVerdict, bool) {
	for i := range rules {
		r := &rules[i]
		if !r.when(v) {
			continue
		}
		verdict := state.EtcdVerdict{Action: r.action, Rule: r.id, Reason: r.why}
		if r.fill != nil {
			r.fill(v, &verdict)
		}
		verdict.Anew = r.action == state.EtcdAskFence && v.fencedInVain()
		verdict.Evidence = evidence(v)
		return verdict, true
	}
	return state.EtcdVerdict{}, false
}

// Rules returns the table in its order.
func Rules() []Rule {
	var out []Rule
	for _, s := range table {
		for _, r := range s.rules {
			out = append(out, Rule{s.title, r.id, r.says, r.action, r.why})
		}
	}
	return out
}

// table is the protocol. The order of the sections matters: the less a section
// assumes to be known, the earlier it comes.
var table = []section{
	{"Pacemaker stops this instance", leaving, leavingRules},
	{"Something basic is unknown", always, unknownRules},
	{"A plan makes two hosts of three, and this one has no record yet", narrows, narrowRules},
	{"Both hosts gave up their right to go on alone, for a third member", widened, widenedRules},
	{"Corosync has not seen the peer since boot", inert, inertRules},
	{"The peer is absent", gone, goneRules},
	{"The peer is in contact and has made no statement yet", silent, silentRules},
	{"The records of both hosts say that they went on alone", bothLead, bothLeadRules},
	{"This host leads", weLead, weLeadRules},
	{"The peer leads", peerLeads, peerLeadsRules},
	{"Both are equal", always, equalRules},
}

func always(*view) bool { return true }
