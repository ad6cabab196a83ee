package widen

import (
	"github.com/holdfast/holdfast/internal/model/state"
)

// bootRules, handRules, endRules and dressRules are what each of the two does on itself.
var bootRules = []rule{{
	// Before maintenance: Pacemaker starts nothing then.
	Step: "W5", ID: "hand.boot", Act: KubeletBoot, When: func(f Facts) bool { return !yes(f.Boots) },
	Words: says("kubelet of %s starts at boot without Pacemaker", here),
}}

var maintainRules = []rule{
	{
		Step: "W5", ID: "hand.far-boots", Act: Wait,
		When: func(f Facts) bool {
			return !yes(f.Halted) && !yes(f.Maintained) && (!state.Is(f.Record, state.EtcdMajority) || !f.told(func(p Progress) bool { return p.Boots && p.Record == state.EtcdMajority }))
		},
		Words: says("waits until kubelet of %s starts at boot without Pacemaker, too, and both etcd keepers know that three vote", there),
	},
	{
		Step: "W5", ID: "hand.maintain", Act: Maintain, When: func(f Facts) bool { return !yes(f.Halted) && !yes(f.Maintained) },
		Words: says("Pacemaker starts, stops and fences nothing any more: raft's majority of three decides"),
	},
}

var peerMaintainedRules = []rule{{
	Step: "W5", ID: "hand.await", Act: Tell, When: func(f Facts) bool {
		return !yes(f.Halted) && !yes(f.Maintained) && f.Told.Known && f.Told.Value != f.Progress()
	},
	Words: says("%s tells how far it is", here),
}, {
	Step: "W5", ID: "hand.unmaintained", Act: Wait, When: func(f Facts) bool { return !yes(f.Halted) && !yes(f.Maintained) },
	Words: says("waits until %s has put Pacemaker into maintenance", there),
}}

// amendRules take in that a person said that the third machine will not come back. The word is needed
// for the writes, which stop while etcd of either host restarts, and for nothing else: raft loses no
// acknowledged write, whether the machine is really gone or not.
var amendRules = []rule{{
	Step: "W5", ID: "hand.gone", Act: WritePlan,
	When: func(f Facts) bool {
		return !f.stopped() && f.Wish != nil && !f.Wish.Abort && f.Wish.ID == f.Plan.ID && f.Wish.Gone && !f.Plan.Gone
	},
	Words: says("nobody waits for %s any more, as was said: while etcd of a host restarts nobody can write", next),
	Plan:  func(f Facts) *Plan { return with(f, func(p *Plan) { p.Gone = true }) },
}}

// lostHandRules ask a person. A host whose etcd was stopped already goes on.
var lostHandRules = []rule{{
	Step: "W5", ID: "hand.lost", Act: Wait,
	When: func(f Facts) bool {
		return no(f.Kubelets) && !yes(f.Halted) && f.votesLost() && !f.Plan.Gone
	},
	Words: says("etcd of %s does not answer, and the plan waits for it. If its machine is lost for good, say so: writes stop for some seconds then, twice", next),
	Way:   "sudo holdfast topology apply --is-gone SERIAL",
}}

// turnRules have the other host go first: of three members only one is down at a time.
var turnRules = []rule{{
	Step: "W5", ID: "hand.turn", Act: Wait,
	When: func(f Facts) bool {
		return no(f.Kubelets) && !yes(f.Halted) && !f.told(func(p Progress) bool { return p.Kubelets })
	},
	Words: says("waits until etcd of %s runs under kubelet", there),
}}

var handRules = []rule{
	{
		Step: "W5", ID: "hand.pod", Act: PutPod, When: func(f Facts) bool { return !yes(f.Pod) },
		Words: says("kubelet's file of etcd is made on %s", here),
	},
	{
		// Only while the two other members carry the cluster, or a person said that one will never again.
		Step: "W5", ID: "hand.stop", Act: StopEtcd,
		When: func(f Facts) bool {
			return no(f.Kubelets) && yes(f.Boots) && (no(f.Halted) && yes(f.Maintained) && f.othersServe() && state.Is(f.Voters, 3) && state.Is(f.Record, state.EtcdMajority) || yes(f.Halted) && yes(f.Podmans))
		},
		Words: func(f Facts) string {
			if f.Plan.Gone {
				return "etcd of " + f.Host + " goes from Pacemaker to kubelet: nobody can write meanwhile"
			}
			return "etcd of " + f.Host + " goes from Pacemaker to kubelet: the other two serve meanwhile"
		},
	},
	{
		Step: "W5", ID: "hand.give", Act: GivePod, When: func(f Facts) bool { return no(f.Kubelets) && yes(f.Halted) && no(f.Podmans) },
		Words: says("kubelet of %s starts etcd", here),
	},
	{
		Step: "W5", ID: "hand.others", Act: Wait, When: func(f Facts) bool { return !yes(f.Kubelets) },
		Words: says("waits until the two other members of etcd serve"), Way: askEtcd,
	},
}

var handedRules = []rule{
	{
		Step: "W5", ID: "hand.runs", Act: Wait, When: func(f Facts) bool { return !f.handed() || !f.Told.Known || !f.Told.Value.Kubelets },
		Words: says("waits until etcd of both runs under kubelet, and three vote"), Way: etcdLog + "; sudo journalctl -u kubelet -n 50",
	},
	{
		Step: "W6", ID: "hand.over", Act: WritePlan, When: always,
		Words: says("kubelet runs all three members of etcd: Corosync and Pacemaker end"), Plan: to(Ending),
	},
}

var farHandedRules = []rule{{
	// The other host tells this stage once nothing of one of two is left there. A copy that is late
	// would have its host wait for Pacemaker, which is gone by then.
	Step: "W6", ID: "end.far", Act: Wait, When: func(f Facts) bool {
		return !no(f.Runs) && !f.told(func(p Progress) bool { return p.Stage == Ending && p.Ended })
	},
	Words: says("waits until %s has ended its Corosync and Pacemaker", there),
}}

var endRules = []rule{
	{
		Step: "W6", ID: "end.ring", Act: EndRing, When: func(f Facts) bool { return !no(f.Runs) },
		Words: says("Pacemaker and Corosync of %s end for good; what they started runs on", here),
	},
	{
		Step: "W6", ID: "end.pair", Act: EndPair, When: func(f Facts) bool { return !no(f.Paired) },
		Words: says("%s forgets that it was one of two", here),
	},
}

var endedRules = []rule{
	{
		Step: "W7", ID: "end.over", Act: WritePlan, When: always,
		Words: says("nothing of the two is left: the objects and files become those of three"), Plan: to(Dressing),
	},
}

var dressRules = []rule{{
	Step: "W7", ID: "dress", Act: Dress, When: func(f Facts) bool { return !yes(f.Dressed) },
	Words: says("%s becomes one of three control planes", here),
}}

var dressedRules = []rule{
	{
		Step: "W7", ID: "dress.await", Act: Wait, When: func(f Facts) bool { return !f.Told.Known || !f.Told.Value.Dressed },
		Words: says("waits until %s has become one of three control planes", there),
	},
	{
		Step: "W7", ID: "dress.whole", Act: WritePlan, When: always,
		Words: says("the site has three control planes: any one may be lost"), Plan: to(Whole),
	},
}
