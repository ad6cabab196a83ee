package replace

import "github.com/holdfast/holdfast/internal/model/state"

// joiningRules are those of R6 to R8: the newcomer enters, and the rules of the pair do the rest.
var joiningRules = []rule{
	{
		// The newcomer went away before it entered, or this host lost its power before: it must not
		// wait for a peer that it never had.
		step: "R6", id: "joining.alone", act: Retire,
		when: func(f Facts) bool {
			return (no(f.Retirement) || f.Misnamed) && (!f.admitted() || no(f.Serves)) && f.Ring.Known && !f.in(f.Plan.New.Name, f.Ring)
		},
		words: says("%s has not entered: the etcd keeper of %s learns that it has no peer", next, here),
	},
	lockAgain,
	lockStage,
	lateRule,
	{
		// The BMC was compared with the machine, and nothing but the plan has the address before Corosync's list. The
		// address of a site that grows is in etcd's configuration.
		step: "R6", id: "joining.moved", act: WritePlan,
		when: func(f Facts) bool {
			return f.waits() && f.Asks.Machine == f.Plan.Newcomer.Machine && f.Asks.Address != f.Plan.Newcomer.Address && !f.Plan.Grows &&
				f.Ring.Known && !f.in(f.Plan.New.Name, f.Ring)
		},
		words: func(f Facts) string {
			return next(f) + " asks at another address, " + f.Asks.Address + ": the plan takes that in"
		},
		// Written stays: by it late tells whether a person said after the newcomer was let in that it is lost.
		plan: func(f Facts) *Plan {
			p := *f.Plan
			p.Newcomer.Address = f.Asks.Address
			return &p
		},
	},
	{
		step: "R6", id: "joining.serves", act: Wait,
		when: func(f Facts) bool {
			return f.Ring.Known && !f.in(f.Plan.New.Name, f.Ring) && f.admitted() && !yes(f.Serves)
		},
		words: says("waits until etcd of %s serves: %s does not enter before", here, next),
		way:   says(explainEtcd),
	},
	{
		// Until then a guard keeps kubelets of retired names out. Before the next steps, because it
		// needs the API: once the word is gone that there is no peer, etcd of this host starts only
		// with the peer.
		step: "R6", id: "joining.name", act: GiveName,
		when: func(f Facts) bool {
			return (no(f.Given) || !f.Given.Known && !no(f.Retirement)) && (f.Plan.New.Name == f.Plan.Old.Name || f.Plan.Grows)
		},
		words: says("the name %s is given to the new host", next),
	},
	{
		// Under another name the old one stays retired, also if somebody deletes the tombstone. Under the
		// same one the name is given again, which writes the tombstone, too.
		step: "R6", id: "joining.grave", act: PutGrave,
		when:  func(f Facts) bool { return no(f.Tombstone) && !f.Plan.Grows && f.Plan.New.Name != f.Plan.Old.Name },
		words: says("somebody deleted the word that %s was retired: it is written again, so that nothing makes its Node again", old),
	},
	{
		// Before Corosync's list: a host that is lost right after it entered must be fenced.
		step: "R6", id: "joining.fencing", act: SetFencing, when: func(f Facts) bool { return !yes(f.Fences) },
		words: says("Pacemaker on %s gets the device of %s", here, next),
	},
	{
		// Not while the old host may have to be switched off.
		step: "R6", id: "joining.device", act: DropDevice, when: func(f Facts) bool { return yes(f.OldDevice) },
		words: says("the file with the BMC of %s is removed from %s", old, here),
	},
	{
		// From here on there is a peer again, and only a proof shows that it cannot act.
		step: "R6", id: "joining.peer", act: DropRetire,
		when: func(f Facts) bool {
			return !no(f.Retirement) && (f.admitted() && yes(f.Serves) || f.in(f.Plan.New.Name, f.Ring))
		},
		words: says("the etcd keeper of %s learns that it has a peer again", here),
	},
	{
		// Only when the newcomer can start at once: a host that is listed and was never seen is
		// fenced at Pacemaker's next election. Once more if the agent ended before Corosync had
		// read the list.
		step: "R6", id: "joining.ring", act: JoinRing,
		when: func(f Facts) bool {
			return f.Ring.Known && !f.in(f.Plan.New.Name, f.Ring) && f.admitted() ||
				f.in(f.Plan.New.Name, f.Ring) && !f.Plan.Entered
		},
		words: says("%s enters Corosync's cluster", next),
	},
	{
		step: "R6", id: "joining.lost-forget", act: ForgetAgain, when: func(f Facts) bool { return f.newcomerLost() && f.oldAgain() },
		words: says("Pacemaker forgets %s again", old),
	},
	{
		// From here on the plan only waits, so its end takes nothing away. A machine that lives after all
		// and was listed goes on by the rules of the pair; one that is lost is so as any peer.
		step: "R6", id: "joining.lost", act: WritePlan, when: Facts.newcomerLost,
		words: says("%s will not come back, as was said: the plan ends, and %s is lost as any peer is", next, next),
		plan: func(f Facts) *Plan {
			return with(f, func(p *Plan) {
				p.Stage, p.Ended = Whole, p.New.Name+" was lost before it was whole, as was said"
			})
		},
	},
	{
		step: "R6", id: "joining.other", act: Wait,
		when: func(f Facts) bool { return f.waits() && f.Asks != f.Plan.Newcomer && !yes(f.Contact) },
		words: func(f Facts) string {
			return "the machine at " + f.Asks.Address + " (" + f.Asks.Machine.String() + ") asks to enter as " + next(f) + ", and the plan let in the one at " +
				f.Plan.Newcomer.Address + " (" + f.Plan.Newcomer.Machine.String() + "): it is not let in"
		},
		way: func(f Facts) string {
			if f.Asks.Machine == f.Plan.Newcomer.Machine {
				return "give the machine the address " + f.Plan.Newcomer.Address + " again"
			}
			return "switch that machine off, and let the other one ask again; if the other one is lost for good: " + command(f) + " --abort, and begin anew"
		},
	},
	{
		step: "R6", id: "joining.await", act: Wait, when: func(f Facts) bool { return !f.in(f.Plan.New.Name, f.Ring) },
		words: says("waits until %s asks again", next),
	},
	{
		step: "R6", id: "joining.contact", act: Wait,
		when:  func(f Facts) bool { return !yes(f.Contact) },
		words: says("waits for contact with %s", next),
		way:   says(explainEtcd),
	},
	{
		step: "R7", id: "joining.sync", act: Wait, when: func(f Facts) bool { return !state.Is(f.Record, state.EtcdPair) },
		words: says("%s gets etcd's data and becomes a voter", next),
	},
	{
		// Pacemaker on the host that stays brings the old name back from its memory of peers when the
		// newcomer enters. Under the same name there is nothing to forget.
		step: "R8", id: "joining.forget", act: ForgetAgain, when: Facts.oldAgain,
		words: says("Pacemaker forgets %s again", old),
	},
	{
		step: "R8", id: "joining.verify", act: Wait, when: func(f Facts) bool { return !yes(f.Verified) },
		words: says("waits until each host has tested that it can fence the other one"),
		way:   says("holdfast fencing verify"),
	},
	{
		step: "R8", id: "joining.whole", act: WritePlan, when: always,
		words: says("either host may be lost"), plan: to(Whole),
	},
}

// admitted reports whether the newcomer that was let in waits to enter. Another machine, or another
// address, counts as nobody.
func (f Facts) admitted() bool { return f.waits() && f.Asks == f.Plan.Newcomer }

// oldAgain reports whether Pacemaker has the old name though another one has its place.
func (f Facts) oldAgain() bool {
	return f.Plan.Old.Name != "" && f.Plan.Old.Name != f.Plan.New.Name && f.in(f.Plan.Old.Name, f.Known)
}

// newcomerLost reports whether an administrator said a moment ago that the newcomer is lost, and this host
// is either a survivor whose peer is away, or one that knows that it has none: then it starts by itself
// without the plan, and the next plan may begin. What was said before the newcomer was let in, lateRule has
// dropped by then.
func (f Facts) newcomerLost() bool {
	if !asksAbort(f) || f.Now.Sub(f.Wish.At).Abs() >= wishLife || !no(f.Contact) || !state.Is(f.Record, state.EtcdSole) || !state.Is(f.Voters, 1) || !f.Ring.Known {
		return false
	}
	if f.in(f.Plan.New.Name, f.Ring) {
		return f.Plan.Entered && no(f.Retirement)
	}
	// Only once the keeper has its peer's new name: later nobody would write the retirement by that.
	return yes(f.Retirement) && f.Peer == f.Plan.New.Name && !f.Misnamed && !f.admitted()
}
