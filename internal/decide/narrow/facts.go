package narrow

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Facts is everything that a decision of one of the two hosts that stay depends on. A fact that could
// not be found out is unknown, and leads to no step.
type Facts struct {
	Now  time.Time
	Host string // this host
	// Plan is the plan, or the copy of it, on this host's disk, nil if there is none. Wish is the last
	// wish of the command, nil if there is none.
	Plan *Plan
	Wish *Wish
	// Peer is the other host that stays, empty if it is not known which one that is.
	Peer string

	// About etcd: from the report of this host's etcd keeper, or of its etcd while kubelet runs it.

	Record  state.Fact[state.EtcdState]
	Contact state.Fact[bool]           // Corosync sees the other host
	Serves  state.Fact[bool]           // etcd here has a leader and answers
	StandIn state.Fact[bool]           // a stand-in votes
	Voters  state.Fact[int]            //
	Listed  state.Fact[bool]           // etcd lists the member of the host that goes
	Learner state.Fact[state.MemberID] // zero if there is none
	Word    state.Fact[state.EtcdThirdWord]
	Asked   state.Fact[bool] // in this boot the etcd keeper was asked to run etcd
	// PeerHere is true if the etcd of the peer answered a moment ago, as a voter that knows the leader. It is
	// false if that etcd has been silent for a while, or is no member: one look without an answer is unknown.
	PeerHere state.Fact[bool]
	// ThirdHere is true if the etcd of the host that goes answered a moment ago, as such a voter.
	ThirdHere state.Fact[bool]

	// About this host. Kubelets, Podmans, Boots, Runs, Paired, Room and Ships are those of
	// replace.Facts.

	Kubelets, Podmans, Boots, Runs, Paired, Room, Ships state.Fact[bool]
	// Prepared is true if this host has the packages, units and files that a host of two needs, and the
	// device of the peer. Tested is true if a moment ago the BMCs answered this host, took their accounts,
	// and were part of the machines that they are meant for: both with the accounts that were typed, in
	// Pairing and Parting the peer's with the one in force here.
	Prepared, Tested state.Fact[bool]
	// Dressed is true if site.json of this host is that of one of two and, on the host that carries the
	// plan, the cluster has the objects of two. Plain is the same for three.
	Dressed, Plain state.Fact[bool]
	// Ring is true if Corosync lists both hosts, and Corosync and Pacemaker run and start at boot.
	// SetUp is true if Pacemaker has its whole configuration, Maintained if it is in maintenance: it
	// starts, stops and fences nothing.
	Ring, SetUp, Maintained state.Fact[bool]
	// Target is true if the site of two is written down on this host, with the accounts of both BMCs.
	Target state.Fact[bool]

	// From the API of the cluster.

	// Lock is the cluster's copy of the plan, empty if there is none. Told is what the peer of the plan
	// says about itself beside it.
	Lock state.Fact[Copy]
	// InForce says what the plan of the lock does, and how it is followed; empty if that is not known.
	InForce string
	Told    state.Fact[Progress]
	Backup  state.Fact[time.Time]
	Work    state.Fact[string]
	Moves   state.Fact[string] // that of replace.Facts
	// Node is true if the cluster has the Node of the host that goes, or no tombstone of it. Leaves is
	// true if that Node is to be emptied, Empty if no pod is left on it but those of DaemonSets and
	// static ones. Volumes names the volumes whose data lie on that host alone.
	Node, Leaves, Empty state.Fact[bool]
	Volumes             state.Fact[[]string]
	// Left is true if the cluster still has the accounts of BMCs that it got by the plan. It is asked of one
	// that is over, or that the cluster has no more.
	Left state.Fact[bool]
	// Answers is true if the API server or etcd of the host that goes still answers.
	Answers state.Fact[bool]
	// ControlPlanes is the number of control planes that the site has for its life.
	ControlPlanes int
}

// Copy is the cluster's copy of the plan.
type Copy struct {
	ID   string
	Plan Plan
}

// Progress is what the host that does not carry the plan tells about itself. Unknown is false.
type Progress struct {
	Stage    Stage               `json:"stage"` // of its copy
	Word     state.EtcdThirdWord `json:"word,omitzero"`
	Record   state.EtcdState     `json:"record,omitempty"`
	Prepared bool                `json:"prepared,omitempty"`
	Tested   bool                `json:"tested,omitempty"`
	Dressed  bool                `json:"dressed,omitempty"`
	Ring     bool                `json:"ring,omitempty"`
	Kept     bool                `json:"kept,omitempty"`    // the etcd keeper runs etcd, and it serves
	Ordered  bool                `json:"ordered,omitempty"` // kubelet starts by Pacemaker
	Undone   bool                `json:"undone,omitempty"`  // nothing of one of two is left
}

// Limits of time.
const (
	// wishLife is the time that a wish may wait for its gates.
	wishLife = 15 * time.Minute
	// refusedFor is how long after it was typed a word that the carrier is lost stays if it is refused: its
	// command has read that by then.
	refusedFor = time.Minute
	three      = 3
)

func yes(f state.Fact[bool]) bool { return state.Is(f, true) }
func no(f state.Fact[bool]) bool  { return state.Is(f, false) }

// alone reports whether this host went on alone, which it may only once the third member left.
func (f Facts) alone() bool { return f.Record.Known && f.Record.Value.Leads() }

// carries reports whether this host carries the plan. A host that went on alone carries it to its end:
// the other one may never come back, and what is left to do needs nothing of it.
func (f Facts) carries() bool {
	return f.Plan.Carrier() == f.Host || f.alone() && f.Plan.Stage.After(Handing) && f.Plan.Stage != Aborted
}

// Progress is what this host tells about itself.
func (f Facts) Progress() Progress {
	return Progress{
		Stage: f.Plan.Stage, Word: f.Word.Value, Record: f.Record.Value, Prepared: yes(f.Prepared), Tested: yes(f.Tested), Dressed: yes(f.Dressed),
		Ring: yes(f.Ring), Kept: f.kept(), Ordered: no(f.Boots), Undone: f.undone(),
	}
}

// kept reports whether the etcd keeper of this host was asked to run etcd and does, and it serves as one
// of three. A keeper that nobody asked takes no step after the start.
func (f Facts) kept() bool {
	return no(f.Kubelets) && yes(f.Podmans) && yes(f.Asked) && yes(f.Serves) && state.Is(f.Voters, three) && state.Is(f.Record, state.EtcdMajority)
}

// undone reports whether nothing is left here by which this host would be one of two.
func (f Facts) undone() bool {
	return f.said() && no(f.Runs) && no(f.Paired) && yes(f.Plain)
}

// said reports whether the word on this host's disk is known to be that of the plan.
func (f Facts) said() bool { return f.Word.Known && f.Word.Value == f.Plan.Word() }

// told reports whether the other host told something about itself.
func (f Facts) told(is func(Progress) bool) bool { return f.Told.Known && is(f.Told.Value) }

// far reports whether the other host is as far with its copy of the plan, and has its word.
func (f Facts) far() bool {
	return f.Told.Known && f.Told.Value.Stage == f.Plan.Stage && f.Told.Value.Word == f.Plan.Word()
}

// carried reports whether the cluster is carried while etcd of this host restarts. If a person said
// that the host that goes is gone, the peer's etcd has to wait for this one, and writes stop meanwhile.
func (f Facts) carried() bool {
	return yes(f.PeerHere) && (yes(f.ThirdHere) || f.Plan.Accepts.Gone)
}
