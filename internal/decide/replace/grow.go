package replace

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A site of one control plane grows in this order (docs/adr/0092): first the lone host becomes
// one of two without a peer, as a survivor is after its peer was retired. It serves all the time
// and starts alone after a power cut, however long the newcomer takes. Then the newcomer enters
// as one that takes the place of a lost host does.

// GrowGates returns every gate of a growing site, for a wish, or for a plan that can still be
// taken back.
func GrowGates(f Facts, w Wish) []Gate {
	return []Gate{
		f.gateDressed(), f.gateLone(), f.gateEtcd(), f.gateAlone(), f.gateLearner(), f.gateBackup(w), f.gateWork(), f.gateRoom(), f.gateRelease(),
		f.gateBMC(w), f.gateName(w),
	}
}

// EarlyGates returns those gates of a growing site that can be judged before its host is prepared as one
// of two. No one of them depends on what is prepared.
func EarlyGates(f Facts, w Wish) []Gate {
	return []Gate{f.gateBackup(w), f.gateWork(), f.gateRoom(), f.gateRelease()}
}

// GatesOf returns the gates of a wish.
func GatesOf(f Facts, w Wish) []Gate {
	switch {
	case w.Grows:
		return GrowGates(f, w)
	case w.Shrinks:
		return ShrinkGates(f, w)
	}
	return Gates(f, w)
}

func (f Facts) gateDressed() Gate {
	if f.ControlPlanes != 2 {
		return shut("dressed", "sudo holdfast topology apply --install-config FILE", "the site that this host knows has %d control planes and not two", f.ControlPlanes)
	}
	return open("dressed")
}

// gateLone is open if this host never had a peer.
func (f Facts) gateLone() Gate {
	switch {
	case !f.Ring.Known || !f.Record.Known:
		return shut("lone", explainEtcd, "it is unknown whether this host has, or had, a peer")
	case len(f.Ring.Value) > 0:
		return shut("lone", statusShow, "this host is in a cluster of Corosync already: a site grows from one control plane")
	case f.Record.Value != state.EtcdNone:
		return shut("lone", explainEtcd, "the record of etcd on this host says %s: only a host that was never one of two grows to two", f.Record.Value)
	case !yes(f.Kubelets):
		return shut("lone", explainEtcd, "kubelet does not run etcd on this host, or that is unknown")
	}
	return open("lone")
}

func (f Facts) gateLearner() Gate {
	if !state.Is(f.Learner, 0) {
		return shut("learner", "sudo "+etcdmember.ListCommand(), "etcd has a learner, or that is unknown: remove it, or wait until it votes")
	}
	return open("learner")
}

// joinFile is the command that writes the join file of the newcomer.
func joinFile(f Facts) string {
	return command(f) + " --join-file FILE"
}

// command is the command that follows the plan, and that takes in what a person changes.
func command(f Facts) string {
	return "sudo " + f.Plan.Command()
}

// growRules are those of a growing site in which everything can still be taken back.
var growRules = slices.Concat(
	[]rule{{
		step: "R1", id: "grow.abort", act: WritePlan, when: asksAbort,
		words: says("the plan is taken back, as was asked: this host goes on as the only control plane"),
		plan:  abort(says("an administrator took it back")),
	}},
	lockRules,
	[]rule{gateRule, {
		step: "R1", id: "grow.begin", act: WritePlan, when: always,
		words: says("%s becomes one of two: from here on the plan only goes forward, and %s serves all the time", here, here),
		plan:  to(Widening),
	}},
)

// wideningRules make the lone host one of two without a peer. Each act may be cut off: until
// etcd is taken from kubelet, kubelet starts it at boot as ever; after that the record says sole,
// and the retirement says that there is no peer, so the keeper starts it.
var wideningRules = []rule{
	lockAgain,
	lockStage,
	lateRule,
	{
		step: "R2", id: "widening.token", act: PutToken, when: func(f Facts) bool { return no(f.Token) },
		words: says("the cluster gets the secret of the two hosts' key"),
	},
	{
		step: "R2", id: "widening.manifest", act: PutManifest, when: func(f Facts) bool { return !yes(f.Manifest) },
		words: says("the etcd keeper of %s gets the file from which it will run etcd", here),
	},
	{
		// Before Corosync runs: at no moment is there a membership in which a peer is missed.
		step: "R2", id: "widening.keeper", act: Retire, when: func(f Facts) bool { return !yes(f.Retirement) },
		words: says("the etcd keeper of %s learns that it has no peer: it starts alone after a power cut", here),
	},
	{
		step: "R2", id: "widening.ring", act: FirstRing,
		when:  func(f Facts) bool { return f.Ring.Known && (!f.in(f.Host, f.Ring) || !f.in(f.Host, f.Known)) },
		words: says("Corosync and Pacemaker start on %s, which is alone in their cluster", here),
	},
	{
		step: "R2", id: "widening.pacemaker", act: SetAlone, when: func(f Facts) bool { return !yes(f.Fences) },
		words: says("Pacemaker on %s gets kubelet and etcd", here),
	},
	{
		step: "R2", id: "widening.record", act: Wait,
		when:  func(f Facts) bool { return !state.Is(f.Record, state.EtcdSole) || !yes(f.Asked) },
		words: says("the etcd keeper of %s writes down that this host alone has all data", here),
		way:   says(explainEtcd),
	},
	{
		// The one moment in which the API is away: etcd stops under kubelet and starts under
		// the keeper, with the same data.
		step: "R3", id: "widening.take", act: TakeEtcd,
		when:  func(f Facts) bool { return yes(f.Kubelets) && yes(f.Serves) && state.Is(f.Voters, 1) },
		words: says("etcd of %s goes from kubelet to Pacemaker: the API is away for some seconds", here),
	},
	{
		step: "R3", id: "widening.runs", act: Wait,
		when:  func(f Facts) bool { return !yes(f.Podmans) || !yes(f.Serves) },
		words: says("waits until etcd of %s runs under Pacemaker", here),
		way:   says(explainEtcd),
	},
	{
		step: "R3", id: "widening.finish", act: Finish, when: always,
		words: says("%s is one of two and has no peer yet: Pacemaker starts kubelet and etcd at boot", here),
		plan:  to(Waiting),
	},
}
