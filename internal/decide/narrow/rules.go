package narrow

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/model/state"
)

// takeRules have a host that does not carry the plan keep the cluster's newest copy of it.
var takeRules = []rule{{
	Step: "N1", ID: "take", Act: WritePlan,
	When: func(f Facts) bool {
		c := f.Lock
		return c.Known && c.Value.ID != "" && c.Value.Plan.Other() == f.Host && (f.Plan == nil && !c.Value.Plan.Stage.Over() || f.Plan != nil && newer(f.copy(), *f.Plan))
	},
	Words: func(f Facts) string {
		return "this host keeps a copy of the plan of " + f.Lock.Value.Plan.Carrier() + " for two control planes"
	},
	Plan: func(f Facts) *Plan { p := f.copy(); return &p },
}}

// copy is the cluster's copy of the plan, as this host takes it. One that was taken back without this host
// comes to its end here once nothing of two is left.
func (f Facts) copy() Plan {
	p := f.Lock.Value.Plan
	if p.Stage == Aborted && f.Plan != nil && f.Plan.ID == p.ID && f.Plan.Stage != Planned && !f.undone() {
		p.Stage = TakingBack
	}
	return p
}

// newer reports whether a copy is of another plan, which begins only after this one is over, or is of
// a later stage, says that the host that goes is gone, or is of a plan that this host took for ended.
func newer(p, own Plan) bool {
	if p.ID != own.ID {
		return own.Stage.Over() && !p.Stage.Over()
	}
	return p.Stage.After(own.Stage) || own.Stage == Aborted && !p.Stage.Over() || p.Stage == own.Stage && p.Accepts.Gone && !own.Accepts.Gone
}

// restRules apply without a plan.
var restRules = []rule{
	{
		Step: "N1", ID: "rest.dry", Act: Wait, When: func(f Facts) bool { return begins(f) && f.Wish.Dry },
		Words: says("the gates for two control planes were looked at: nothing was changed"),
	},
	{
		Step: "N1", ID: "rest.begin", Act: WritePlan, When: func(f Facts) bool { return begins(f) && len(closed(f, *f.Wish)) == 0 },
		Words: says("the plan for two control planes is written"),
		Plan:  func(f Facts) *Plan { p := Begin(f, *f.Wish); return &p },
	},
	{
		Step: "N1", ID: "rest.refuse", Act: Wait, When: begins,
		Words: func(f Facts) string {
			g := closed(f, *f.Wish)[0]
			return g.Words + "; type: " + g.Way
		},
	},
	{Step: "N7", ID: "rest", Act: Idle, When: always, Words: says("no control plane goes")},
}

// overRules are those of a plan that is over. The carrier takes the cluster's copy of a plan that it took
// for ended, as the other host does.
var (
	overRules        = slices.Concat(plans.Over[Facts, Act, Plan]("N7", ends, Facts.sight), leftRules)
	overCarrierRules = slices.Concat(plans.OverCarrier[Facts, Act, Plan]("N7", ends, Facts.sight), leftRules, takeRules, restRules)
)

// leftRules take away what goes with the lock, if somebody deleted the lock.
var leftRules = []rule{{
	Step: "N7", ID: "over.left", Act: DropLock, When: func(f Facts) bool { return f.gone() && yes(f.Left) },
	Words: says("the accounts of BMCs that the cluster got by the plan are deleted: somebody deleted its copy of the plan before"),
}, {
	// The agent does not look again at a plan of which nothing is left to do.
	Step: "N7", ID: "over.left-unknown", Act: Wait, When: func(f Facts) bool { return f.gone() && !f.Left.Known },
	Words: says("the API does not say whether the cluster still has the accounts of BMCs that it got by the plan"),
}}

// copyRules keep the cluster's copy as new as the plan, for the other host.
var copyRules = []rule{{
	Step: "N1", ID: "copy", Act: CopyPlan,
	When:  func(f Facts) bool { return f.Lock.Known && !f.copied() },
	Words: says("the cluster gets the plan, which is the lock for other work on hosts, too"),
}}

// copied reports whether the cluster's copy says what the plan does.
func (f Facts) copied() bool {
	c := f.Lock.Value
	return c.ID == f.Plan.ID && c.Plan.Stage == f.Plan.Stage && c.Plan.Accepts == f.Plan.Accepts && c.Plan.Lost == f.Plan.Lost && c.Plan.Taken == f.Plan.Taken
}

// tellRules have the other host tell how far it is before it answers a person.
var tellRules = plans.Tells[Facts, Act, Plan]("N1", ends, Facts.sight, Facts.toldAll)

var plannedRules = []rule{
	{
		Step: "N1", ID: "planned.abort", Act: WritePlan, When: asksAbort, Words: says("the plan is taken back, as was asked"),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended, p.Lost = Aborted, "an administrator took it back", f.lost() })
		},
	},
	{Step: "N1", ID: "planned.lock-unknown", Act: Wait, When: func(f Facts) bool { return !f.Lock.Known }, Words: says("the API does not answer: nothing was changed yet")},
	{
		Step: "N1", ID: "planned.lock", Act: CopyPlan, When: func(f Facts) bool { return f.Lock.Value.ID == "" },
		Words: says("the cluster gets the plan, which is the lock for other work on hosts, too"),
	},
	{
		Step: "N1", ID: "planned.ends", Act: WritePlan,
		When: func(f Facts) bool { return f.Now.Sub(f.Plan.Begun) >= wishLife && len(closed(f, f.Plan.wish())) > 0 },
		Words: func(f Facts) string {
			return "the plan ends, and nothing was changed: it has not begun for a quarter of an hour, and a gate is closed: " + closed(f, f.Plan.wish())[0].Words
		},
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended = Aborted, "a gate is closed: "+closed(f, f.Plan.wish())[0].Words })
		},
	},
	{
		Step: "N1", ID: "planned.gate", Act: Wait, When: func(f Facts) bool { return len(closed(f, f.Plan.wish())) > 0 },
		Words: func(f Facts) string { return plans.Shuts(closed(f, f.Plan.wish())[0]) },
	},
	{
		Step: "N1", ID: "planned.begin", Act: WritePlan, When: always,
		Words: says("%s and %s are prepared as two, and three vote meanwhile", here, there), Plan: to(Preparing),
	},
}

// leaveRules take a plan back. Until etcd goes to the etcd keepers kubelet has it on all three.
var leaveRules = []rule{{
	Step: "N1", ID: "back.asked", Act: WritePlan, When: asksAbort, Words: says("the plan is taken back, as was asked"),
	Plan: func(f Facts) *Plan {
		return with(f, func(p *Plan) { p.Stage, p.Ended, p.Lost = TakingBack, "an administrator took it back", f.lost() })
	},
}, {
	// The cluster had it before anything was changed.
	Step: "N1", ID: "back.gone", Act: WritePlan, When: Facts.gone,
	Words: says("the plan is taken back: the cluster has none to go on without %s any more", old),
	Plan: func(f Facts) *Plan {
		return with(f, func(p *Plan) { p.Stage, p.Ended = TakingBack, "the cluster's copy of the plan was deleted" })
	},
}}

// amendRules take in that a person said that the host that goes will not come back.
var amendRules = []rule{{
	Step: "N1", ID: "amend", Act: WritePlan,
	When: func(f Facts) bool {
		return f.Wish != nil && !f.Wish.Abort && f.Wish.ID == f.Plan.ID && f.Wish.Accepts.Gone && !f.Plan.Accepts.Gone
	},
	Words: says("nobody waits for %s any more, as was said: while etcd of a host restarts nobody can write", old),
	Plan:  func(f Facts) *Plan { return with(f, func(p *Plan) { p.Accepts.Gone = true }) },
}}

var prepareRules = []rule{
	{
		Step: "N2", ID: "prepare", Act: Prepare, When: func(f Facts) bool { return !yes(f.Prepared) },
		Words: says("%s gets the packages and files of one of two, and the accounts of both BMCs", here),
	},
}

// preparedRules come before anything that the cluster notices: two hosts that cannot fence each other
// serve less than three do.
var preparedRules = []rule{
	{
		Step: "N2", ID: "prepare.tested", Act: Wait,
		When:  func(f Facts) bool { return !yes(f.Tested) || !f.told(func(p Progress) bool { return p.Tested }) },
		Words: says("waits until %s and %s have both tested the BMCs of both", here, there), Way: "holdfast fencing verify",
	},
	{
		Step: "N2", ID: "prepare.far", Act: Wait, When: func(f Facts) bool { return !f.far() || !f.Told.Value.Prepared },
		Words: says("waits until %s is prepared, too", there),
	},
	{
		Step: "N3", ID: "prepare.over", Act: WritePlan, When: always,
		Words: says("both hosts can fence each other: the objects and files become those of two"), Plan: to(Dressing),
	},
}

// dressRules come before Corosync runs: the agent of one of two has the loops that it needs.
var dressRules = []rule{{
	Step: "N3", ID: "dress", Act: Dress, When: func(f Facts) bool { return !yes(f.Dressed) },
	Words: says("%s becomes one of two control planes in its files", here),
}}

var dressedRules = []rule{
	{
		Step: "N3", ID: "dress.await", Act: Wait, When: func(f Facts) bool { return !f.far() || !f.Told.Value.Dressed },
		Words: says("waits until %s has become one of two control planes in its files", there),
	},
	{
		Step: "N4", ID: "dress.over", Act: WritePlan, When: always,
		Words: says("Corosync and Pacemaker begin on both hosts, and change nothing yet"), Plan: to(Pairing),
	},
}

// wordRules say the plan's word to the etcd keeper of this host, unwordRules take it back.
var wordRules = []rule{{
	// Before the keeper runs: without the word it takes the members for those of an installation.
	Step: "N4", ID: "word", Act: PutWord, When: func(f Facts) bool { return !f.said() },
	Words: says("the etcd keeper of %s will learn that %s goes", here, old),
}}

var unwordRules = []rule{{
	Step: "N5", ID: "unword", Act: DropWord, When: func(f Facts) bool { return !f.said() },
	Words: says("the etcd keeper of %s has written its record, and is told nothing more", here),
}}

var ringRules = []rule{{
	Step: "N4", ID: "ring", Act: EnterRing, When: func(f Facts) bool { return !yes(f.Ring) },
	Words: says("Corosync, Pacemaker and the etcd keeper begin on %s, without a thing to start", here),
}}

var setUpRules = []rule{
	{
		Step: "N4", ID: "ring.await", Act: Wait,
		When:  func(f Facts) bool { return !f.far() || !f.Told.Value.Ring || !yes(f.Contact) },
		Words: says("waits for contact with %s", there), Way: "sudo corosync-cfgtool -s",
	},
	{
		// In maintenance from the first moment on: kubelet has etcd, and nobody may take it.
		Step: "N4", ID: "set-up", Act: SetUp, When: func(f Facts) bool { return !yes(f.SetUp) },
		Words: says("Pacemaker gets its configuration, and starts, stops and fences nothing yet"),
	},
}

// maintainRules put Pacemaker back into maintenance if somebody ended it: kubelet has etcd, so Pacemaker
// may not act on it, and etcd changes hands in maintenance alone. The carrier hands over second, so while
// kubelet of the other host has etcd, kubelet of this one has it, too.
var maintainRules = []rule{{
	Step: "N4", ID: "maintain", Act: Maintain, When: func(f Facts) bool { return yes(f.Kubelets) && no(f.Maintained) },
	Words: says("Pacemaker's maintenance was ended too early: it begins again, and the plan ends it"),
}}

// askRules speak for Pacemaker, which asks for nothing in maintenance, also after a boot.
var askRules = []rule{{
	Step: "N4", ID: "ask", Act: AskStart, When: func(f Facts) bool { return yes(f.Ring) && yes(f.Maintained) && !yes(f.Asked) },
	Words: says("the etcd keeper of %s is asked to run etcd, and waits while kubelet does", here),
}}

var pairedRules = []rule{
	{
		Step: "N4", ID: "pairing.record", Act: Wait,
		When: func(f Facts) bool {
			return !state.Is(f.Record, state.EtcdMajority) || f.Told.Value.Record != state.EtcdMajority
		},
		Words: says("waits until both etcd keepers have written that raft's majority of three decides"), Way: explainEtcd,
	},
	{
		// Once more, since it was minutes ago: from here on the plan only goes forward.
		Step: "N4", ID: "pairing.tested", Act: Wait,
		When:  func(f Facts) bool { return !yes(f.Tested) || !f.Told.Value.Tested },
		Words: says("waits until %s and %s have each tested the other one's BMC", here, there), Way: "holdfast fencing verify",
	},
	{
		Step: "N4", ID: "pairing.maintained", Act: Wait, When: func(f Facts) bool { return !yes(f.Maintained) },
		Words: says("waits until Pacemaker is known to be in maintenance: kubelet has etcd"), Way: crmMon,
	},
	{
		Step: "N4", ID: "pairing.serves", Act: Wait,
		When:  func(f Facts) bool { return !f.carried() || !state.Is(f.Voters, three) },
		Words: says("waits until all three members of etcd serve"), Way: askEtcd,
	},
	{
		Step: "N5", ID: "pairing.hand", Act: WritePlan, When: always,
		Words: says("etcd goes to the etcd keepers of both hosts: from here on the plan only goes forward"), Plan: to(Handing),
	},
}

// backRules are what each of the two takes back on itself. kubelet has etcd all the time.
var backRules = []rule{
	{
		Step: "N4", ID: "back.unknown", Act: Wait, When: func(f Facts) bool { return !yes(f.Kubelets) },
		Words: says("it is not known that kubelet of %s has etcd: nothing is ended", here), Way: statusShow,
	},
	{
		Step: "N4", ID: "back.ring", Act: EndRing, When: func(f Facts) bool { return !no(f.Runs) },
		Words: says("Pacemaker and Corosync of %s end for good; they have started nothing", here),
	},
	{
		Step: "N4", ID: "back.pair", Act: EndPair, When: func(f Facts) bool { return !no(f.Paired) || !f.said() },
		Words: says("%s forgets that it was to be one of two", here),
	},
	{
		Step: "N3", ID: "back.dress", Act: Undress, When: func(f Facts) bool { return !yes(f.Plain) },
		Words: says("%s becomes one of three control planes in its files again", here),
	},
}

var takenBackRules = []rule{
	{
		Step: "N2", ID: "back.far", Act: Wait, When: func(f Facts) bool { return f.Plan.Lost != there(f) && (!f.far() || !f.Told.Value.Undone) },
		Words: says("waits until %s has taken the plan back, too. If its machine is lost for good: sudo holdfast topology apply --abort --is-gone SERIAL", there),
	},
	{
		Step: "N2", ID: "back.over", Act: WritePlan, When: always,
		Words: says("the plan was taken back: the site has three control planes as before"), Plan: to(Aborted),
	},
}

// turnRules have the other host go first: of three members only one is down at a time.
var turnRules = []rule{{
	Step: "N5", ID: "hand.turn", Act: Wait,
	When: func(f Facts) bool {
		return yes(f.Kubelets) && f.Lock.Known && f.copied() && !f.told(func(p Progress) bool { return p.Kept })
	},
	Words: says("waits until etcd of %s runs under its etcd keeper", there), Way: explainEtcd,
}}

// handRules are what each of the two does on itself. They need no API. Once kubelet's file is out of
// its folder the etcd keeper starts etcd, also after a boot: in majority it asks neither Pacemaker nor
// the peer.
var handRules = []rule{
	{
		Step: "N5", ID: "hand.take", Act: TakeEtcd,
		When: func(f Facts) bool {
			return yes(f.Kubelets) && f.mayHand() && f.carried()
		},
		Words: says("etcd of %s goes from kubelet to its etcd keeper: the other two serve meanwhile", here),
	},
	{
		Step: "N5", ID: "hand.maintained", Act: Wait, When: func(f Facts) bool { return !no(f.Kubelets) && f.known() && !yes(f.Maintained) },
		Words: says("waits until Pacemaker is known to be in maintenance: kubelet has etcd"), Way: crmMon,
	},
	{
		Step: "N5", ID: "hand.others", Act: Wait, When: func(f Facts) bool { return !no(f.Kubelets) && f.known() },
		Words: says("waits until the two other members of etcd serve"), Way: askEtcd,
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
		Step: "N5", ID: "hand.kept", Act: Wait,
		When: func(f Facts) bool {
			return !no(f.Maintained) && (!f.kept() || !yes(f.PeerHere) || !f.told(func(p Progress) bool { return p.Kept }))
		},
		Words: says("waits until etcd of both runs under its etcd keeper, and three vote"), Way: explainEtcd,
	},
	{
		// Both keepers have etcd: Pacemaker finds it running, and has nothing to start.
		Step: "N5", ID: "hand.manage", Act: Manage, When: func(f Facts) bool { return !no(f.Maintained) },
		Words: says("Pacemaker's maintenance ends: it watches kubelet and etcd, and fences a lost host"),
	},
}

var peerManagedRules = []rule{
	{
		Step: "N5", ID: "hand.tell", Act: Tell,
		When:  func(f Facts) bool { return !no(f.Maintained) && f.Told.Known && f.Told.Value != f.Progress() },
		Words: says("%s tells how far it is", here),
	},
	{
		Step: "N5", ID: "hand.unmanaged", Act: Wait, When: func(f Facts) bool { return !no(f.Maintained) },
		Words: says("waits until %s has ended Pacemaker's maintenance", there),
	},
}

var orderRules = []rule{{
	// After the maintenance: in it Pacemaker starts nothing.
	Step: "N5", ID: "hand.order", Act: Order, When: func(f Facts) bool { return !no(f.Boots) },
	Words: says("Pacemaker of %s starts kubelet at boot, once it has seen its peer", here),
}}

var handedRules = []rule{
	{
		Step: "N5", ID: "hand.far", Act: Wait,
		When:  func(f Facts) bool { return !f.kept() || !f.far() || !f.Told.Value.Kept || !f.Told.Value.Ordered },
		Words: says("waits until Pacemaker of %s starts kubelet at boot, too", there),
	},
	{
		Step: "N6", ID: "hand.over", Act: WritePlan, When: always,
		Words: says("both hosts are set up as two, and three vote: %s goes now", old), Plan: to(Parting),
	},
}

// partRules remove the third member once nothing else of three is left. From the removal until both
// records say pair both hosts are needed, as in a site of two whose peer has just joined.
var partRules = []rule{
	{
		Step: "N6", ID: "part.ask", Act: AskEmpty, When: func(f Facts) bool { return !f.parted() && !f.Plan.Accepts.Gone && !yes(f.Leaves) },
		Words: says("%s gets no pods any more, and is emptied", old),
	},
	{
		Step: "N6", ID: "part.empty", Act: Wait, When: func(f Facts) bool { return !f.parted() && !f.Plan.Accepts.Gone && !yes(f.Empty) },
		Words: says("waits until no pod is left on %s but those of DaemonSets", old), Way: "kubectl get pods -A -o wide",
	},
	{
		Step: "N6", ID: "part.both", Act: Wait,
		When: func(f Facts) bool {
			return !f.parted() && (!f.kept() || !f.far() || !f.Told.Value.Kept || !yes(f.PeerHere) || !yes(f.Contact) || !no(f.StandIn))
		},
		Words: says("waits until etcd of both hosts serves, and they are in contact: both are needed in the moment in which %s goes", old), Way: explainEtcd,
	},
	{
		Step: "N6", ID: "part.tested", Act: Wait,
		When: func(f Facts) bool {
			return !f.parted() && (!yes(f.Tested) || !f.Told.Value.Tested || !no(f.Maintained))
		},
		Words: says("waits until %s and %s have each tested the other one's BMC", here, there), Way: "holdfast fencing verify",
	},
	{
		Step: "N6", ID: "part.leave", Act: Leave, When: func(f Facts) bool { return yes(f.Listed) },
		Words: says("etcd does not list %s any more: for about a second the loss of either host stops writes until it is back", old),
	},
	{
		Step: "N6", ID: "part.pair", Act: Wait, When: func(f Facts) bool { return !no(f.Listed) || !f.paired() },
		Words: says("waits until both hosts hold every write, and either may be lost"), Way: explainEtcd,
	},
	{
		Step: "N7", ID: "part.over", Act: WritePlan, When: always,
		Words: says("either host may be lost: the cluster forgets %s", old), Plan: to(Forgetting),
	},
}

// parted reports whether the member of the host that goes is known to be gone.
func (f Facts) parted() bool { return no(f.Listed) }

// paired reports whether the rules of two hold here: this host may go on alone, or did.
func (f Facts) paired() bool { return state.Is(f.Record, state.EtcdPair) || f.alone() }

var forgetRules = []rule{
	{
		Step: "N7", ID: "forget.quiet", Act: Wait, When: func(f Facts) bool { return !no(f.Node) && !no(f.Answers) },
		Words: says("waits until the API server and etcd of %s answer no more", old), Way: "switch that host off",
	},
	{
		Step: "N7", ID: "forget.old", Act: DropOld, When: func(f Facts) bool { return !no(f.Node) },
		Words: says("the cluster has nothing of %s any more, and lets it in no more", old),
	},
	{
		Step: "N7", ID: "forget.whole", Act: WritePlan, When: always,
		Words: says("the site has two control planes; wipe %s before it is used for something else", old), Plan: to(Whole),
	},
}
