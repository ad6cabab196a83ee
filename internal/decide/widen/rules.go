package widen

import (
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// takeRules have a host that does not carry the plan keep the cluster's newest copy of it.
var takeRules = []rule{{
	Step: "W1", ID: "take", Act: WritePlan,
	When: func(f Facts) bool {
		c := f.Lock
		return !f.stopped() && c.Known && c.Value.ID != "" && c.Value.Plan.Peer == f.Host && (f.fresh(c.Value.Plan) || f.Plan != nil && newer(c.Value.Plan, *f.Plan))
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

// newer reports whether a copy is of a later stage, says more about the third machine, or is of a plan
// that this host took for ended.
func newer(p, own Plan) bool {
	return p.ID == own.ID && (p.Stage.After(own.Stage) || p.Stage == own.Stage && p.Gone && !own.Gone || own.Stage == Aborted && !p.Stage.Over())
}

// gone reports whether the cluster has no such plan any more.
func (f Facts) gone() bool { return f.Lock.Known && f.Lock.Value.ID != f.Plan.ID }

// goneRules end a copy whose plan the cluster has no more. While it can be taken back, its host may
// carry it no longer: the one that did went on alone, and did not wait for this one. A plan that is whole
// does not wait for ever for a host that is off.
var goneRules = []rule{{
	Step: "W2", ID: "gone", Act: WritePlan,
	When: func(f Facts) bool {
		return f.gone() && Handing.After(f.Plan.Stage) && state.Is(f.Voters, 2)
	},
	Words: says("the cluster has no plan for %s any more", next), Plan: to(Aborted),
}, {
	Step: "W7", ID: "gone.whole", Act: WritePlan, When: func(f Facts) bool { return f.gone() && f.Plan.Stage == Dressing && yes(f.Dressed) },
	Words: says("the plan has ended: %s is the third control plane", next), Plan: to(Whole),
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
			return !f.stopped() && (state.Is(f.Voters, 3) || !Handing.After(f.Plan.Stage))
		}
		return !f.stopped() && f.Lock.Known && (f.Lock.Value.Plan.Stage != f.Plan.Stage || f.Plan.Gone && !f.Lock.Value.Plan.Gone)
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
		Step: "W1", ID: "planned.ends", Act: WritePlan,
		When: func(f Facts) bool { return f.Now.Sub(f.Plan.Begun) >= wishLife && len(closed(f, f.Plan.wish())) > 0 },
		Words: func(f Facts) string {
			return "the plan ends, and nothing was changed: it has not begun for a quarter of an hour, and a gate is closed: " + closed(f, f.Plan.wish())[0].Words
		},
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Ended = Aborted, "a gate is closed: "+closed(f, f.Plan.wish())[0].Words })
		},
	},
	{
		Step: "W1", ID: "planned.gate", Act: Wait, When: func(f Facts) bool { return len(closed(f, f.Plan.wish())) > 0 },
		Words: func(f Facts) string { return plans.Shuts(closed(f, f.Plan.wish())[0]) },
	},
	{
		Step: "W1", ID: "planned.begin", Act: WritePlan, When: always,
		Words: says("%s may be installed as the third control plane", next), Plan: to(Coming),
	},
}

// unnamed reports whether the plan does not name the member of the third host yet: who asks must be
// known then, also after this host was booted.
func (f Facts) unnamed() bool {
	return f.Learner.Known && (f.Learner.Value == 0 || f.Learner.Value != f.Plan.Third)
}

// stranger reports whether another machine asks than the one whose member the plan names, or that one
// after it was installed anew, and nobody answers as that member.
func (f Facts) stranger() bool {
	return f.Plan.Third != 0 && f.Asks != f.Plan.Newcomer && f.waits() && !f.Behind.Known
}

// anew reports whether the stranger is the machine itself, at the same address. So nobody else can run the
// member, and what the member had is gone.
func (f Facts) anew() bool {
	was, is := f.Plan.Newcomer, f.Asks
	known := was.Installation != "" && is.Installation != ""
	was.Installation, is.Installation = "", ""
	return known && was == is && f.stranger()
}

// anewRules give a machine that was installed anew before its vote another member, once: two machines of one
// identity would take it from each other for ever. The plan forgets the
// first one before etcd does: whatever is cut off in between, the door does not open for that member, and
// it is known as the third host's.
var anewRules = []rule{
	{
		Step: "W3", ID: "coming.former", Act: DropLearner, When: func(f Facts) bool { return f.Plan.Former != 0 && state.Is(f.Learner, f.Plan.Former) },
		Words: says("etcd does not list the member any more that %s had before it was installed anew", next),
	},
	{
		Step: "W3", ID: "coming.anew", Act: WritePlan, When: func(f Facts) bool { return f.Plan.Former == 0 && f.anew() && state.Is(f.Learner, f.Plan.Third) },
		Words: says("%s was installed anew, and its etcd has nothing any more: it gets another member", next),
		Plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Former, p.Third, p.Newcomer = p.Third, 0, replace.Newcomer{} })
		},
	},
	{
		// Which of two machines is the right one only a person knows.
		Step: "W3", ID: "coming.other", Act: Wait, When: func(f Facts) bool { return !f.unnamed() && f.stranger() && (f.Plan.Former != 0 || !f.anew()) },
		Words: otherMachine, Way: abortWay,
	},
}

// lateWay is where the log of the third etcd is. If it ends by "tocommit ... is out of range", its data are
// gone, and the machine has to be installed anew.
const lateWay = "on the new host: " + etcdLog + "; sudo journalctl -u holdfast-install -n 20"

// etcdLog shows what etcd said last where kubelet runs it.
const etcdLog = "sudo sh -c 'tail -n 20 /var/log/pods/*_etcd-*/etcd/*.log'"

// abortWay is what to type if the machine that was let in does not come.
const abortWay = "sudo holdfast topology apply --abort"

func otherMachine(f Facts) string {
	is, was := f.Asks, f.Plan.Newcomer
	if was.Machine == is.Machine && was.Address == is.Address {
		return "the machine of " + next(f) + " asks to enter again, and the plan cannot give it another member: it is not let in. Take the plan back and begin once more"
	}
	return "the machine at " + is.Address + " (" + is.Machine.String() + ") asks to enter as " + next(f) + ", and the plan let in the one at " +
		was.Address + " (" + was.Machine.String() + "), whose etcd does not answer: it is not let in. Switch it off and see to the other one, or, if that is lost for good, take the plan back and begin once more"
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
}, anewRules, []rule{
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
		// was never started, but for the former one, which coming.former removes.
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
		Words: says("waits until etcd of %s runs and has its data", next), Way: lateWay,
	},
	{
		Step: "W3", ID: "coming.behind", Act: Wait, When: func(f Facts) bool { return !f.Behind.Known || f.Behind.Value > etcdmember.MostBehind },
		Words: says("waits until %s lacks little of etcd's log", next), Way: lateWay,
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

// AskedRule is the rule that waits for a person who asked too late to take the plan back.
const AskedRule = "letting.asked"

var lettingRules = concat(leaveRules, copyRules, wordRules, lostRules, []rule{
	{
		Step: "W4", ID: AskedRule, Act: Wait, When: func(f Facts) bool { return asksAbort(f) && state.Is(f.Voters, 3) },
		Words: says("%s votes already, so the plan is taken back only if its machine is lost for good: switch it off, and say so. To let the plan go on: sudo holdfast topology apply", next),
		Way:   lostWay,
	},
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

func concat(lists ...[]rule) (out []rule) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}
