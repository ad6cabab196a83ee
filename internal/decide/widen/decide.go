package widen

import (
	"fmt"
	"slices"

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

// Decision is the next act.
type Decision struct {
	// Step is W1 to W7 of docs/adr/0097; Rule is the rule that decided.
	Step, Rule string
	Act        Act
	// Words say for a person what is done or waited for. Way says what the person has to type, if only
	// a person can go on.
	Words, Way string
	// Plan is the plan to write before anything else happens; nil if it does not change.
	Plan *Plan
}

type rule struct {
	step, id string
	act      Act
	when     func(Facts) bool
	words    func(Facts) string
	way      string
	plan     func(Facts) *Plan
}

// Decide returns the next act of this host. The same facts give the same decision.
func Decide(f Facts) Decision {
	if f.Plan != nil && f.Plan.Format > Format {
		return Decision{Rule: "plan.newer", Act: Wait, Words: "a later release has written the plan for a third control plane: upgrade this host first", Way: statusShow}
	}
	for _, r := range table(f) {
		if !r.when(f) {
			continue
		}
		d := Decision{Step: r.step, Rule: r.id, Act: r.act, Words: r.words(f), Way: r.way}
		if r.plan != nil {
			d.Plan = r.plan(f)
		}
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
	Handing:    slices.Concat(bootRules, copyRules, maintainRules, turnRules, handRules, handedRules),
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

func says(format string, of ...func(Facts) string) func(Facts) string {
	return func(f Facts) string {
		var a []any
		for _, o := range of {
			a = append(a, o(f))
		}
		return fmt.Sprintf(format, a...)
	}
}

func next(f Facts) string { return f.Plan.New.Name }
func here(f Facts) string { return f.Host }
func there(f Facts) string {
	if f.Plan.Survivor == f.Host {
		return f.Plan.Peer
	}
	return f.Plan.Survivor
}

func always(Facts) bool { return true }

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
