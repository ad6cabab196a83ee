package narrow

// These are the rules about a host of the two that is lost for good, as an administrator says, and about one
// that comes back after that.

// ended reports whether this host may end its copy of a plan that the cluster has no more. The accounts of the
// BMCs go before the lock does: if the cluster still has them, somebody deleted the lock, and the carrier may
// not have taken back what it gave the cluster. A host from which the plan was taken gave that itself.
func (f Facts) ended() bool { return f.gone() && (no(f.Left) || f.Plan.Taken != "") }

// goneRules end a copy whose plan the cluster has no more: while nothing is here of two, or after the
// third member left. In between the carrier waits for this host, so the cluster has the plan.
var goneRules = []rule{{
	Step: "N1", ID: "gone", Act: WritePlan,
	When: func(f Facts) bool {
		if f.Plan.Stage == TakingBack {
			return f.ended() && f.undone()
		}
		// Until this host has a part of the plan the cluster's objects stay those of three.
		return f.gone() && TakingBack.After(f.Plan.Stage) && (f.Plan.Stage == Planned || f.undone())
	},
	Words: says("the cluster has no plan to go on without %s any more", old), Plan: to(Aborted),
}, {
	// Somebody said that this host will not come back, and it did.
	Step: "N1", ID: "gone.asked", Act: WritePlan,
	When:  func(f Facts) bool { return f.ended() && asksAbort(f) && TakingBack.After(f.Plan.Stage) },
	Words: says("the cluster has no plan to go on without %s any more: this host takes its part back", old),
	Plan: func(f Facts) *Plan {
		return with(f, func(p *Plan) { p.Stage, p.Ended = TakingBack, "the cluster had no such plan any more" })
	},
}, {
	Step: "N1", ID: "gone.asks", Act: Wait, When: func(f Facts) bool { return f.ended() && TakingBack.After(f.Plan.Stage) },
	Words: says("the cluster has no plan to go on without %s any more, and this host has a part of it: %s took it back without this host", old, there),
	Way:   "sudo holdfast topology apply --abort",
}, {
	// The carrier writes the lock again, and takes the plan back if it can. What the cluster has of two stays
	// until it does, or until this host takes the plan over.
	Step: "N1", ID: "gone.lock", Act: Wait,
	When: func(f Facts) bool {
		return f.gone() && !f.ended() && (TakingBack.After(f.Plan.Stage) || f.Plan.Stage == TakingBack && f.undone())
	},
	Words: says("somebody deleted ConfigMap kube-system/holdfast-replace before the plan to go on without %s was over, or that is unknown: waits until %s has written it again, once no other plan has it. If that host is lost for good, this one takes the plan back", old, there),
	Way:   "sudo holdfast topology apply --abort --is-gone SERIAL",
}, {
	// The other host went on alone and ended the plan without this one.
	Step: "N7", ID: "gone.whole", Act: WritePlan,
	When: func(f Facts) bool {
		return f.ended() && (f.Plan.Stage == Parting || f.Plan.Stage == Forgetting) && f.parted()
	},
	Words: says("the plan has ended: the site has two control planes, and %s is none of them", old), Plan: to(Whole),
}}

// unlockedRules have the other host say for whom it waits if the cluster has no copy of a plan that only goes
// forward: its words to the carrier go beside that. It leaves kubelet's boot to Pacemaker without it.
var unlockedRules = []rule{{
	Step: "N7", ID: "gone.later", Act: Wait,
	When:  func(f Facts) bool { return f.ended() && f.Plan.Stage.After(Handing) },
	Words: says("the cluster has no plan to go on without %s any more: waits until etcd of this host says that it left", old),
}, {
	Step: "N5", ID: "gone.carrier", Act: Wait,
	When: func(f Facts) bool {
		return f.gone() && (f.Plan.Stage != Handing || !no(f.Maintained) || no(f.Boots))
	},
	Words: says("somebody deleted ConfigMap kube-system/holdfast-replace before the plan to go on without %s was over, or that is unknown: waits until %s has written it again, once no other plan has it, and goes on. If that host is off, it has to come back", old, there),
	Way:   "switch that host on",
}}

// lost returns the other host of the two if a person says that it will not come back, and its etcd is known
// to be silent.
func (f Facts) lost() string {
	if f.saysLost() && no(f.PeerHere) {
		return there(f)
	}
	return f.Plan.Lost
}

// lostRules take in on the way back that the other host of the two will not come back. kubelet has etcd on
// all three, so this host and the one that was to go serve without it.
var lostRules = []rule{{
	Step: "N1", ID: "back.lost", Act: WritePlan, When: func(f Facts) bool { return f.lost() != f.Plan.Lost },
	Words: says("nobody waits for %s any more, as was said", there), Plan: func(f Facts) *Plan { return with(f, func(p *Plan) { p.Lost = f.lost() }) },
}}

// saysLost reports whether a person says that the other host of the two will not come back. Such a word is of
// the moment: later it could be about another loss.
func (f Facts) saysLost() bool {
	return asksAbort(f) && f.Wish.Lost && f.Now.Sub(f.Wish.At).Abs() < wishLife
}

// refuses reports whether a word that the carrier is lost is refused, since its etcd serves.
func (f Facts) refuses() bool { return f.saysLost() && f.mayTake() && yes(f.PeerHere) }

// spent reports whether a word that the carrier is lost has had its time. The command that typed it may have
// been interrupted, and the carrier may boot later.
func (f Facts) spent() bool {
	if !asksAbort(f) || !f.Wish.Lost {
		return false
	}
	return !f.saysLost() || f.refuses() && f.Now.Sub(f.Wish.At).Abs() >= refusedFor
}

// mayTake reports whether a plan can be taken over: it can still be taken back, or is over, and its lock is
// left. The lock of one that can be taken back may be what somebody deleted: this host writes it again. The
// host that carries the plan may be one stage further than the cluster, and this host, know. That does no
// harm: etcd of this host would move first. A plan is taken over once.
func (f Facts) mayTake() bool {
	deleted := f.Lock.Known && f.Lock.Value.ID == "" && yes(f.Left)
	switch {
	case f.Plan.Taken != "":
		return false
	case f.Plan.Stage.Over():
		return f.mine()
	}
	return !f.Plan.Stage.After(TakingBack) && (f.mine() || deleted)
}

// ServesRule is the rule of a host on which a person says that the other one is lost, although its etcd
// serves.
const ServesRule = "lost.serves"

// takeOverRules have the other host of the two take a plan back whose carrier is lost for good. kubelet has
// etcd on all three, so this host and the one that was to go serve. If another machine has the carrier's name,
// its etcd serves, and it knows nothing of the plan. Whatever this host has to do of the plan waits meanwhile:
// else a word about a host that serves would not be refused, and count at its next boot.
var takeOverRules = []rule{{
	Step: "N1", ID: "take-over", Act: TakeOver,
	When:  func(f Facts) bool { return f.saysLost() && f.mayTake() && (no(f.PeerHere) || f.Wish.Replaced) },
	Words: says("%s takes the plan over, to take it back without %s, as was said", here, there),
	Plan: func(f Facts) *Plan {
		return with(f, func(p *Plan) {
			p.Taken, p.Lost = f.Host, there(f)
			if !p.Stage.Over() {
				p.Stage, p.Ended = TakingBack, "an administrator took it back without "+there(f)
			}
		})
	},
}, {
	Step: "N1", ID: "lost.drop", Act: DropWish, When: Facts.spent,
	Words: says("the word that %s is lost counts no more, and is dropped: etcd of that host serves, or the word is a quarter of an hour old", there),
}, {
	Step: "N1", ID: ServesRule, Act: Wait, When: Facts.refuses,
	Words: says("etcd of %s serves, so that host is not lost: type the command there, without --is-gone", there), Way: "sudo holdfast topology apply --abort",
}, {
	Step: "N1", ID: "lost.unknown", Act: Wait, When: func(f Facts) bool { return f.saysLost() && f.mayTake() && !f.PeerHere.Known },
	Words: says("it is not known yet whether etcd of %s serves: this host takes the plan over once that has been silent for 15 s", there), Way: askEtcd,
}}

// awaitRules keep the part of a host that took the plan over until the cluster knows that it did. The other
// host may come back at a moment at which etcd did not serve, and would go on with what it was told before.
var awaitRules = []rule{{
	Step: "N1", ID: "take-over.await", Act: Wait, When: func(f Facts) bool { return f.Plan.Taken == f.Host && !f.Lock.Known },
	Words: says("waits for the API, to write there that this host took the plan over: %s has to find that, should it come back", there),
}}

// oustedRules are about a host that was said to be lost, carried the plan, and comes back with it.
var oustedRules = []rule{{
	// It never went on: nobody told it that etcd of the other host has moved.
	Step: "N1", ID: "ousted", Act: WritePlan,
	When: func(f Facts) bool {
		return f.mine() && f.Plan.Survivor == f.Host && f.Plan.Taken == "" && f.Lock.Value.Plan.Taken != ""
	},
	Words: says("%s has taken the plan over, to take it back: this host takes its part back, too", there),
	Plan:  func(f Facts) *Plan { p := f.copy(); return &p },
}, {
	// It found no copy of its plan in the cluster, and wrote it again.
	Step: "N1", ID: "revived", Act: WritePlan,
	When: func(f Facts) bool {
		c := f.Lock.Value.Plan
		return f.mine() && f.Plan.Taken == f.Host && f.Plan.Stage == Aborted && c.Taken == "" && !c.Stage.Over() && yes(f.PeerHere)
	},
	Words: says("%s has come back with the plan that was taken back without it: it takes its part back, too", there),
	Plan:  func(f Facts) *Plan { return with(f, func(p *Plan) { p.Stage, p.Lost = TakingBack, "" }) },
}}
