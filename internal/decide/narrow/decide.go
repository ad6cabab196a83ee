package narrow

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
)

// Act is the act of the agent for one decision. Each changes one thing, and may be cut off and done
// again.
type Act string

// The acts.
const (
	Wait Act = "wait" // something happens by itself, or a person has to act
	Idle Act = "idle" // nothing is wanted, or all is done

	WritePlan Act = "write-plan" // writes the plan of the decision on this host's disk
	TakeOver  Act = "take-over"  // does so, and has this host carry the plan, and undo what the cluster got by it
	CopyPlan  Act = "copy-plan"  // copies the plan to the cluster, where it is the lock, too
	DropLock  Act = "drop-lock"  // deletes the cluster's copy
	Tell      Act = "tell"       // writes beside the lock how far this host is
	Prepare   Act = "prepare"    // brings packages, units, files and the devices of both BMCs
	Dress     Act = "dress"      // gives this host, and the cluster, the files and objects of two
	Undress   Act = "undress"    // gives this host, and the cluster, the files and objects of three again
	PutWord   Act = "put-word"   // writes the plan's word for the etcd keeper of this host
	DropWord  Act = "drop-word"  // removes it
	EnterRing Act = "enter-ring" // starts Corosync, Pacemaker and the etcd keeper, now and at each boot
	SetUp     Act = "set-up"     // gives Pacemaker its configuration, in maintenance from its first moment on
	Maintain  Act = "maintain"   // puts Pacemaker back into maintenance
	AskStart  Act = "ask-start"  // asks the etcd keeper to run etcd, as Pacemaker does outside of maintenance
	EndRing   Act = "end-ring"   // stops Pacemaker and Corosync for good, and nothing that they started
	EndPair   Act = "end-pair"   // stops the etcd keeper, and removes the files of one of two
	TakeEtcd  Act = "take-etcd"  // takes etcd from kubelet: its file goes out of kubelet's folder, and the etcd keeper starts it
	Manage    Act = "manage"     // ends Pacemaker's maintenance
	Order     Act = "order"      // leaves the start of kubelet at boot to Pacemaker
	AskEmpty  Act = "ask-empty"  // asks that the host that goes is emptied
	Leave     Act = "leave"      // removes the member of the host that goes; if that one leads, the lead moves first
	DropWish  Act = "drop-wish"  // removes the wish that this look has read
	DropOld   Act = "drop-old"   // writes the tombstone of the host that goes, deletes its Node, and what is bound to it
)

// Decision is the next act. Its steps are N1 to N7 of docs/adr/0102.
type Decision = plans.Decision[Act, Plan]

type rule = plans.Rule[Facts, Act, Plan]

// Decide returns the next act of this host. The same facts give the same decision.
func Decide(f Facts) Decision {
	if f.Plan != nil && f.Plan.Format > Format {
		return Decision{Rule: "plan.newer", Act: Wait, Words: "a later release has written the plan for two control planes: upgrade this host first", Way: statusShow}
	}
	if d, found := plans.First(table(f), f); found {
		return d
	}
	return Decision{Rule: "nothing-fits", Act: Wait, Words: "no rule fits: please report this plan", Way: statusShow}
}

func table(f Facts) []rule {
	switch {
	case f.Plan == nil:
		return slices.Concat(takeRules, restRules)
	case f.carries():
		return slices.Concat(oustedRules, carrierTable[f.Plan.Stage])
	}
	return slices.Concat(takeRules, takeOverRules, goneRules, peerTable[f.Plan.Stage])
}

// carrierTable has the rules of the host that carries the plan, peerTable those of the other one.
var carrierTable = map[Stage][]rule{
	Planned:    plannedRules,
	Preparing:  slices.Concat(leaveRules, copyRules, prepareRules, preparedRules),
	Dressing:   slices.Concat(leaveRules, copyRules, dressRules, dressedRules),
	Pairing:    slices.Concat(leaveRules, amendRules, copyRules, wordRules, ringRules, setUpRules, maintainRules, askRules, pairedRules),
	TakingBack: slices.Concat(lostRules, copyRules, awaitRules, backRules, takenBackRules),
	Handing:    slices.Concat(amendRules, maintainRules, turnRules, handRules, askRules, copyRules, unwordRules, manageRules, orderRules, handedRules),
	Parting:    slices.Concat(amendRules, copyRules, unwordRules, partRules),
	Forgetting: slices.Concat(copyRules, forgetRules),
	Whole:      overCarrierRules,
	Aborted:    overCarrierRules,
}

var peerTable = map[Stage][]rule{
	Planned:    tellRules,
	Preparing:  slices.Concat(prepareRules, tellRules),
	Dressing:   slices.Concat(dressRules, tellRules),
	Pairing:    slices.Concat(wordRules, ringRules, askRules, tellRules),
	TakingBack: slices.Concat(backRules, tellRules),
	Handing:    slices.Concat(handRules, askRules, unwordRules, unlockedRules, peerManagedRules, orderRules, tellRules),
	Parting:    slices.Concat(unwordRules, unlockedRules, tellRules),
	Forgetting: slices.Concat(unlockedRules, tellRules),
	Whole:      slices.Concat(overRules, restRules),
	Aborted:    slices.Concat(overRules, restRules),
}

var (
	says   = plans.Says[Facts]
	always = plans.Always[Facts]
)

func old(f Facts) string  { return f.Plan.Old.Name }
func here(f Facts) string { return f.Host }
func there(f Facts) string {
	if f.Plan.Survivor == f.Host {
		return f.Plan.Peer
	}
	return f.Plan.Survivor
}

// with returns the plan after a change.
func with(f Facts, change func(*Plan)) *Plan {
	p := *f.Plan
	change(&p)
	p.Written = f.Now
	return &p
}

func to(s Stage) func(Facts) *Plan {
	return func(f Facts) *Plan { return with(f, func(p *Plan) { p.Stage = s }) }
}

// begins reports whether a wish is for a plan that does not exist yet.
func begins(f Facts) bool {
	return f.Wish != nil && !f.Wish.Abort && f.Now.Sub(f.Wish.At).Abs() < wishLife && (f.Plan == nil || f.Plan.ID != f.Wish.ID)
}

func asksAbort(f Facts) bool { return f.Wish != nil && f.Wish.Abort && f.Wish.ID == f.Plan.ID }

func closed(f Facts, w Wish) []replace.Gate { return replace.Closed(Gates(f, w)) }

// wish returns what the plan was begun with.
func (p Plan) wish() Wish {
	return Wish{ID: p.ID, Old: p.Old, Third: p.Third, By: p.By, Why: p.Why, Accepts: p.Accepts}
}

// ends are the acts of the rules that every such plan has.
var ends = plans.Acts[Act]{Wait: Wait, CopyPlan: CopyPlan, DropLock: DropLock, Tell: Tell}

// sight is what the rules at the end of a plan need to know.
func (f Facts) sight() plans.Sight {
	return plans.Sight{
		Here: f.Host, There: there(f), Known: f.Lock.Known, Mine: f.mine(), Stage: string(f.Plan.Stage), Copied: string(f.Lock.Value.Plan.Stage),
		Told: string(f.Told.Value.Stage), ToldKnown: f.Told.Known, Far: f.far(), Alone: f.alone() || f.Plan.Lost == there(f), Since: f.Plan.Written, Now: f.Now,
		Again: asksAbort(f) && f.Wish.At.After(f.Plan.Written),
	}
}

// mine reports whether the cluster is known to have a copy of this plan.
func (f Facts) mine() bool { return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID }

// gone reports whether the cluster is known to have no copy of this plan.
func (f Facts) gone() bool { return f.Lock.Known && !f.mine() }

// toldAll reports whether the cluster has what this host would tell now, or whether that is not known.
func (f Facts) toldAll() bool { return !f.Told.Known || f.Told.Value == f.Progress() }
