package widen

import (
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// takeRules have a host that does not carry the plan keep the cluster's newest copy of it.
var takeRules = []rule{{
	step: "W1", id: "take", act: WritePlan,
	when: func(f Facts) bool {
		c := f.Lock
		return c.Known && c.Value.ID != "" && c.Value.Plan.Peer == f.Host && (f.fresh(c.Value.Plan) || f.Plan != nil && newer(c.Value.Plan, *f.Plan))
	},
	words: func(f Facts) string {
		return "this host keeps a copy of the plan of " + f.Lock.Value.Plan.Survivor + " for a third control plane"
	},
	plan: func(f Facts) *Plan { p := f.Lock.Value.Plan; return &p },
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
	step: "W2", id: "gone", act: WritePlan,
	when: func(f Facts) bool {
		return f.gone() && Handing.After(f.Plan.Stage) && state.Is(f.Voters, 2)
	},
	words: says("the cluster has no plan for %s any more", next), plan: to(Aborted),
}}

// restRules apply without a plan.
var restRules = []rule{
	{
		step: "W1", id: "rest.dry", act: Wait, when: func(f Facts) bool { return begins(f) && f.Wish.Dry },
		words: says("the gates for a third control plane were looked at: nothing was changed"),
	},
	{
		step: "W1", id: "rest.begin", act: WritePlan, when: func(f Facts) bool { return begins(f) && len(closed(f, *f.Wish)) == 0 },
		words: says("the plan for a third control plane is written"),
		plan:  func(f Facts) *Plan { p := Begin(f, *f.Wish); return &p },
	},
	{
		step: "W1", id: "rest.refuse", act: Wait, when: begins,
		words: func(f Facts) string {
			g := closed(f, *f.Wish)[0]
			return g.Words + "; type: " + g.Way
		},
	},
	{step: "W7", id: "rest", act: Idle, when: always, words: says("no third control plane comes")},
}

// overRules have the other host tell that it knows the end; overCarrierRules wait for that, so that no
// copy of a plan that is over stays behind.
var overWordRules = []rule{{
	step: "W2", id: "over.word", act: DropWord, when: func(f Facts) bool { return !f.said() },
	words: says("the etcd keeper of %s learns that %s does not come", here, next),
}}

var overRules = concat(overWordRules, []rule{{
	step: "W7", id: "over.tell", act: Tell,
	when: func(f Facts) bool {
		return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && f.Told.Known && f.Told.Value.Stage != f.Plan.Stage
	},
	words: says("%s tells that it knows the end of the plan", here),
}})

var overCarrierRules = concat(overWordRules, []rule{
	{
		step: "W7", id: "over.copy", act: CopyPlan,
		when: func(f Facts) bool {
			return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && f.Lock.Value.Plan.Stage != f.Plan.Stage
		},
		words: says("%s is told the end of the plan", there),
	},
	{
		step: "W7", id: "over.await", act: Wait,
		when:  func(f Facts) bool { return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && !f.farOver() && !f.alone() },
		words: says("waits until %s knows the end of the plan", there),
	},
	{
		step: "W7", id: "over.lock", act: DropLock, when: func(f Facts) bool { return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID },
		words: says("the cluster's copy of the plan is deleted, since the plan is over"),
	},
	{
		step: "W7", id: "over.unknown", act: Wait, when: func(f Facts) bool { return !f.Lock.Known },
		words: says("the API does not say whether the cluster's copy of the plan is gone"),
	},
}, takeRules, restRules)

// farOver reports whether the other host knows the end, or never said that it has a copy. One that has
// a copy all the same ends it by itself, once the cluster has none.
func (f Facts) farOver() bool { return f.far() || f.Told.Known && f.Told.Value.Stage == "" }

// copyRules keep the cluster's copy as new as the plan, for the other host. A host whose etcd the plan
// has stopped first starts it again. A copy that is gone is written again only once three vote: until
// then the other host went on alone, took the plan back, and deleted it.
var copyRules = []rule{{
	step: "W1", id: "copy", act: CopyPlan,
	when: func(f Facts) bool {
		if f.gone() {
			return (yes(f.Kubelets) || !yes(f.Halted)) && (state.Is(f.Voters, 3) || !Handing.After(f.Plan.Stage))
		}
		return (yes(f.Kubelets) || !yes(f.Halted)) && f.Lock.Known && f.Lock.Value.Plan.Stage != f.Plan.Stage
	},
	words: says("the cluster gets the plan, which is the lock for other work on hosts, too"),
}}

var tellRules = []rule{
	{
		step: "W1", id: "tell", act: Tell, when: func(f Facts) bool { return f.Told.Known && f.Told.Value != f.Progress() },
		words: says("%s tells how far it is", here),
	},
	{step: "W1", id: "follow", act: Wait, when: always, words: says("%s carries the plan on", there)},
}

// wordRules say the plan's word to the etcd keeper of this host, unwordRules take it back.
var wordRules = []rule{{
	step: "W2", id: "word", act: PutWord, when: func(f Facts) bool { return !f.said() },
	words: says("the etcd keeper of %s learns what the plan says about %s", here, next),
}}

var unwordRules = []rule{{
	step: "W2", id: "unword", act: DropWord, when: func(f Facts) bool { return !f.said() },
	words: says("the etcd keeper of %s learns that %s does not come", here, next),
}}

var plannedRules = []rule{
	{
		step: "W1", id: "planned.abort", act: WritePlan, when: asksAbort,
		words: says("the plan is taken back, as was asked"),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended = Aborted, "an administrator took it back" })
		},
	},
	{
		// The lost host cannot be replaced while the lock is there.
		step: "W1", id: "planned.apart", act: WritePlan, when: Facts.alone,
		words: func(f Facts) string { return "the plan is taken back: " + apart(f) },
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended, p.Alone = Aborted, apart(f), f.Host })
		},
	},
	{step: "W1", id: "planned.lock-unknown", act: Wait, when: func(f Facts) bool { return !f.Lock.Known }, words: says("the API does not answer: nothing was changed yet")},
	{
		step: "W1", id: "planned.lock", act: CopyPlan, when: func(f Facts) bool { return f.Lock.Value.ID == "" },
		words: says("the cluster gets the plan, which is the lock for other work on hosts, too"),
	},
	{
		step: "W1", id: "planned.gate", act: Wait, when: func(f Facts) bool { return len(closed(f, f.Plan.wish())) > 0 },
		words: func(f Facts) string { g := closed(f, f.Plan.wish())[0]; return g.Words + "; type: " + g.Way },
	},
	{
		step: "W1", id: "planned.begin", act: WritePlan, when: always,
		words: says("%s may be installed as the third control plane", next), plan: to(Coming),
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
		step: "W2", id: "back.asked", act: WritePlan, when: func(f Facts) bool { return asksAbort(f) && state.Is(f.Voters, 2) },
		words: says("the plan is taken back, as was asked"),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended = TakingBack, "an administrator took it back" })
		},
	},
	{
		step: "W2", id: "back.apart", act: WritePlan, when: func(f Facts) bool { return apart(f) != "" },
		words: func(f Facts) string { return "the plan is taken back: " + apart(f) },
		plan: func(f Facts) *Plan {
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
		step: "W2", id: "back.followed", act: WritePlan, when: Facts.takenBack,
		words: says("the plan is taken back: %s went on alone, and began that", there),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended, p.Alone = TakingBack, there(f)+" went on alone", there(f) })
		},
	},
	{
		step: "W2", id: "back.gone", act: WritePlan, when: func(f Facts) bool { return f.gone() && state.Is(f.Voters, 2) },
		words: says("the plan is taken back: the cluster has no such plan any more, since %s went on alone and ended it", there),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended, p.Alone = TakingBack, there(f)+" went on alone", there(f) })
		},
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
	step: "W2", id: "far", act: Wait, when: func(f Facts) bool { return !f.far() },
	words: says("waits until the etcd keeper of %s knows what the plan says, too", there),
}}

var comingRules = concat(leaveRules, copyRules, wordRules, farRules, []rule{
	{
		step: "W2", id: "coming.name", act: GiveName, when: func(f Facts) bool { return !yes(f.Given) },
		words: says("the name %s is given to the new host", next),
	},
	{
		step: "W3", id: "coming.await", act: Wait, when: func(f Facts) bool { return f.unnamed() && !f.waits() },
		words: says("waits until %s is installed and asks to enter", next), way: "sudo holdfast topology apply --join-file FILE",
	},
	{
		step: "W3", id: "coming.machine", act: Wait,
		when: func(f Facts) bool {
			return f.unnamed() && (!yes(f.Arch) || f.Asks.Address != f.Plan.New.Address || f.Plan.New.UUID != "" && f.Asks.Machine.UUID != f.Plan.New.UUID)
		},
		words: func(f Facts) string {
			return "the machine that asks to enter as " + next(f) + " (UUID " + f.Asks.Machine.UUID + ", " + f.Asks.Address + ") is not the one of the plan: it is not let in"
		},
		way: statusShow,
	},
	{
		step: "W3", id: "coming.learner", act: AddLearner,
		when: func(f Facts) bool {
			return state.Is(f.Learner, 0) && state.Is(f.Voters, 2) && state.Is(f.Record, state.EtcdPair) && yes(f.Contact)
		},
		words: says("etcd lists %s as a learner, which does not vote", next),
	},
	{
		// The new host is told its member only by the plan. So a learner that the plan does not name
		// was never started.
		step: "W3", id: "coming.noted", act: WritePlan, when: func(f Facts) bool { return f.Learner.Known && f.Learner.Value != 0 && f.Learner.Value != f.Plan.Third },
		words: says("the plan names the member of %s, which may start its etcd", next),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Third, p.Newcomer = f.Learner.Value, f.Asks })
		},
	},
	{
		step: "W3", id: "coming.ready", act: Wait,
		when: func(f Facts) bool {
			return !f.Learner.Known || f.Learner.Value == 0 || f.LearnerName == ""
		},
		words: says("waits until etcd of %s runs and has its data", next),
	},
	{
		step: "W3", id: "coming.behind", act: Wait, when: func(f Facts) bool { return !f.Behind.Known || f.Behind.Value > etcdmember.MostBehind },
		words: says("waits until %s lacks little of etcd's log", next),
	},
	{
		step: "W4", id: "coming.pair", act: Wait,
		when: func(f Facts) bool {
			return !state.Is(f.Record, state.EtcdPair) || !state.Is(f.PeerRecord, state.EtcdPair) || !yes(f.Contact) || !f.Told.Value.Target
		},
		words: says("waits until either host may be lost, and %s has the site of three", there), way: explainEtcd,
	},
	{
		step: "W4", id: "coming.let", act: WritePlan, when: always,
		words: says("both etcd keepers may let %s vote: for about a second the loss of either host stops writes until it is back", next),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage = LettingIn })
		},
	},
})

var lettingRules = concat(leaveRules, copyRules, wordRules, []rule{
	{
		step: "W4", id: "letting.votes", act: Wait,
		when: func(f Facts) bool {
			return !state.Is(f.Voters, 3) || !state.Is(f.Record, state.EtcdMajority) || f.Told.Value.Record != state.EtcdMajority || !f.far() || !yes(f.OthersServe)
		},
		words: says("waits until %s votes, and both etcd keepers know it", next), way: explainEtcd,
	},
	{
		// Not earlier: a learner serves no API server.
		step: "W4", id: "letting.ready", act: Wait, when: func(f Facts) bool { return !yes(f.Ready) },
		words: says("waits until the Node of %s is ready and its API server answers", next), way: statusShow,
	},
	{
		step: "W5", id: "letting.hand", act: WritePlan, when: always,
		words: says("%s votes: from here on the plan only goes forward", next), plan: to(Handing),
	},
})

var backRules = concat(copyRules, []rule{
	{
		// It was let in while the plan was taken back.
		step: "W5", id: "back.late", act: WritePlan, when: func(f Facts) bool { return state.Is(f.Voters, 3) },
		words: says("%s votes already: the plan only goes forward", next),
		plan:  func(f Facts) *Plan { return with(f, func(p *Plan) { p.Stage, p.Ended = Handing, "" }) },
	},
	{
		// Before the word goes: an empty peer would take the learner for its own.
		step: "W2", id: "back.alone", act: DropLearner, when: func(f Facts) bool { return f.alone() && f.thirdListed() },
		words: says("etcd does not list %s any more", next),
	},
}, unwordRules, []rule{
	{
		step: "W2", id: "back.unknown", act: Wait, when: func(f Facts) bool { return !f.Voters.Known || !f.Learner.Known },
		words: says("waits until etcd tells its members"), way: explainEtcd,
	},
	{
		step: "W2", id: "back.far", act: Wait, when: func(f Facts) bool { return !f.far() && !f.alone() && !f.gone() },
		words: says("waits until the etcd keeper of %s knows that %s does not come", there, next),
	},
	{
		step: "W2", id: "back.learner", act: DropLearner, when: Facts.thirdListed,
		words: says("etcd does not list %s any more", next),
	},
	{
		step: "W2", id: "back.new", act: DropNew, when: func(f Facts) bool { return !no(f.Node) },
		words: says("the cluster has nothing of %s any more", next),
	},
	{
		step: "W2", id: "back.pair", act: Wait,
		when:  func(f Facts) bool { return !state.Is(f.Record, state.EtcdPair) && !state.Is(f.Record, state.EtcdSole) },
		words: says("waits until either host may be lost again"), way: explainEtcd,
	},
	{
		step: "W2", id: "back.over", act: WritePlan, when: always,
		words: says("the plan was taken back: the site has two control planes as before"), plan: to(Aborted),
	},
})

// bootRules, handRules, endRules and dressRules are what each of the two does on itself.
var bootRules = []rule{{
	// Before maintenance: Pacemaker starts nothing then.
	step: "W5", id: "hand.boot", act: KubeletBoot, when: func(f Facts) bool { return !yes(f.Boots) },
	words: says("kubelet of %s starts at boot without Pacemaker", here),
}}

var maintainRules = []rule{
	{
		step: "W5", id: "hand.far-boots", act: Wait,
		when: func(f Facts) bool {
			return !yes(f.Halted) && !yes(f.Maintained) && (!state.Is(f.Record, state.EtcdMajority) || !f.told(func(p Progress) bool { return p.Boots && p.Record == state.EtcdMajority }))
		},
		words: says("waits until kubelet of %s starts at boot without Pacemaker, too, and both etcd keepers know that three vote", there),
	},
	{
		step: "W5", id: "hand.maintain", act: Maintain, when: func(f Facts) bool { return !yes(f.Halted) && !yes(f.Maintained) },
		words: says("Pacemaker starts, stops and fences nothing any more: raft's majority of three decides"),
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
	step: "W5", id: "hand.await", act: Tell, when: func(f Facts) bool {
		return !yes(f.Halted) && !yes(f.Maintained) && f.Told.Known && f.Told.Value != f.Progress()
	},
	words: says("%s tells how far it is", here),
}, {
	step: "W5", id: "hand.unmaintained", act: Wait, when: func(f Facts) bool { return !yes(f.Halted) && !yes(f.Maintained) },
	words: says("waits until %s has put Pacemaker into maintenance", there),
}}

// turnRules have the other host go first: of three members only one is down at a time.
var turnRules = []rule{{
	step: "W5", id: "hand.turn", act: Wait,
	when: func(f Facts) bool {
		return no(f.Kubelets) && !yes(f.Halted) && !f.told(func(p Progress) bool { return p.Kubelets })
	},
	words: says("waits until etcd of %s runs under kubelet", there),
}}

var handRules = []rule{
	{
		step: "W5", id: "hand.pod", act: PutPod, when: func(f Facts) bool { return !yes(f.Pod) },
		words: says("kubelet's file of etcd is made on %s", here),
	},
	{
		// Only while the two other members carry the cluster.
		step: "W5", id: "hand.stop", act: StopEtcd,
		when: func(f Facts) bool {
			return no(f.Kubelets) && yes(f.Boots) && (no(f.Halted) && yes(f.Maintained) && yes(f.OthersServe) && state.Is(f.Voters, 3) && state.Is(f.Record, state.EtcdMajority) || yes(f.Halted) && yes(f.Podmans))
		},
		words: says("etcd of %s goes from Pacemaker to kubelet: the other two serve meanwhile", here),
	},
	{
		step: "W5", id: "hand.give", act: GivePod, when: func(f Facts) bool { return no(f.Kubelets) && yes(f.Halted) && no(f.Podmans) },
		words: says("kubelet of %s starts etcd", here),
	},
	{
		step: "W5", id: "hand.others", act: Wait, when: func(f Facts) bool { return !yes(f.Kubelets) },
		words: says("waits until the two other members of etcd serve"), way: "etcdctl endpoint status --cluster",
	},
}

var handedRules = []rule{
	{
		step: "W5", id: "hand.runs", act: Wait, when: func(f Facts) bool { return !f.handed() || !f.Told.Known || !f.Told.Value.Kubelets },
		words: says("waits until etcd of both runs under kubelet, and three vote"), way: "sudo crictl ps -a --name etcd; sudo journalctl -u kubelet -n 50",
	},
	{
		step: "W6", id: "hand.over", act: WritePlan, when: always,
		words: says("kubelet runs all three members of etcd: Corosync and Pacemaker end"), plan: to(Ending),
	},
}

var farHandedRules = []rule{{
	// The other host tells this stage once nothing of one of two is left there. A copy that is late
	// would have its host wait for Pacemaker, which is gone by then.
	step: "W6", id: "end.far", act: Wait, when: func(f Facts) bool {
		return !no(f.Runs) && !f.told(func(p Progress) bool { return p.Stage == Ending && p.Ended })
	},
	words: says("waits until %s has ended its Corosync and Pacemaker", there),
}}

var endRules = []rule{
	{
		step: "W6", id: "end.ring", act: EndRing, when: func(f Facts) bool { return !no(f.Runs) },
		words: says("Pacemaker and Corosync of %s end for good; what they started runs on", here),
	},
	{
		step: "W6", id: "end.pair", act: EndPair, when: func(f Facts) bool { return !no(f.Paired) },
		words: says("%s forgets that it was one of two", here),
	},
}

var endedRules = []rule{
	{
		step: "W7", id: "end.over", act: WritePlan, when: always,
		words: says("nothing of the two is left: the objects and files become those of three"), plan: to(Dressing),
	},
}

var dressRules = []rule{{
	step: "W7", id: "dress", act: Dress, when: func(f Facts) bool { return !yes(f.Dressed) },
	words: says("%s becomes one of three control planes", here),
}}

var dressedRules = []rule{
	{
		step: "W7", id: "dress.await", act: Wait, when: func(f Facts) bool { return !f.Told.Known || !f.Told.Value.Dressed },
		words: says("waits until %s has become one of three control planes", there),
	},
	{
		step: "W7", id: "dress.whole", act: WritePlan, when: always,
		words: says("the site has three control planes: any one may be lost"), plan: to(Whole),
	},
}

func concat(lists ...[]rule) (out []rule) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}
