package widen

import (
	"github.com/holdfast/holdfast/internal/model/state"
)

// apart says why a plan must be taken back although nobody asked; empty for nothing. A host that went
// on alone has a peer to bring back first.
func apart(f Facts) string {
	switch {
	case f.alone():
		return f.Host + " went on alone"
	case f.Plan.Stage == LettingIn && state.Is(f.Voters, 2) && f.Learner.Known && f.Learner.Value != f.Plan.Third:
		return "the member of " + f.Plan.New.Name + " is gone"
	}
	return ""
}

// leaveRules take a plan back while two vote. Whether three do must be known.
var leaveRules = []rule{
	{
		Step: "W2", ID: "back.asked", Act: WritePlan, When: func(f Facts) bool { return asksAbort(f) && state.Is(f.Voters, 2) },
		Words: says("the plan is taken back, as was asked"),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended = TakingBack, "an administrator took it back" })
		},
	},
	{
		Step: "W2", ID: "back.apart", Act: WritePlan, When: func(f Facts) bool { return apart(f) != "" },
		Words: func(f Facts) string { return "the plan is taken back: " + apart(f) },
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) {
				p.Stage, p.Ended = TakingBack, apart(f)
				if f.alone() {
					p.Alone = f.Host
				}
			})
		},
	},
	{
		// This host was off meanwhile.
		Step: "W2", ID: "back.followed", Act: WritePlan, When: Facts.takenBack,
		Words: says("the plan is taken back: %s went on alone, and began that", there),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended, p.Alone = TakingBack, there(f)+" went on alone", there(f) })
		},
	},
	{
		Step: "W2", ID: "back.gone", Act: WritePlan, When: func(f Facts) bool { return f.gone() && state.Is(f.Voters, 2) },
		Words: func(f Facts) string { return "the plan is taken back: " + deleted(f) },
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) {
				if p.Stage, p.Ended = TakingBack, deleted(f); f.farAlone() {
					p.Alone = there(f)
				}
			})
		},
	},
}

// deleted says why the cluster has no such plan any more. A host that went on alone deletes it, and so may
// a person.
func deleted(f Facts) string {
	if f.farAlone() {
		return there(f) + " went on alone, and ended it"
	}
	return "the cluster's copy of the plan was deleted"
}

// farAlone reports whether the other host says that it went on alone.
func (f Facts) farAlone() bool { return f.PeerRecord.Known && f.PeerRecord.Value.Leads() }

// lostWay is what to type about a third machine that votes and is lost for good.
const lostWay = "sudo holdfast topology apply --abort --is-gone SERIAL"

// votesLost reports whether the third member votes and does not answer, while the other two serve.
func (f Facts) votesLost() bool {
	return state.Is(f.Voters, 3) && state.Is(f.Record, state.EtcdMajority) && yes(f.Serves) && yes(f.PeerServes) && no(f.ThirdServes)
}

// lostRules take a plan back whose third member votes and is lost for good. The votes of the other two
// remove a voter, so no acknowledged write depends on whether the machine is really gone. Its pods do:
// they are deleted.
var lostRules = []rule{
	{
		Step: "W2", ID: "back.lost", Act: WritePlan, When: func(f Facts) bool { return asksAbort(f) && f.Wish.Gone && f.votesLost() && f.Silent >= silence },
		Words: says("the plan is taken back: %s votes, and is lost for good", next),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) {
				p.Stage, p.Gone, p.Ended = TakingBack, true, "an administrator said that "+p.New.Name+" will not come back"
			})
		},
	},
	{
		Step: "W4", ID: "letting.lost", Act: Wait, When: Facts.votesLost,
		Words: says("%s votes, and its etcd does not answer: until it does, the loss of either other host stops writes. If its machine is lost for good, say so", next),
		Way:   lostWay,
	},
}

// takenBack reports whether the other host began to take the plan back, as the cluster's copy or it
// itself says. It does so only after it went on alone.
func (f Facts) takenBack() bool {
	return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && (f.Lock.Value.Plan.Stage.back() || f.told(func(p Progress) bool { return p.Stage.back() }))
}

// alone reports whether this host went on without the other one, which may never come back.
func (f Facts) alone() bool { return f.Record.Known && f.Record.Value.Leads() }

var backRules = concat(copyRules, []rule{
	{
		// It was let in while the plan was taken back.
		Step: "W5", ID: "back.late", Act: WritePlan,
		When: func(f Facts) bool {
			return !f.Plan.Gone && state.Is(f.Voters, 3) && state.Is(f.Record, state.EtcdMajority)
		},
		Words: says("%s votes already: the plan only goes forward", next),
		Plan:  func(f Facts) *Plan { return with(f, func(p *Plan) { p.Stage, p.Ended = Handing, "" }) },
	},
	{
		Step: "W2", ID: "back.silent", Act: Wait,
		When: func(f Facts) bool {
			return f.Plan.Gone && state.Is(f.Voters, 3) && no(f.ThirdServes) && f.Silent < silence
		},
		Words: says("waits until etcd of %s has been silent for a minute: to remove it earlier would stop writes for some seconds", next),
	},
	{
		// Without the other host nobody could commit anything afterwards.
		Step: "W2", ID: "back.voter", Act: DropVoter,
		When: func(f Facts) bool {
			return f.Plan.Gone && state.Is(f.Voters, 3) && state.Is(f.Record, state.EtcdMajority) && yes(f.Serves) && yes(f.PeerServes)
		},
		Words: says("etcd does not list %s any more", next),
	},
	{
		Step: "W2", ID: "back.peer", Act: Wait, When: func(f Facts) bool { return f.Plan.Gone && state.Is(f.Voters, 3) },
		Words: says("waits until etcd of both hosts serves: the two remove the member of %s", next), Way: explainEtcd,
	},
	{
		// A third member votes only beside two records that say majority. Without it the list is one of
		// before: etcd that starts anew reads its log from an earlier day, in which three voted.
		Step: "W2", ID: "back.replay", Act: Wait, When: func(f Facts) bool { return state.Is(f.Voters, 3) },
		Words: says("waits until etcd of this host has caught up: it still lists three voters"), Way: explainEtcd,
	},
	{
		// Before the word goes: an empty peer would take the learner for its own.
		Step: "W2", ID: "back.alone", Act: DropLearner, When: func(f Facts) bool { return f.alone() && f.thirdListed() },
		Words: says("etcd does not list %s any more", next),
	},
}, unwordRules, []rule{
	{
		Step: "W2", ID: "back.unknown", Act: Wait, When: func(f Facts) bool { return !f.Voters.Known || !f.Learner.Known },
		Words: says("waits until etcd tells its members"), Way: explainEtcd,
	},
	{
		Step: "W2", ID: "back.far", Act: Wait, When: func(f Facts) bool { return !f.far() && !f.alone() && !f.gone() },
		Words: says("waits until the etcd keeper of %s knows that %s does not come", there, next),
	},
	{
		Step: "W2", ID: "back.learner", Act: DropLearner, When: Facts.thirdListed,
		Words: says("etcd does not list %s any more", next),
	},
	{
		Step: "W2", ID: "back.new", Act: DropNew, When: func(f Facts) bool { return !no(f.Node) },
		Words: says("the cluster has nothing of %s any more", next),
	},
	{
		Step: "W2", ID: "back.pair", Act: Wait,
		When:  func(f Facts) bool { return !state.Is(f.Record, state.EtcdPair) && !state.Is(f.Record, state.EtcdSole) },
		Words: says("waits until either host may be lost again"), Way: explainEtcd,
	},
	{
		Step: "W2", ID: "back.over", Act: WritePlan, When: always,
		Words: says("the plan was taken back: the site has two control planes as before"), Plan: to(Aborted),
	},
})

// thirdListed reports whether etcd lists a learner that is, or was to be, the third host's. The peer's
// own joins only once the word is gone. If the cluster has no such plan any more, its learner went
// before, and one without a name is another plan's.
func (f Facts) thirdListed() bool {
	if !f.Learner.Known || f.Learner.Value == 0 || f.gone() && f.LearnerName == "" && f.Learner.Value != f.Plan.Third && f.Learner.Value != f.Plan.Former {
		return false
	}
	return f.Plan.Member(f.Learner.Value, f.LearnerName)
}
