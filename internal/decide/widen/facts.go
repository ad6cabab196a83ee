package widen

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Facts is everything that a decision of one of the two hosts depends on. A fact that could not be
// found out is unknown, and leads to no step.
type Facts struct {
	Now  time.Time
	Host string // this host
	// Plan is the plan, or the copy of it, on this host's disk, nil if there is none. Wish is the last
	// wish of the command, nil if there is none.
	Plan *Plan
	Wish *Wish

	// From the report of this host's etcd keeper, or of its etcd while kubelet runs it.

	Peer        string // the other host
	Record      state.Fact[state.EtcdState]
	PeerRecord  state.Fact[state.EtcdState] // as the peer states it in the present membership
	Contact     state.Fact[bool]
	Serves      state.Fact[bool] // etcd here has a leader and answers
	StandIn     state.Fact[bool]
	Voters      state.Fact[int]
	Learner     state.Fact[state.MemberID] // zero if there is none
	LearnerName string                     // of the learner, empty until it started once
	Behind      state.Fact[uint64]         // the entries that the third member lacks
	Word        state.Fact[state.EtcdThirdWord]

	// PeerServes and ThirdServes are true if the etcd of that member answered a moment ago, as a voter
	// that knows the leader.
	PeerServes, ThirdServes state.Fact[bool]
	// Silent is how long the third member has not served, as far as this host has watched.
	Silent time.Duration

	// About the third host.

	Asks    replace.Newcomer // that asked to enter last, at AskedAt; zero if none asked
	AskedAt time.Time
	Arch    state.Fact[bool] // it has this host's architecture
	// Ready is true if its Node is ready and its API server answers, which needs its vote.
	Ready state.Fact[bool]

	// About this host. The names are those of replace.Facts.

	Pod, Boots, Runs, Paired, Kubelets, Podmans state.Fact[bool]
	// Halted is true if the etcd keeper was told in this boot to stop etcd, and not to start it again.
	Halted state.Fact[bool]
	// Maintained is true if Pacemaker is in maintenance: it starts, stops and fences nothing.
	Maintained state.Fact[bool]
	// Dressed is true if site.json and the files of this host are those of one of three, and on the
	// host that carries the plan the cluster's objects, too.
	Dressed state.Fact[bool]
	// Target is true if the site of three is written down on this host.
	Target      state.Fact[bool]
	Room, Ships state.Fact[bool]

	// From the API of the cluster.

	// Lock is the cluster's copy of the plan, empty if there is none. Told is what the peer of the plan
	// says about itself beside it.
	Lock state.Fact[Copy]
	// InForce says what the plan of the lock does, and how it is followed; empty if that is not known.
	InForce string
	Told    state.Fact[Progress]
	Given   state.Fact[bool] // the name of the third host may have a Node
	Node    state.Fact[bool] // the third host has a Node, a tombstone or another object of the plan
	Backup  state.Fact[time.Time]
	Work    state.Fact[string]
	Moves   state.Fact[string] // that of replace.Facts
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
	Target   bool                `json:"target,omitempty"`
	Boots    bool                `json:"boots,omitempty"`
	Kubelets bool                `json:"kubelets,omitempty"` // kubelet runs etcd, and it serves
	Ended    bool                `json:"ended,omitempty"`    // nothing of one of two is left
	Dressed  bool                `json:"dressed,omitempty"`
}

// Limits of time.
const (
	// wishLife is the time that a wish may wait for its gates.
	wishLife = 15 * time.Minute
	// silence is how long a lost voter must have been silent before it is removed. An etcd waits until
	// its connections to a member that is removed have ended, and commits nothing meanwhile: 5.1 and
	// 6.5 s were measured some ten seconds after a power cut, 1.1 s after seventy
	// (TestAThirdControlPlaneThatIsLostRightAfterItsVoteIsTakenOut).
	silence = time.Minute
	// asking is the time for which a newcomer counts as waiting after it asked.
	asking = 10 * time.Second
)

func yes(f state.Fact[bool]) bool { return state.Is(f, true) }
func no(f state.Fact[bool]) bool  { return state.Is(f, false) }

// carries reports whether this host carries the plan. Until the third member votes a host that went on
// alone does: the other one may never come back, and to take the plan back needs nothing of it. It also
// deletes the lock of a plan that it knows to be taken back.
func (f Facts) carries() bool {
	return f.Plan.Survivor == f.Host || f.alone() && (Handing.After(f.Plan.Stage) || f.Plan.Stage == Aborted)
}

// othersServe reports whether both other members of etcd serve. One that is lost for good is not
// waited for: writes stop then until etcd of this host is back.
func (f Facts) othersServe() bool { return yes(f.PeerServes) && (yes(f.ThirdServes) || f.Plan.Gone) }

// stopped reports whether the plan has stopped etcd of this host, which comes before all else.
func (f Facts) stopped() bool { return yes(f.Halted) && !yes(f.Kubelets) }

func (f Facts) waits() bool {
	return f.Asks.Machine.UUID+f.Asks.Machine.Serial != "" && f.Now.Sub(f.AskedAt).Abs() <= asking
}

// Progress is what this host tells about itself.
func (f Facts) Progress() Progress {
	return Progress{
		Stage: f.Plan.Stage, Word: f.Word.Value, Record: f.Record.Value, Target: yes(f.Target), Boots: yes(f.Boots), Kubelets: f.handed(),
		Ended: no(f.Runs) && no(f.Paired), Dressed: yes(f.Dressed),
	}
}

// handed reports whether etcd here runs under kubelet and serves as one of three.
func (f Facts) handed() bool { return yes(f.Kubelets) && yes(f.Serves) && state.Is(f.Voters, 3) }

// said reports whether the word on this host's disk is known to be that of the plan.
func (f Facts) said() bool { return f.Word.Known && f.Word.Value == f.Plan.Word() }

// told reports whether the other host told something about itself.
func (f Facts) told(is func(Progress) bool) bool { return f.Told.Known && is(f.Told.Value) }

// far reports whether the other host is as far with its copy of the plan, and has its word.
func (f Facts) far() bool {
	return f.Told.Known && f.Told.Value.Stage == f.Plan.Stage && f.Told.Value.Word == f.Plan.Word()
}
