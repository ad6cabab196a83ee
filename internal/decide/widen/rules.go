package widen

import (
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/model/state"
)

// takeRules have a host that does not carry the plan keep the cluster's newest copy of it.
var takeRules = []rule{{
	Step: "W1", ID: "take", Act: WritePlan,
	When: func(f Facts) bool {
		c := f.Lock
		return c.Known && c.Value.ID != "" && c.Value.Plan.Peer == f.Host && (f.fresh(c.Value.Plan) || f.Plan != nil && newer(c.Value.Plan, *f.Plan))
	},
	Words: func(f Facts) string {
		return "this host keeps a copy of the plan of " + f.Lock.Value.Plan.Survivor + " for a third control plane"
	},
	Plan: func(f Facts) *Plan { p := f.Lock.Value.Plan; return &p },
}}

// fresh reports whether this host has no copy of a plan yet, and nothing that is not over. A host that
// went on alone takes one that is over, too: nobody else deletes its lock.
func (f Facts) fresh(p Plan) bool {
	return (f.Plan == nil || f.Plan.Stage.Over() && f.Plan.ID != p.ID) && (!p.Stage.Over() || f.alone())
}

// newer reports whether a copy is of a later stage, or of a plan that this host took for ended.
func newer(p, own Plan) bool {
	return p.ID == own.ID && (p.Stage.After(own.Stage) || own.Stage == Aborted && !p.Stage.Over())
}

// gone reports whether the cluster has no such plan any more.
func (f Facts) gone() bool { return f.Lock.Known && f.Lock.Value.ID != f.Plan.ID }

// goneRules end a copy whose plan the cluster has no more. While it can be taken back, its host may
// carry it no longer: the one that did went on alone, and did not wait for this one.
var goneRules = []rule{{
	Step: "W2", ID: "gone", Act: WritePlan,
	When: func(f Facts) bool {
		return f.gone() && Handing.After(f.Plan.Stage) && state.Is(f.Voters, 2)
	},
	Words: says("the cluster has no plan for %s any more", next), Plan: to(Aborted),
}}

// restRules apply without a plan.
var restRules = []rule{
	{
		Step: "W1", ID: "rest.dry", Act: Wait, When: func(f Facts) bool { return begins(f) && f.Wish.Dry },
		Words: says("the gates for a third control plane were looked at: nothing was changed"),
	},
	{
		Step: "W1", ID: "rest.begin", Act: WritePlan, When: func(f Facts) bool { return begins(f) && len(closed(f, *f.Wish)) == 0 },
		Words: says("the plan for a third control plane is written"),
		Plan:  func(f Facts) *Plan { p := Begin(f, *f.Wish); return &p },
	},
	{
		Step: "W1", ID: "rest.refuse", Act: Wait, When: begins,
		Words: func(f Facts) string {
			g := closed(f, *f.Wish)[0]
			return g.Words + "; type: " + g.Way
		},
	},
	{Step: "W7", ID: "rest", Act: Idle, When: always, Words: says("no third control plane comes")},
}

// overWordRules take a word back that is left of a plan that is over.
var overWordRules = []rule{{
	Step: "W2", ID: "over.word", Act: DropWord, When: func(f Facts) bool { return !f.said() },
	Words: says("the etcd keeper of %s learns that %s does not come", here, next),
}}

// overRules have the other host tell that it knows the end; overCarrierRules wait for that.
var (
	overRules        = concat(overWordRules, plans.Over[Facts, Act, Plan]("W7", ends, Facts.sight))
	overCarrierRules = concat(overWordRules, plans.OverCarrier[Facts, Act, Plan]("W7", ends, Facts.sight), takeRules, restRules)
)

// copyRules keep the cluster's copy as new as the plan, for the other host. A host whose etcd the plan
// has stopped first starts it again. A copy that is gone is written again only once three vote: until
// then the other host went on alone, took the plan back, and deleted it.
var copyRules = []rule{{
	Step: "W1", ID: "copy", Act: CopyPlan,
	When: func(f Facts) bool {
		if f.gone() {
			return (yes(f.Kubelets) || !yes(f.Halted)) && (state.Is(f.Voters, 3) || !Handing.After(f.Plan.Stage))
		}
		return (yes(f.Kubelets) || !yes(f.Halted)) && f.Lock.Known && f.Lock.Value.Plan.Stage != f.Plan.Stage
	},
	Words: says("the cluster gets the plan, which is the lock for other work on hosts, too"),
}}

var tellRules = plans.Tells[Facts, Act, Plan]("W1", ends, Facts.sight, Facts.toldAll)

// wordRules say the plan's word to the etcd keeper of this host, unwordRules take it back.
var wordRules = []rule{{
	Step: "W2", ID: "word", Act: PutWord, When: func(f Facts) bool { return !f.said() },
	Words: says("the etcd keeper of %s learns what the plan says about %s", here, next),
}}

var unwordRules = []rule{{
	Step: "W2", ID: "unword", Act: DropWord, When: func(f Facts) bool { return !f.said() },
	Words: says("the etcd keeper of %s learns that %s does not come", here, next),
}}

var plannedRules = []rule{
	{
		Step: "W1", ID: "planned.abort", Act: WritePlan, When: asksAbort,
		Words: says("the plan is taken back, as was asked"),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended = Aborted, "an administrator took it back" })
		},
	},
	{
		// The lost host cannot be replaced while the lock is there.
		Step: "W1", ID: "planned.apart", Act: WritePlan, When: Facts.alone,
		Words: func(f Facts) string { return "the plan is taken back: " + apart(f) },
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended, p.Alone = Aborted, apart(f), f.Host })
		},
	},
	{Step: "W1", ID: "planned.lock-unknown", Act: Wait, When: func(f Facts) bool { return !f.Lock.Known }, Words: says("the API does not answer: nothing was changed yet")},
	{
		Step: "W1", ID: "planned.lock", Act: CopyPlan, When: func(f Facts) bool { return f.Lock.Value.ID == "" },
		Words: says("the cluster gets the plan, which is the lock for other work on hosts, too"),
	},
	{
		Step: "W1", ID: "planned.gate", Act: Wait, When: func(f Facts) bool { return len(closed(f, f.Plan.wish())) > 0 },
		Words: func(f Facts) string { g := closed(f, f.Plan.wish())[0]; return g.Words + "; type: " + g.Way },
	},
	{
		Step: "W1", ID: "planned.begin", Act: WritePlan, When: always,
		Words: says("%s may be installed as the third control plane", next), Plan: to(Coming),
	},
}

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
		Words: says("the plan is taken back: the cluster has no such plan any more, since %s went on alone and ended it", there),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended, p.Alone = TakingBack, there(f)+" went on alone", there(f) })
		},
	},
}

// votesLost reports whether the third member votes and does not answer, while the other two serve.
func (f Facts) votesLost() bool {
	return state.Is(f.Voters, 3) && state.Is(f.Record, state.EtcdMajority) && yes(f.Serves) && yes(f.PeerServes) && no(f.ThirdServes)
}

// lostRules take a plan back whose third member votes and is lost for good. The votes of the other two
// remove a voter, so no acknowledged write depends on whether the machine is really gone. Its pods do:
// they are deleted.
var lostRules = []rule{
	{
		Step: "W2", ID: "back.lost", Act: WritePlan, When: func(f Facts) bool { return asksAbort(f) && f.Wish.Gone && f.votesLost() },
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
		Way:   "sudo holdfast topology apply --abort --is-gone SERIAL",
	},
}

// takenBack reports whether the other host began to take the plan back, as the cluster's copy or it
// itself says. It does so only after it went on alone.
func (f Facts) takenBack() bool {
	return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && (f.Lock.Value.Plan.Stage.back() || f.told(func(p Progress) bool { return p.Stage.back() }))
}

// alone reports whether this host went on without the other one, which may never come back.
func (f Facts) alone() bool { return f.Record.Known && f.Record.Value.Leads() }

// unnamed reports whether the plan does not name the member of the third host yet: who asks must be
// known then, also after this host was booted.
func (f Facts) unnamed() bool {
	return f.Learner.Known && (f.Learner.Value == 0 || f.Learner.Value != f.Plan.Third)
}

// farRules wait for the other host.
var farRules = []rule{{
	Step: "W2", ID: "far", Act: Wait, When: func(f Facts) bool { return !f.far() },
	Words: says("waits until the etcd keeper of %s knows what the plan says, too", there),
}}

var comingRules = concat(leaveRules, copyRules, wordRules, farRules, []rule{
	{
		Step: "W2", ID: "coming.name", Act: GiveName, When: func(f Facts) bool { return !yes(f.Given) },
		Words: says("the name %s is given to the new host", next),
	},
	{
		Step: "W3", ID: "coming.await", Act: Wait, When: func(f Facts) bool { return f.unnamed() && !f.waits() },
		Words: says("waits until %s is installed and asks to enter", next), Way: "sudo holdfast topology apply --join-file FILE",
	},
	{
		Step: "W3", ID: "coming.machine", Act: Wait,
		When: func(f Facts) bool {
			return f.unnamed() && (!yes(f.Arch) || f.Asks.Address != f.Plan.New.Address || f.Plan.New.UUID != "" && f.Asks.Machine.UUID != f.Plan.New.UUID)
		},
		Words: func(f Facts) string {
			return "the machine that asks to enter as " + next(f) + " (UUID " + f.Asks.Machine.UUID + ", " + f.Asks.Address + ") is not the one of the plan: it is not let in"
		},
		Way: statusShow,
	},
	{
		Step: "W3", ID: "coming.learner", Act: AddLearner,
		When: func(f Facts) bool {
			return state.Is(f.Learner, 0) && state.Is(f.Voters, 2) && state.Is(f.Record, state.EtcdPair) && yes(f.Contact)
		},
		Words: says("etcd lists %s as a learner, which does not vote", next),
	},
	{
		// The new host is told its member only by the plan. So a learner that the plan does not name
		// was never started.
		Step: "W3", ID: "coming.noted", Act: WritePlan, When: func(f Facts) bool { return f.Learner.Known && f.Learner.Value != 0 && f.Learner.Value != f.Plan.Third },
		Words: says("the plan names the member of %s, which may start its etcd", next),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Third, p.Newcomer = f.Learner.Value, f.Asks })
		},
	},
	{
		Step: "W3", ID: "coming.ready", Act: Wait,
		When: func(f Facts) bool {
			return !f.Learner.Known || f.Learner.Value == 0 || f.LearnerName == ""
		},
		Words: says("waits until etcd of %s runs and has its data", next),
	},
	{
		Step: "W3", ID: "coming.behind", Act: Wait, When: func(f Facts) bool { return !f.Behind.Known || f.Behind.Value > etcdmember.MostBehind },
		Words: says("waits until %s lacks little of etcd's log", next),
	},
	{
		Step: "W4", ID: "coming.pair", Act: Wait,
		When: func(f Facts) bool {
			return !state.Is(f.Record, state.EtcdPair) || !state.Is(f.PeerRecord, state.EtcdPair) || !yes(f.Contact) || !f.Told.Value.Target
		},
		Words: says("waits until either host may be lost, and %s has the site of three", there), Way: explainEtcd,
	},
	{
		Step: "W4", ID: "coming.let", Act: WritePlan, When: always,
		Words: says("both etcd keepers may let %s vote: for about a second the loss of either host stops writes until it is back", next),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage = LettingIn })
		},
	},
})

var lettingRules = concat(leaveRules, copyRules, wordRules, lostRules, []rule{
	{
		Step: "W4", ID: "letting.votes", Act: Wait,
		When: func(f Facts) bool {
			return !state.Is(f.Voters, 3) || !state.Is(f.Record, state.EtcdMajority) || f.Told.Value.Record != state.EtcdMajority || !f.far() || !f.othersServe()
		},
		Words: says("waits until %s votes, and both etcd keepers know it", next), Way: explainEtcd,
	},
	{
		// Not earlier: a learner serves no API server.
		Step: "W4", ID: "letting.ready", Act: Wait, When: func(f Facts) bool { return !yes(f.Ready) },
		Words: says("waits until the Node of %s is ready and its API server answers", next), Way: statusShow,
	},
	{
		Step: "W5", ID: "letting.hand", Act: WritePlan, When: always,
		Words: says("%s votes: from here on the plan only goes forward", next), Plan: to(Handing),
	},
})

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

// bootRules, handRules, endRules and dressRules are what each of the two does on itself.
var bootRules = []rule{{
	// Before maintenance: Pacemaker starts nothing then.
	Step: "W5", ID: "hand.boot", Act: KubeletBoot, When: func(f Facts) bool { return !yes(f.Boots) },
	Words: says("kubelet of %s starts at boot without Pacemaker", here),
}}

var maintainRules = []rule{
	{
		Step: "W5", ID: "hand.far-boots", Act: Wait,
		When: func(f Facts) bool {
			return !yes(f.Halted) && !yes(f.Maintained) && (!state.Is(f.Record, state.EtcdMajority) || !f.told(func(p Progress) bool { return p.Boots && p.Record == state.EtcdMajority }))
		},
		Words: says("waits until kubelet of %s starts at boot without Pacemaker, too, and both etcd keepers know that three vote", there),
	},
	{
		Step: "W5", ID: "hand.maintain", Act: Maintain, When: func(f Facts) bool { return !yes(f.Halted) && !yes(f.Maintained) },
		Words: says("Pacemaker starts, stops and fences nothing any more: raft's majority of three decides"),
	},
}

// thirdListed reports whether etcd lists a learner that is, or was to be, the third host's. The peer's
// own joins only once the word is gone. If the cluster has no such plan any more, its learner went
// before, and one without a name is another plan's.
func (f Facts) thirdListed() bool {
	if !f.Learner.Known || f.Learner.Value == 0 || f.gone() && f.LearnerName == "" && f.Learner.Value != f.Plan.Third {
		return false
	}
	return f.Plan.Member(f.Learner.Value, f.LearnerName)
}

var peerMaintainedRules = []rule{{
	Step: "W5", ID: "hand.await", Act: Tell, When: func(f Facts) bool {
		return !yes(f.Halted) && !yes(f.Maintained) && f.Told.Known && f.Told.Value != f.Progress()
	},
	Words: says("%s tells how far it is", here),
}, {
	Step: "W5", ID: "hand.unmaintained", Act: Wait, When: func(f Facts) bool { return !yes(f.Halted) && !yes(f.Maintained) },
	Words: says("waits until %s has put Pacemaker into maintenance", there),
}}

// turnRules have the other host go first: of three members only one is down at a time.
var turnRules = []rule{{
	Step: "W5", ID: "hand.turn", Act: Wait,
	When: func(f Facts) bool {
		return no(f.Kubelets) && !yes(f.Halted) && !f.told(func(p Progress) bool { return p.Kubelets })
	},
	Words: says("waits until etcd of %s runs under kubelet", there),
}}

var handRules = []rule{
	{
		Step: "W5", ID: "hand.pod", Act: PutPod, When: func(f Facts) bool { return !yes(f.Pod) },
		Words: says("kubelet's file of etcd is made on %s", here),
	},
	{
		// Only while the two other members carry the cluster.
		Step: "W5", ID: "hand.stop", Act: StopEtcd,
		When: func(f Facts) bool {
			return no(f.Kubelets) && yes(f.Boots) && (no(f.Halted) && yes(f.Maintained) && f.othersServe() && state.Is(f.Voters, 3) && state.Is(f.Record, state.EtcdMajority) || yes(f.Halted) && yes(f.Podmans))
		},
		Words: says("etcd of %s goes from Pacemaker to kubelet: the other two serve meanwhile", here),
	},
	{
		Step: "W5", ID: "hand.give", Act: GivePod, When: func(f Facts) bool { return no(f.Kubelets) && yes(f.Halted) && no(f.Podmans) },
		Words: says("kubelet of %s starts etcd", here),
	},
	{
		Step: "W5", ID: "hand.others", Act: Wait, When: func(f Facts) bool { return !yes(f.Kubelets) },
		Words: says("waits until the two other members of etcd serve"), Way: askEtcd,
	},
}

var handedRules = []rule{
	{
		Step: "W5", ID: "hand.runs", Act: Wait, When: func(f Facts) bool { return !f.handed() || !f.Told.Known || !f.Told.Value.Kubelets },
		Words: says("waits until etcd of both runs under kubelet, and three vote"), Way: "sudo crictl ps -a --name etcd; sudo journalctl -u kubelet -n 50",
	},
	{
		Step: "W6", ID: "hand.over", Act: WritePlan, When: always,
		Words: says("kubelet runs all three members of etcd: Corosync and Pacemaker end"), Plan: to(Ending),
	},
}

var farHandedRules = []rule{{
	// The other host tells this stage once nothing of one of two is left there. A copy that is late
	// would have its host wait for Pacemaker, which is gone by then.
	Step: "W6", ID: "end.far", Act: Wait, When: func(f Facts) bool {
		return !no(f.Runs) && !f.told(func(p Progress) bool { return p.Stage == Ending && p.Ended })
	},
	Words: says("waits until %s has ended its Corosync and Pacemaker", there),
}}

var endRules = []rule{
	{
		Step: "W6", ID: "end.ring", Act: EndRing, When: func(f Facts) bool { return !no(f.Runs) },
		Words: says("Pacemaker and Corosync of %s end for good; what they started runs on", here),
	},
	{
		Step: "W6", ID: "end.pair", Act: EndPair, When: func(f Facts) bool { return !no(f.Paired) },
		Words: says("%s forgets that it was one of two", here),
	},
}

var endedRules = []rule{
	{
		Step: "W7", ID: "end.over", Act: WritePlan, When: always,
		Words: says("nothing of the two is left: the objects and files become those of three"), Plan: to(Dressing),
	},
}

var dressRules = []rule{{
	Step: "W7", ID: "dress", Act: Dress, When: func(f Facts) bool { return !yes(f.Dressed) },
	Words: says("%s becomes one of three control planes", here),
}}

var dressedRules = []rule{
	{
		Step: "W7", ID: "dress.await", Act: Wait, When: func(f Facts) bool { return !f.Told.Known || !f.Told.Value.Dressed },
		Words: says("waits until %s has become one of three control planes", there),
	},
	{
		Step: "W7", ID: "dress.whole", Act: WritePlan, When: always,
		Words: says("the site has three control planes: any one may be lost"), Plan: to(Whole),
	},
}

func concat(lists ...[]rule) (out []rule) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}
