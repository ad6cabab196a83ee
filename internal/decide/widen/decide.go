package widen

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
)

// Act is the act of the agent for one decision. Each changes one thing, and may be cut off and done
// again.
type Act string

// The acts. Those with a name that decide/replace has, too, are the same.
const (
	Wait Act = "wait" // something happens by itself, or a person has to act
	Idle Act = "idle" // nothing is wanted, or all is done

	WritePlan   Act = "write-plan"  // writes the plan of the decision on this host's disk
	CopyPlan    Act = "copy-plan"   // copies the plan to the cluster, where it is the lock, too
	DropLock    Act = "drop-lock"   // deletes the cluster's copy
	Tell        Act = "tell"        // writes beside the lock how far this host is
	PutWord     Act = "put-word"    // writes the plan's word for the etcd keeper of this host
	DropWord    Act = "drop-word"   // removes it
	GiveName    Act = "give-name"   // lets the new host make its Node
	AddLearner  Act = "add-learner" // has etcd list the new host's member
	DropLearner Act = "drop-learner"
	DropVoter   Act = "drop-voter"   // has etcd remove the new host's member, which votes and is lost
	DropNew     Act = "drop-new"     // removes what the cluster has of the new host
	KubeletBoot Act = "kubelet-boot" // has kubelet start at boot without Pacemaker
	Maintain    Act = "maintain"     // has Pacemaker start, stop and fence nothing
	PutPod      Act = "put-pod"      // makes kubelet's file of etcd, beside the folder that kubelet reads
	StopEtcd    Act = "stop-etcd"    // has the etcd keeper stop etcd, and not start it again
	GivePod     Act = "give-pod"     // moves kubelet's file of etcd into kubelet's folder
	EndRing     Act = "end-ring"     // stops Pacemaker and Corosync for good, and nothing that they started
	EndPair     Act = "end-pair"     // stops the etcd keeper, and removes the files of one of two
	Dress       Act = "dress"        // gives this host, and the cluster, the files and objects of three
)

// Decision is the next act. Its steps are W1 to W7 of docs/adr/0097.
type Decision = plans.Decision[Act, Plan]

type rule = plans.Rule[Facts, Act, Plan]

// Decide returns the next act of this host. The same facts give the same decision.
func Decide(f Facts) Decision {
	if f.Plan != nil && f.Plan.Format > Format {
		return Decision{Rule: "plan.newer", Act: Wait, Words: "a later release has written the plan for a third control plane: upgrade this host first", Way: statusShow}
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
		return carrierTable[f.Plan.Stage]
	}
	return slices.Concat(takeRules, goneRules, peerTable[f.Plan.Stage])
}

// carrierTable has the rules of the host that carries the plan, peerTable those of the other one. What
// a host does on itself alone comes first: it needs no API.
var carrierTable = map[Stage][]rule{
	Planned:    plannedRules,
	Coming:     comingRules,
	LettingIn:  lettingRules,
	TakingBack: backRules,
	Handing:    slices.Concat(amendRules, bootRules, copyRules, maintainRules, lostHandRules, turnRules, handRules, handedRules),
	Ending:     slices.Concat(copyRules, farHandedRules, endRules, endedRules),
	Dressing:   slices.Concat(copyRules, dressRules, dressedRules),
	Whole:      overCarrierRules,
	Aborted:    overCarrierRules,
}

var peerTable = map[Stage][]rule{
	Planned:    tellRules,
	Coming:     slices.Concat(wordRules, tellRules),
	LettingIn:  slices.Concat(wordRules, tellRules),
	TakingBack: slices.Concat(unwordRules, tellRules),
	Handing:    slices.Concat(bootRules, peerMaintainedRules, handRules, tellRules),
	Ending:     slices.Concat(endRules, tellRules),
	Dressing:   slices.Concat(dressRules, tellRules),
	Whole:      slices.Concat(overRules, restRules),
	Aborted:    slices.Concat(overRules, restRules),
}

var (
	says   = plans.Says[Facts]
	always = plans.Always[Facts]
)

func next(f Facts) string { return f.Plan.New.Name }
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
	return Wish{ID: p.ID, New: p.New, By: p.By, Why: p.Why, NoBackup: p.NoBackup}
}

// ends are the acts of the rules that every such plan has.
var ends = plans.Acts[Act]{Wait: Wait, CopyPlan: CopyPlan, DropLock: DropLock, Tell: Tell}

// sight is what the rules at the end of a plan need to know.
func (f Facts) sight() plans.Sight {
	return plans.Sight{
		Here: f.Host, There: there(f), Known: f.Lock.Known, Mine: f.Lock.Known && f.Lock.Value.ID == f.Plan.ID, Stage: string(f.Plan.Stage), Copied: string(f.Lock.Value.Plan.Stage),
		Told: string(f.Told.Value.Stage), ToldKnown: f.Told.Known, Far: f.far(), Alone: f.alone(), Since: f.Plan.Written, Now: f.Now,
		Again: asksAbort(f) && f.Wish.At.After(f.Plan.Written),
	}
}

// toldAll reports whether the cluster has what this host would tell now, or whether that is not known.
func (f Facts) toldAll() bool { return !f.Told.Known || f.Told.Value == f.Progress() }
