package narrow

import (
	"github.com/holdfast/holdfast/internal/model/state"
)

// takeRules have a host that does not carry the plan keep the cluster's newest copy of it.
var takeRules = []rule{{
	step: "N1", id: "take", act: WritePlan,
	when: func(f Facts) bool {
		c := f.Lock
		return c.Known && c.Value.ID != "" && c.Value.Plan.Peer == f.Host && (f.Plan == nil && !c.Value.Plan.Stage.Over() || f.Plan != nil && newer(c.Value.Plan, *f.Plan))
	},
	words: func(f Facts) string {
		return "this host keeps a copy of the plan of " + f.Lock.Value.Plan.Survivor + " for two control planes"
	},
	plan: func(f Facts) *Plan { p := f.Lock.Value.Plan; return &p },
}}

// newer reports whether a copy is of another plan, which begins only after this one is over, or is of
// a later stage, says that the host that goes is gone, or is of a plan that this host took for ended.
func newer(p, own Plan) bool {
	if p.ID != own.ID {
		return own.Stage.Over() && !p.Stage.Over()
	}
	return p.Stage.After(own.Stage) || own.Stage == Aborted && !p.Stage.Over() || p.Stage == own.Stage && p.Accepts.Gone && !own.Accepts.Gone
}

// goneRules end a copy whose plan the cluster has no more: before this host has done anything by it, or
// after the third member left. In between the carrier waits for this host, so the cluster has the plan.
var goneRules = []rule{{
	step: "N1", id: "gone", act: WritePlan,
	when: func(f Facts) bool {
		return f.Lock.Known && f.Lock.Value.ID != f.Plan.ID && f.Plan.Stage == Planned
	},
	words: says("the cluster has no plan to go on without %s any more", old), plan: to(Aborted),
}, {
	// The other host went on alone and ended the plan without this one.
	step: "N7", id: "gone.whole", act: WritePlan,
	when: func(f Facts) bool {
		return f.Lock.Known && f.Lock.Value.ID != f.Plan.ID && (f.Plan.Stage == Parting || f.Plan.Stage == Forgetting) && f.parted()
	},
	words: says("the plan has ended: the site has two control planes, and %s is none of them", old), plan: to(Whole),
}}

// restRules apply without a plan.
var restRules = []rule{
	{
		step: "N1", id: "rest.dry", act: Wait, when: func(f Facts) bool { return begins(f) && f.Wish.Dry },
		words: says("the gates for two control planes were looked at: nothing was changed"),
	},
	{
		step: "N1", id: "rest.begin", act: WritePlan, when: func(f Facts) bool { return begins(f) && len(closed(f, *f.Wish)) == 0 },
		words: says("the plan for two control planes is written"),
		plan:  func(f Facts) *Plan { p := Begin(f, *f.Wish); return &p },
	},
	{
		step: "N1", id: "rest.refuse", act: Wait, when: begins,
		words: func(f Facts) string {
			g := closed(f, *f.Wish)[0]
			return g.Words + "; type: " + g.Way
		},
	},
	{step: "N7", id: "rest", act: Idle, when: always, words: says("no control plane goes")},
}

// overRules have the other host tell that it knows the end; overCarrierRules wait for that, so that no
// copy of a plan that is over stays behind.
var overRules = []rule{{
	step: "N7", id: "over.tell", act: Tell,
	when: func(f Facts) bool {
		return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && f.Told.Known && f.Told.Value.Stage != f.Plan.Stage
	},
	words: says("%s tells that it knows the end of the plan", here),
}}

var overCarrierRules = append([]rule{
	{
		step: "N7", id: "over.copy", act: CopyPlan,
		when: func(f Facts) bool {
			return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && f.Lock.Value.Plan.Stage != f.Plan.Stage
		},
		words: says("%s is told the end of the plan", there),
	},
	{
		step: "N7", id: "over.await", act: Wait,
		when:  func(f Facts) bool { return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && !f.farOver() && !f.alone() },
		words: says("waits until %s knows the end of the plan", there),
	},
	{
		step: "N7", id: "over.lock", act: DropLock, when: func(f Facts) bool { return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID },
		words: says("the cluster's copy of the plan is deleted, since the plan is over"),
	},
	{
		step: "N7", id: "over.unknown", act: Wait, when: func(f Facts) bool { return !f.Lock.Known },
		words: says("the API does not say whether the cluster's copy of the plan is gone"),
	},
}, restRules...)

// farOver reports whether the other host knows the end, or never said that it has a copy. One that has
// a copy all the same ends it by itself, once the cluster has none.
func (f Facts) farOver() bool { return f.far() || f.Told.Known && f.Told.Value.Stage == "" }

// copyRules keep the cluster's copy as new as the plan, for the other host.
var copyRules = []rule{{
	step: "N1", id: "copy", act: CopyPlan,
	when:  func(f Facts) bool { return f.Lock.Known && !f.copied() },
	words: says("the cluster gets the plan, which is the lock for other work on hosts, too"),
}}

// copied reports whether the cluster's copy says what the plan does.
func (f Facts) copied() bool {
	c := f.Lock.Value
	return c.ID == f.Plan.ID && c.Plan.Stage == f.Plan.Stage && c.Plan.Accepts == f.Plan.Accepts
}

var tellRules = []rule{
	{
		step: "N1", id: "tell", act: Tell, when: func(f Facts) bool { return f.Told.Known && f.Told.Value != f.Progress() },
		words: says("%s tells how far it is", here),
	},
	{step: "N1", id: "follow", act: Wait, when: always, words: says("%s carries the plan on", there)},
}

var plannedRules = []rule{
	{
		step: "N1", id: "planned.abort", act: WritePlan, when: asksAbort, words: says("the plan is taken back, as was asked"),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended = Aborted, "an administrator took it back" })
		},
	},
	{step: "N1", id: "planned.lock-unknown", act: Wait, when: func(f Facts) bool { return !f.Lock.Known }, words: says("the API does not answer: nothing was changed yet")},
	{
		step: "N1", id: "planned.lock", act: CopyPlan, when: func(f Facts) bool { return f.Lock.Value.ID == "" },
		words: says("the cluster gets the plan, which is the lock for other work on hosts, too"),
	},
	{
		step: "N1", id: "planned.gate", act: Wait, when: func(f Facts) bool { return len(closed(f, f.Plan.wish())) > 0 },
		words: func(f Facts) string { g := closed(f, f.Plan.wish())[0]; return g.Words + "; type: " + g.Way },
	},
	{
		step: "N1", id: "planned.begin", act: WritePlan, when: always,
		words: says("%s and %s are prepared as two, and three vote meanwhile", here, there), plan: to(Preparing),
	},
}

// leaveRules take a plan back. Until etcd goes to the etcd keepers kubelet has it on all three.
var leaveRules = []rule{{
	step: "N1", id: "back.asked", act: WritePlan, when: asksAbort, words: says("the plan is taken back, as was asked"),
	plan: func(f Facts) *Plan {
		return with(f, func(p *Plan) { p.Stage, p.Ended = TakingBack, "an administrator took it back" })
	},
}}

// amendRules take in that a person said that the host that goes will not come back.
var amendRules = []rule{{
	step: "N1", id: "amend", act: WritePlan,
	when: func(f Facts) bool {
		return f.Wish != nil && !f.Wish.Abort && f.Wish.ID == f.Plan.ID && f.Wish.Accepts.Gone && !f.Plan.Accepts.Gone
	},
	words: says("nobody waits for %s any more, as was said: while etcd of a host restarts nobody can write", old),
	plan:  func(f Facts) *Plan { return with(f, func(p *Plan) { p.Accepts.Gone = true }) },
}}

var prepareRules = []rule{
	{
		step: "N2", id: "prepare", act: Prepare, when: func(f Facts) bool { return !yes(f.Prepared) },
		words: says("%s gets the packages and files of one of two, and the accounts of both BMCs", here),
	},
}

// preparedRules come before anything that the cluster notices: two hosts that cannot fence each other
// serve less than three do.
var preparedRules = []rule{
	{
		step: "N2", id: "prepare.tested", act: Wait,
		when:  func(f Facts) bool { return !yes(f.Tested) || !f.told(func(p Progress) bool { return p.Tested }) },
		words: says("waits until %s and %s have both tested the BMCs of both", here, there), way: "holdfast fencing verify",
	},
	{
		step: "N2", id: "prepare.far", act: Wait, when: func(f Facts) bool { return !f.far() || !f.Told.Value.Prepared },
		words: says("waits until %s is prepared, too", there),
	},
	{
		step: "N3", id: "prepare.over", act: WritePlan, when: always,
		words: says("both hosts can fence each other: the objects and files become those of two"), plan: to(Dressing),
	},
}

// dressRules come before Corosync runs: the agent of one of two has the loops that it needs.
var dressRules = []rule{{
	step: "N3", id: "dress", act: Dress, when: func(f Facts) bool { return !yes(f.Dressed) },
	words: says("%s becomes one of two control planes in its files", here),
}}

var dressedRules = []rule{
	{
		step: "N3", id: "dress.await", act: Wait, when: func(f Facts) bool { return !f.far() || !f.Told.Value.Dressed },
		words: says("waits until %s has become one of two control planes in its files", there),
	},
	{
		step: "N4", id: "dress.over", act: WritePlan, when: always,
		words: says("Corosync and Pacemaker begin on both hosts, and change nothing yet"), plan: to(Pairing),
	},
}

// wordRules say the plan's word to the etcd keeper of this host, unwordRules take it back.
var wordRules = []rule{{
	// Before the keeper runs: without the word it takes the members for those of an installation.
	step: "N4", id: "word", act: PutWord, when: func(f Facts) bool { return !f.said() },
	words: says("the etcd keeper of %s will learn that %s goes", here, old),
}}

var unwordRules = []rule{{
	step: "N5", id: "unword", act: DropWord, when: func(f Facts) bool { return !f.said() },
	words: says("the etcd keeper of %s has written its record, and is told nothing more", here),
}}

var ringRules = []rule{{
	step: "N4", id: "ring", act: EnterRing, when: func(f Facts) bool { return !yes(f.Ring) },
	words: says("Corosync, Pacemaker and the etcd keeper begin on %s, without a thing to start", here),
}}

var setUpRules = []rule{
	{
		step: "N4", id: "ring.await", act: Wait,
		when:  func(f Facts) bool { return !f.far() || !f.Told.Value.Ring || !yes(f.Contact) },
		words: says("waits for contact with %s", there), way: "sudo corosync-cfgtool -s",
	},
	{
		// In maintenance from the first moment on: kubelet has etcd, and nobody may take it.
		step: "N4", id: "set-up", act: SetUp, when: func(f Facts) bool { return !yes(f.SetUp) },
		words: says("Pacemaker gets its configuration, and starts, stops and fences nothing yet"),
	},
}

// askRules speak for Pacemaker, which asks for nothing in maintenance, also after a boot.
var askRules = []rule{{
	step: "N4", id: "ask", act: AskStart, when: func(f Facts) bool { return yes(f.Ring) && yes(f.Maintained) && !yes(f.Asked) },
	words: says("the etcd keeper of %s is asked to run etcd, and waits while kubelet does", here),
}}

var pairedRules = []rule{
	{
		step: "N4", id: "pairing.record", act: Wait,
		when: func(f Facts) bool {
			return !state.Is(f.Record, state.EtcdMajority) || f.Told.Value.Record != state.EtcdMajority
		},
		words: says("waits until both etcd keepers have written that raft's majority of three decides"), way: explainEtcd,
	},
	{
		// Once more, since it was minutes ago: from here on the plan only goes forward.
		step: "N4", id: "pairing.tested", act: Wait,
		when:  func(f Facts) bool { return !yes(f.Tested) || !f.Told.Value.Tested },
		words: says("waits until %s and %s have both tested the BMCs of both", here, there), way: "holdfast fencing verify",
	},
	{
		step: "N4", id: "pairing.serves", act: Wait,
		when:  func(f Facts) bool { return !f.carried() || !state.Is(f.Voters, three) || !yes(f.Maintained) },
		words: says("waits until all three members of etcd serve"), way: "etcdctl endpoint status --cluster",
	},
	{
		step: "N5", id: "pairing.hand", act: WritePlan, when: always,
		words: says("etcd goes to the etcd keepers of both hosts: from here on the plan only goes forward"), plan: to(Handing),
	},
}

// backRules are what each of the two takes back on itself. kubelet has etcd all the time.
var backRules = []rule{
	{
		step: "N4", id: "back.unknown", act: Wait, when: func(f Facts) bool { return !yes(f.Kubelets) },
		words: says("it is not known that kubelet of %s has etcd: nothing is ended", here), way: statusShow,
	},
	{
		step: "N4", id: "back.ring", act: EndRing, when: func(f Facts) bool { return !no(f.Runs) },
		words: says("Pacemaker and Corosync of %s end for good; they have started nothing", here),
	},
	{
		step: "N4", id: "back.pair", act: EndPair, when: func(f Facts) bool { return !no(f.Paired) || !f.said() },
		words: says("%s forgets that it was to be one of two", here),
	},
	{
		step: "N3", id: "back.dress", act: Undress, when: func(f Facts) bool { return !yes(f.Plain) },
		words: says("%s becomes one of three control planes in its files again", here),
	},
}

var takenBackRules = []rule{
	{
		step: "N2", id: "back.far", act: Wait, when: func(f Facts) bool { return !f.far() || !f.Told.Value.Undone },
		words: says("waits until %s has taken the plan back, too", there),
	},
	{
		step: "N2", id: "back.over", act: WritePlan, when: always,
		words: says("the plan was taken back: the site has three control planes as before"), plan: to(Aborted),
	},
}

// turnRules have the other host go first: of three members only one is down at a time.
var turnRules = []rule{{
	step: "N5", id: "hand.turn", act: Wait,
	when: func(f Facts) bool {
		return yes(f.Kubelets) && f.Lock.Known && f.copied() && !f.told(func(p Progress) bool { return p.Kept })
	},
	words: says("waits until etcd of %s runs under its etcd keeper", there), way: explainEtcd,
}}

// handRules are what each of the two does on itself. They need no API. Once kubelet's file is out of
// its folder the etcd keeper starts etcd, also after a boot: in majority it asks neither Pacemaker nor
// the peer.
var handRules = []rule{
	{
		step: "N5", id: "hand.take", act: TakeEtcd,
		when: func(f Facts) bool {
			return yes(f.Kubelets) && f.mayHand() && f.carried()
		},
		words: says("etcd of %s goes from kubelet to its etcd keeper: the other two serve meanwhile", here),
	},
	{
		step: "N5", id: "hand.others", act: Wait, when: func(f Facts) bool { return !no(f.Kubelets) && f.known() },
		words: says("waits until the two other members of etcd serve"), way: "etcdctl endpoint status --cluster",
	},
}

// known reports whether nobody waits for a copy of the plan.
func (f Facts) known() bool { return !f.Lock.Known || f.copied() }

// mayHand reports whether etcd of this host may change hands: nobody goes on alone, and Pacemaker
// notices nothing. The carrier goes second.
func (f Facts) mayHand() bool {
	second := f.Plan.Survivor != f.Host || f.told(func(p Progress) bool { return p.Kept })
	return second && state.Is(f.Record, state.EtcdMajority) && state.Is(f.Voters, three) && yes(f.Maintained)
}

var manageRules = []rule{
	{
		step: "N5", id: "hand.kept", act: Wait,
		when: func(f Facts) bool {
			return yes(f.Maintained) && (!f.kept() || !yes(f.PeerHere) || !f.told(func(p Progress) bool { return p.Kept }))
		},
		words: says("waits until etcd of both runs under its etcd keeper, and three vote"), way: explainEtcd,
	},
	{
		// Both keepers have etcd: Pacemaker finds it running, and has nothing to start.
		step: "N5", id: "hand.manage", act: Manage, when: func(f Facts) bool { return !no(f.Maintained) },
		words: says("Pacemaker's maintenance ends: it watches kubelet and etcd, and fences a lost host"),
	},
}

var peerManagedRules = []rule{
	{
		step: "N5", id: "hand.tell", act: Tell,
		when:  func(f Facts) bool { return !no(f.Maintained) && f.Told.Known && f.Told.Value != f.Progress() },
		words: says("%s tells how far it is", here),
	},
	{
		step: "N5", id: "hand.unmanaged", act: Wait, when: func(f Facts) bool { return !no(f.Maintained) },
		words: says("waits until %s has ended Pacemaker's maintenance", there),
	},
}

var orderRules = []rule{{
	// After the maintenance: in it Pacemaker starts nothing.
	step: "N5", id: "hand.order", act: Order, when: func(f Facts) bool { return !no(f.Boots) },
	words: says("Pacemaker of %s starts kubelet at boot, once it has seen its peer", here),
}}

var handedRules = []rule{
	{
		step: "N5", id: "hand.far", act: Wait,
		when:  func(f Facts) bool { return !f.kept() || !f.far() || !f.Told.Value.Kept || !f.Told.Value.Ordered },
		words: says("waits until Pacemaker of %s starts kubelet at boot, too", there),
	},
	{
		step: "N6", id: "hand.over", act: WritePlan, when: always,
		words: says("both hosts are set up as two, and three vote: %s goes now", old), plan: to(Parting),
	},
}

// partRules remove the third member once nothing else of three is left. From the removal until both
// records say pair both hosts are needed, as in a site of two whose peer has just joined.
var partRules = []rule{
	{
		step: "N6", id: "part.ask", act: AskEmpty, when: func(f Facts) bool { return !f.parted() && !f.Plan.Accepts.Gone && !yes(f.Leaves) },
		words: says("%s gets no pods any more, and is emptied", old),
	},
	{
		step: "N6", id: "part.empty", act: Wait, when: func(f Facts) bool { return !f.parted() && !f.Plan.Accepts.Gone && !yes(f.Empty) },
		words: says("waits until no pod is left on %s but those of DaemonSets", old), way: "kubectl get pods -A -o wide",
	},
	{
		step: "N6", id: "part.both", act: Wait,
		when: func(f Facts) bool {
			return !f.parted() && (!f.kept() || !f.far() || !f.Told.Value.Kept || !yes(f.PeerHere) || !yes(f.Contact) || !no(f.StandIn))
		},
		words: says("waits until etcd of both hosts serves, and they are in contact: both are needed in the moment in which %s goes", old), way: explainEtcd,
	},
	{
		step: "N6", id: "part.tested", act: Wait,
		when: func(f Facts) bool {
			return !f.parted() && (!yes(f.Tested) || !f.Told.Value.Tested || !no(f.Maintained))
		},
		words: says("waits until %s and %s have both tested the BMCs of both", here, there), way: "holdfast fencing verify",
	},
	{
		step: "N6", id: "part.leave", act: Leave, when: func(f Facts) bool { return yes(f.Listed) },
		words: says("etcd does not list %s any more: for about a second the loss of either host stops writes until it is back", old),
	},
	{
		step: "N6", id: "part.pair", act: Wait, when: func(f Facts) bool { return !no(f.Listed) || !f.paired() },
		words: says("waits until both hosts hold every write, and either may be lost"), way: explainEtcd,
	},
	{
		step: "N7", id: "part.over", act: WritePlan, when: always,
		words: says("either host may be lost: the cluster forgets %s", old), plan: to(Forgetting),
	},
}

// parted reports whether the member of the host that goes is known to be gone.
func (f Facts) parted() bool { return no(f.Listed) }

// paired reports whether the rules of two hold here: this host may go on alone, or did.
func (f Facts) paired() bool { return state.Is(f.Record, state.EtcdPair) || f.alone() }

var forgetRules = []rule{
	{
		step: "N7", id: "forget.quiet", act: Wait, when: func(f Facts) bool { return !no(f.Node) && !no(f.Answers) },
		words: says("waits until the API server and etcd of %s answer no more", old), way: "switch that host off",
	},
	{
		step: "N7", id: "forget.old", act: DropOld, when: func(f Facts) bool { return !no(f.Node) },
		words: says("the cluster has nothing of %s any more, and lets it in no more", old),
	},
	{
		step: "N7", id: "forget.whole", act: WritePlan, when: always,
		words: says("the site has two control planes; wipe %s before it is used for something else", old), plan: to(Whole),
	},
}
