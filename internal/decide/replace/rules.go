package replace

import (
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Act is the act of the agent for one decision. Each changes one thing, and may be cut off
// and done again.
type Act string

// The acts.
const (
	Wait Act = "wait" // something happens by itself, or a person has to act
	Idle Act = "idle" // nothing is wanted, or all is done

	WritePlan   Act = "write-plan"  // writes the plan of the decision
	CopyPlan    Act = "copy-plan"   // copies the plan to the cluster, where it is the lock, too
	SwitchOff   Act = "switch-off"  // switches the old host off, and leaves it off
	ChangeKey   Act = "change-key"  // writes Corosync's key, reloads Corosync, then writes the plan
	PutToken    Act = "put-token"   // writes the secret of which the key is made, for the Jobs
	ChangeJoin  Act = "change-join" // replaces the key of join secrets
	PutGrave    Act = "put-grave"   // writes the tombstone of the old host
	DropPods    Act = "drop-pods"
	DropNode    Act = "drop-node"
	DropSecret  Act = "drop-secret"
	LeaveRing   Act = "leave-ring"   // removes the old host from corosync.conf, which Corosync reads again
	Forget      Act = "forget"       // makes Pacemaker forget the old host
	ForgetAgain Act = "forget-again" // the same, once nothing of that host is left that needs a proof
	Retire      Act = "retire"       // writes the file that tells the etcd keeper that it has no peer
	DropMember  Act = "drop-member"
	PutDevice   Act = "put-device" // writes the new host's device, here and in the cluster
	DropRetire  Act = "drop-retire"
	GiveName    Act = "give-name"    // lets the new host make a Node of the old one's name
	SetFencing  Act = "set-fencing"  // sets Pacemaker's devices and etcd's addresses
	PutManifest Act = "put-manifest" // writes the file from which the etcd keeper runs etcd
	FirstRing   Act = "first-ring"   // puts this host alone into a new cluster of Corosync, and starts Pacemaker
	SetAlone    Act = "set-alone"    // sets Pacemaker up for this host without a peer
	TakeEtcd    Act = "take-etcd"    // takes etcd from kubelet
	PutPod      Act = "put-pod"      // makes kubelet's file of etcd, beside the folder that kubelet reads
	KubeletBoot Act = "kubelet-boot" // has kubelet start at boot without Pacemaker
	StopEtcd    Act = "stop-etcd"    // has Pacemaker stop etcd, and not start it again
	GivePod     Act = "give-pod"     // moves kubelet's file of etcd into kubelet's folder
	EndRing     Act = "end-ring"     // stops Pacemaker and Corosync for good, and nothing that they started
	EndPair     Act = "end-pair"     // stops the etcd keeper, and removes the files of one of two
	Dress       Act = "dress"        // sets the objects of the cluster, and writes site.json of a lone control plane
	NameSite    Act = "name-site"    // sets the site's configuration and what follows from it, writes site.json, and starts the agent anew
	DropDevice  Act = "drop-device"  // removes the file with the old host's device
	Finish      Act = "finish"       // leaves the start of kubelet at boot to Pacemaker, then writes the plan
	JoinRing    Act = "join-ring"    // writes the newcomer into corosync.conf, which Corosync reads again
	DropLock    Act = "drop-lock"    // deletes the cluster's copy
	DropAbort   Act = "drop-abort"   // takes out of the order that the plan is to be taken back
)

// Decision is the next act.
type Decision struct {
	// Step is R1 to R8 of docs/adr/0083; Rule is the rule that decided.
	Step string
	Rule string
	Act  Act
	// Words say for a person what is done or waited for. Way says what the person has to type,
	// if only a person can go on.
	Words string
	Way   string
	// Plan is the plan to write before anything else happens; nil if it does not change. For CopyPlan it is
	// the copy, if that is to differ from the plan.
	Plan *Plan
}

type rule struct {
	step, id string
	act      Act
	when     func(Facts) bool
	words    func(Facts) string
	way      func(Facts) string
	plan     func(Facts) *Plan
}

// Decide returns the next act. The same facts give the same decision.
func Decide(f Facts) Decision {
	if f.Plan != nil && f.Plan.Format > Format {
		return Decision{Rule: "plan.newer", Act: Wait, Words: "a later release has written the plan of a replacement: upgrade this host first", Way: statusShow}
	}
	for _, r := range table(f) {
		if !r.when(f) {
			continue
		}
		d := Decision{Step: r.step, Rule: r.id, Act: r.act, Words: r.words(f)}
		if r.way != nil {
			d.Way = r.way(f)
		}
		if r.plan != nil {
			d.Plan = r.plan(f)
		}
		return d
	}
	return Decision{Rule: "nothing-fits", Act: Wait, Words: "no rule fits: please report this plan", Way: statusShow}
}

func table(f Facts) []rule {
	switch {
	case f.Plan == nil || f.Plan.Stage.Over():
		return restRules
	case f.Plan.Stage == Planned && f.Plan.Grows:
		return slices.Concat(amendRules, growRules)
	case f.Plan.Stage == Planned:
		return slices.Concat(amendRules, plannedRules)
	case f.Plan.Stage == Retired && f.Plan.Shrinks:
		return slices.Concat(amendRules, alarmRules, retiredRules, narrowWaits, narrowRules)
	case f.Plan.Stage == Narrowing:
		return narrowingRules
	case f.Plan.Stage == Retired:
		return slices.Concat(amendRules, alarmRules, retiredRules, namedRules, calmRules, upgradeRules, newcomerRules)
	case f.Plan.Stage == Widening:
		return slices.Concat(amendRules, wideningRules)
	case f.Plan.Stage == Waiting:
		return slices.Concat(amendRules, []rule{lockAgain, lockStage, lateRule}, namedRules, newcomerRules)
	case f.Plan.Stage == Joining:
		return joiningRules
	}
	return nil
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

func old(f Facts) string  { return f.Plan.Old.Name }
func next(f Facts) string { return f.Plan.New.Name }
func here(f Facts) string { return f.Host }

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

var restRules = []rule{
	{
		step: "R8", id: "rest.lock", act: DropLock,
		when:  func(f Facts) bool { return f.Plan != nil && f.Lock.Known && f.Lock.Value == f.Plan.ID },
		words: says("the cluster's copy of the plan is deleted, since the plan is over"),
	},
	{
		step: "R8", id: "rest.lock-unknown", act: Wait, when: func(f Facts) bool { return f.Plan != nil && !f.Lock.Known },
		words: says("the API does not say whether the cluster's copy of the plan is gone"),
	},
	{
		step: "R1", id: "rest.dry", act: Wait,
		when:  func(f Facts) bool { return begins(f) && f.Wish.Dry },
		words: func(f Facts) string { return "the gates " + f.Wish.about() + " were looked at: nothing was changed" },
	},
	{
		step: "R1", id: "rest.begin", act: WritePlan,
		when:  func(f Facts) bool { return begins(f) && len(Closed(GatesOf(f, *f.Wish))) == 0 },
		words: func(f Facts) string { return "the plan " + f.Wish.about() + " is written" },
		plan:  func(f Facts) *Plan { p := Begin(f, *f.Wish); return &p },
	},
	{
		step: "R1", id: "rest.refuse", act: Wait,
		when:  begins,
		words: func(f Facts) string { return Closed(GatesOf(f, *f.Wish))[0].Words },
		way:   func(f Facts) string { return Closed(GatesOf(f, *f.Wish))[0].Way },
	},
	{step: "R8", id: "rest", act: Idle, when: always, words: says("no host is being replaced")},
}

// amends reports whether the administrator changed something since the plan was begun.
func amends(f Facts) bool {
	w := f.Wish
	return w != nil && !w.Abort && w.ID == f.Plan.ID && w.Old == f.Plan.Old.Name && w.New.Name == f.Plan.New.Name &&
		w.New.Address == f.Plan.New.Address && (w.New != f.Plan.New || !w.Accepts.Equal(f.Plan.Accepts))
}

// amendRules take such changes in: another BMC of the new host, the serial number of the old
// one. Once the newcomer was let in, the plan takes in none.
var amendRules = []rule{{
	step: "R1", id: "amend", act: WritePlan, when: amends,
	words: says("the plan takes in what the administrator changed"),
	plan:  func(f Facts) *Plan { return with(f, func(p *Plan) { p.New, p.Accepts = f.Wish.New, f.Wish.Accepts }) },
}}

// wished returns the wish of the plan, for the gates.
func wished(f Facts) Wish {
	p := f.Plan
	return Wish{ID: p.ID, Grows: p.Grows, Shrinks: p.Shrinks, Old: p.Old.Name, New: p.New, By: p.By, Accepts: p.Accepts}
}

func abort(why func(Facts) string) func(Facts) *Plan {
	return func(f Facts) *Plan {
		return with(f, func(p *Plan) {
			p.Stage, p.Ended, p.Off = Aborted, why(f), p.Old.Name != "" && state.Is(f.Power, state.PowerOff)
		})
	}
}

func asksAbort(f Facts) bool { return f.Wish != nil && f.Wish.Abort && f.Wish.ID == f.Plan.ID }

func cameBack(f Facts) bool {
	return yes(f.Contact) || f.Record.Known && f.Record.Value != state.EtcdSole
}

// lockRules take the lock of a plan that can still be taken back: the cluster's copy of it.
var lockRules = []rule{
	{
		step: "R1", id: "lock.lost", act: WritePlan,
		when:  func(f Facts) bool { return f.Lock.Known && f.Lock.Value != "" && f.Lock.Value != f.Plan.ID },
		words: says("another change of the control planes holds the lock: this plan takes itself back"),
		plan:  abort(says("another change of the control planes was under way")),
	},
	{
		step: "R1", id: "lock.take", act: CopyPlan,
		when:  func(f Facts) bool { return state.Is(f.Lock, "") },
		words: says("the cluster gets a copy of the plan, which keeps other work away"),
	},
}

// lockAgain writes the lock of a plan again that only goes forward, as decide/widen and decide/narrow
// do: somebody may delete it, and an upgrade would begin in the middle. It comes before every rule that
// waits, since a plan may wait for days. A plan whose lock another one has goes on and waits for none:
// half of it is done.
var lockAgain = rule{
	step: "R1", id: "lock.again", act: CopyPlan,
	when:  func(f Facts) bool { return state.Is(f.Lock, "") },
	words: says("somebody deleted the cluster's copy of the plan: it is written again, and keeps other work away"),
}

// lockStage keeps the stage in the cluster's copy as new as that of the plan: by it plans.Changes says
// whether hosts may boot and get configurations meanwhile.
var lockStage = rule{
	step: "R1", id: "lock.stage", act: CopyPlan,
	when: func(f Facts) bool {
		return state.Is(f.Lock, f.Plan.ID) && f.Copied != "" && f.Copied != f.Plan.Stage && (f.Plan.Stage != Retired || f.Copied != Waiting)
	},
	words: says("the cluster's copy of the plan gets its stage: while the plan is at work no host boots or gets a configuration"),
}

// calmRules come once nothing of the old host is left: a person may install the new machine for days, and
// the plan takes nothing away until that asks to enter. The copy says so by the stage Waiting, which the
// plan of a site that grows has then.
var calmRules = []rule{{
	step: "R4", id: "newcomer.rests", act: CopyPlan,
	when:  func(f Facts) bool { return state.Is(f.Lock, f.Plan.ID) && f.Copied == Retired && !f.waits() },
	words: says("the cluster's copy of the plan says that it waits for %s: hosts may boot meanwhile", next),
	plan:  to(Waiting),
}}

// gateRule waits until all gates are open. Its words are those of the first one that is not.
var gateRule = rule{
	step: "R1", id: "gates", act: Wait,
	when:  func(f Facts) bool { return len(Closed(GatesOf(f, wished(f)))) > 0 },
	words: func(f Facts) string { return Closed(GatesOf(f, wished(f)))[0].Words },
	way:   func(f Facts) string { return Closed(GatesOf(f, wished(f)))[0].Way },
}

// plannedRules are those of R1, in which everything can still be taken back.
var plannedRules = slices.Concat([]rule{
	{
		step: "R1", id: "planned.abort", act: WritePlan, when: asksAbort,
		words: func(f Facts) string {
			return "the plan is taken back, as was asked: " + f.Plan.rests(state.Is(f.Power, state.PowerOff))
		},
		plan: abort(says("an administrator took it back")),
	},
	{
		step: "R1", id: "planned.came-back", act: WritePlan, when: cameBack,
		words: says("%s is back, and joins again as after any loss: the plan takes itself back", old),
		plan:  abort(says("%s came back before it was retired", old)),
	},
}, lockRules, []rule{
	{
		// The old host is switched off first, because one whose mainboard is dead may read On.
		step: "R1", id: "planned.off", act: SwitchOff,
		when: func(f Facts) bool {
			return f.Power.Known && f.Power.Value != state.PowerOff && no(f.Contact) && state.Is(f.Lock, f.Plan.ID)
		},
		words: says("%s is switched off through its BMC, and stays off", old),
	},
	gateRule,
	{
		step: "R1", id: "planned.unproved", act: Wait,
		when:  func(f Facts) bool { _, ok := f.off(f.Plan.Accepts.Gone); return !ok },
		words: says("nothing proves in this moment that %s is off", old),
	},
	{
		step: "R2", id: "planned.retire", act: WritePlan, when: always,
		words: says("%s is retired: from here on the plan only goes forward", old),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) {
				p.Stage = Retired
				p.Proof, _ = f.off(p.Accepts.Gone)
				p.Old.Number = f.Number
			})
		},
	},
})

// alarmRules stop everything if the old host is in contact although it should not be.
var alarmRules = []rule{
	{
		// Only the plan was changed yet, so the way back is still there.
		step: "R2", id: "alarm.came-back", act: WritePlan,
		when:  func(f Facts) bool { return !f.Plan.Reloaded && !f.Plan.Remade && no(f.Key) && cameBack(f) },
		words: says("%s came back before Corosync's key was changed: the plan takes itself back", old),
		plan:  abort(says("%s came back before Corosync's key was changed", old)),
	},
	{
		step: "R2", id: "alarm.half", act: SwitchOff,
		when: func(f Facts) bool {
			return !f.Plan.Reloaded && cameBack(f) && f.Power.Known && f.Power.Value != state.PowerOff
		},
		words: says("%s came back in the moment in which Corosync's key was changed: it is switched off", old),
	},
	lockAgain,
	lockStage,
	lateRule,
	{
		step: "R2", id: "alarm.speaks", act: Wait, when: cameBack,
		words: says("%s is in contact, or was, though it is retired: nothing is done until it is off and etcd on this host is alone", old),
		way:   says("switch %s off and pull its network cables", old),
	},
}

// retiredRules are those of R2 and R3: the old host is taken out of everything. The key is
// changed first: without it the old host can do nothing to the others.
var retiredRules = []rule{
	{
		// Before the key, too: an act that was cut off there waits for the proof again.
		step: "R3", id: "retired.off", act: SwitchOff,
		when:  func(f Facts) bool { return f.asksForProof() && f.Power.Known && f.Power.Value != state.PowerOff },
		words: says("%s was switched on again: it is switched off", old),
	},
	{
		// The new machine is on, at the address of the old one: what answers there proves nothing.
		step: "R3", id: "retired.early", act: Wait,
		when:  func(f Facts) bool { return f.early() && f.asksForProof() && !f.gone() },
		words: says("%s is on too early: it answers at the address of %s, so nobody can see whether %s is off", next, old, old),
		way:   says("switch the new machine off, and on again when %s waits for it", command),
	},
	{
		step: "R2", id: "retired.key", act: ChangeKey,
		when:  func(f Facts) bool { return !f.Plan.Reloaded || no(f.Key) },
		words: says("Corosync on %s gets a new key, which %s does not have", here, old),
	},
	{
		step: "R2", id: "retired.token", act: PutToken, when: func(f Facts) bool { return no(f.Token) },
		words: says("the cluster gets the secret of the new key"),
	},
	{
		step: "R2", id: "retired.join", act: ChangeJoin, when: func(f Facts) bool { return no(f.JoinKey) },
		words: says("the key of join secrets is replaced: the secrets that %s has no longer open anything", old),
	},
	{
		step: "R3", id: "retired.grave", act: PutGrave, when: func(f Facts) bool { return no(f.Tombstone) },
		words: says("the cluster remembers that %s was retired, so that nothing makes its Node again", old),
	},
	{
		// The Node goes before its pods: as long as it is there, DaemonSets make new ones for it.
		step: "R3", id: "retired.node", act: DropNode,
		when:  func(f Facts) bool { return f.OldNode.Known && f.oldNode() && yes(f.Tombstone) && f.gone() },
		words: says("the Node of %s is deleted", old),
	},
	{
		// Before the newcomer is let in: the new kubelet of the same name would find them and may
		// read their Secrets.
		step: "R3", id: "retired.pods", act: DropPods,
		when: func(f Facts) bool {
			return f.Pods.Known && f.Pods.Value > 0 && f.OldNode.Known && !f.oldNode() && yes(f.Tombstone) && f.gone()
		},
		words: says("the pods of %s are deleted: it is off, so they do not run", old),
	},
	{
		step: "R3", id: "retired.secret", act: DropSecret, when: func(f Facts) bool { return yes(f.Leftover) },
		words: says("the Secret with the BMC of %s is deleted", old),
	},
	{
		step: "R3", id: "retired.ring", act: LeaveRing,
		when:  func(f Facts) bool { return f.in(f.Plan.Old.Name, f.Ring) && f.gone() },
		words: says("Corosync on %s goes on without %s", here, old),
	},
	{
		step: "R3", id: "retired.forget", act: Forget,
		when: func(f Facts) bool {
			return f.in(f.Plan.Old.Name, f.Known) && f.Ring.Known && !f.in(f.Plan.Old.Name, f.Ring) && f.gone()
		},
		words: says("Pacemaker forgets %s", old),
	},
	{
		// Not before: while the old host was in Corosync's list there was a peer.
		step: "R3", id: "retired.keeper", act: Retire,
		when: func(f Facts) bool {
			return no(f.Retirement) && f.Ring.Known && f.Known.Known && !f.in(f.Plan.Old.Name, f.Ring) && !f.in(f.Plan.Old.Name, f.Known)
		},
		words: says("the etcd keeper of %s learns that it has no peer: it starts alone after a power cut", here),
	},
	{
		step: "R3", id: "retired.member", act: DropMember,
		when:  func(f Facts) bool { return f.Learner.Known && f.Learner.Value != 0 && state.Is(f.Voters, 1) },
		words: says("the learner that %s left behind is removed", old),
	},
	{
		step: "R3", id: "retired.unproved", act: Wait, when: func(f Facts) bool { return f.asksForProof() && !f.gone() },
		words: says("nothing proves in this moment that %s is off, so what is left of it in Corosync, Pacemaker and the API stays", old),
		way:   says("switch %s off; if its BMC is dead: %s --is-gone SERIAL", old, command),
	},
	{
		step: "R3", id: "retired.unknown", act: Wait, when: func(f Facts) bool { return !f.bare() },
		words: says("the API or this host does not say yet whether everything of %s is gone", old),
	},
}

// newcomerRules are those of R4 and R5: the newcomer is waited for, and verified.
var newcomerRules = []rule{
	{
		step: "R4", id: "newcomer.install", act: Wait, when: func(f Facts) bool { return !f.waits() },
		words: says("waits for %s: install the new machine with its join file%s", next, bound),
		way:   joinFile,
	},
	{
		step: "R5", id: "newcomer.other-address", act: Wait,
		when: func(f Facts) bool { return f.Plan.Grows && f.Asks.Address != f.Plan.New.Address },
		words: func(f Facts) string {
			return "a machine at " + f.Asks.Address + " asks to enter as " + next(f) + ", and the plan names the address " + f.Plan.New.Address + ": it is not let in"
		},
		way: says("give the machine that address"),
	},
	{
		step: "R5", id: "newcomer.other-machine", act: Wait,
		when: func(f Facts) bool {
			return f.Plan.New.UUID != "" && !equalUUID(f.Plan.New.UUID, f.Asks.Machine.UUID)
		},
		words: func(f Facts) string {
			return "a machine with the UUID " + f.Asks.Machine.UUID + " asks to enter as " + next(f) + ", and the plan names " + f.Plan.New.UUID + ": it is not let in"
		},
		way: says("install the machine that the plan names"),
	},
	{
		step: "R5", id: "newcomer.arch", act: Wait, when: func(f Facts) bool { return !yes(f.Arch) },
		words: says("the architecture of %s is not that of %s, or is not known: it is not let in", next, here),
	},
	{
		step: "R5", id: "newcomer.bmc", act: Wait, when: func(f Facts) bool { return !yes(f.Matches) || !no(f.Ours) },
		words: func(f Facts) string {
			return "the BMC at " + f.Plan.New.BMC + " is not known to be part of the machine that asks to enter as " + next(f) + " (UUID " + f.Asks.Machine.UUID + "): it is not let in"
		},
		way: says("compare cables and the BMC's address"),
	},
	{
		step: "R5", id: "newcomer.device", act: PutDevice, when: func(f Facts) bool { return !yes(f.Device) || !yes(f.Account) },
		words: says("%s gets the device by which it can fence %s", here, next),
	},
	{
		step: "R5", id: "newcomer.admit", act: WritePlan, when: always,
		words: says("%s was verified and may enter", next),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) { p.Stage, p.Newcomer = Joining, f.Asks })
		},
	},
}
