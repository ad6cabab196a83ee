package replace

import "github.com/holdfast/holdfast/internal/model/state"

// A site of two control planes shrinks in this order (docs/adr/0096): first the host that goes is
// retired, as a lost one is before another takes its place. The host that stays then is one of two
// without a peer: it serves, and starts alone after a power cut. Then it gives etcd back to
// kubelet, leaves Corosync and Pacemaker, and is a lone control plane as one that was never
// anything else.

// ShrinkGates returns every gate of a shrinking site, for a wish, or for a plan that can still be
// taken back.
func ShrinkGates(f Facts, w Wish) []Gate {
	return []Gate{
		f.gateTwo(), f.gateHere(w), f.gateSole(w), f.gateSilent(w), f.gateOff(w), f.gateEtcd(), f.gateAlone(), f.gateNode(w), f.gateBackup(w),
		f.gateLock(), f.gateUpgrade(), f.gateAccount(w), f.gateVolumes(w), f.gateMaintained(), f.gateTarget(),
	}
}

// gateMaintained keeps a plan from beginning that would wait for a person at its last steps.
func (f Facts) gateMaintained() Gate {
	switch {
	case !f.Maintained.Known:
		return shut("maintained", crmMon, "it is unknown whether Pacemaker is in maintenance")
	case f.Maintained.Value:
		return shut("maintained", manage, "Pacemaker is in maintenance: it would not stop etcd, which goes to kubelet")
	}
	return open("maintained")
}

// gateTarget keeps a plan from beginning that could not end.
func (f Facts) gateTarget() Gate {
	if !yes(f.Target) {
		return shut("target", "sudo holdfast topology apply --install-config FILE", "the site of one control plane is not written down on this host: type the command again")
	}
	return open("target")
}

// narrowRules come behind those that take the old host out of everything.
var narrowRules = []rule{{
	step: "S4", id: "narrow.begin", act: WritePlan, when: always,
	words: says("nothing of %s is left: %s becomes a lone control plane%s", old, here, bound),
	plan:  to(Narrowing),
}}

// narrowingRules make one of two without a peer a lone control plane. At each cut somebody starts
// etcd at boot without a person: Pacemaker, until it was told to stop it; then this plan, which
// needs no API for that; then kubelet.
var narrowingRules = []rule{
	lockAgain,
	lockStage,
	{
		step: "S4", id: "narrowing.pod", act: PutPod, when: func(f Facts) bool { return !yes(f.Pod) },
		words: says("kubelet's file of etcd is made on %s", here),
	},
	{
		// Before Pacemaker goes: a host that starts no kubelet at boot would be lost.
		step: "S4", id: "narrowing.boot", act: KubeletBoot, when: func(f Facts) bool { return !yes(f.Boots) },
		words: says("kubelet of %s starts at boot without Pacemaker", here),
	},
	{
		// Both next steps ask who has etcd now: one of them would give it to two.
		step: "S5", id: "narrowing.unknown", act: Wait, when: func(f Facts) bool { return !f.Kubelets.Known },
		words: says("it is unknown whether kubelet of %s has its file of etcd", here),
	},
	{
		// Before Pacemaker is told to stop etcd: it would do so at the moment in which the person ends
		// the maintenance. An etcd that does not run needs nobody to stop it.
		step: "S5", id: "narrowing.maintained", act: Wait,
		when:  func(f Facts) bool { return no(f.Kubelets) && yes(f.Maintained) && !no(f.Podmans) },
		words: says("waits until Pacemaker's maintenance ends: in it Pacemaker does not stop etcd of %s", here),
		way:   says(manage),
	},
	{
		step: "S5", id: "narrowing.stop", act: StopEtcd,
		when:  func(f Facts) bool { return no(f.Kubelets) && (!yes(f.Halted) || !no(f.Podmans)) },
		words: says("etcd of %s goes from Pacemaker to kubelet: the API is away for some seconds", here),
	},
	{
		step: "S5", id: "narrowing.give", act: GivePod, when: func(f Facts) bool { return !yes(f.Kubelets) },
		words: says("kubelet of %s starts etcd", here),
	},
	{
		step: "S5", id: "narrowing.runs", act: Wait, when: func(f Facts) bool { return !yes(f.Serves) || !state.Is(f.Voters, 1) },
		words: says("waits until etcd of %s runs under kubelet", here),
		way:   says("sudo sh -c 'tail -n 20 /var/log/pods/*_etcd-*/etcd/*.log'; sudo journalctl -u kubelet -n 50"),
	},
	{
		step: "S6", id: "narrowing.ring", act: EndRing, when: func(f Facts) bool { return !no(f.Runs) },
		words: says("Pacemaker and Corosync of %s end for good; what they started runs on", here),
	},
	{
		step: "S6", id: "narrowing.pair", act: EndPair, when: func(f Facts) bool { return !no(f.Paired) },
		words: says("%s forgets that it was one of two", here),
	},
	{
		step: "S7", id: "narrowing.dress", act: Dress, when: func(f Facts) bool { return f.ControlPlanes != 1 },
		words: says("the cluster's objects and site.json of %s become those of one control plane", here),
	},
	{
		step: "S7", id: "narrowing.whole", act: WritePlan, when: always,
		words: says("%s is the only control plane", here), plan: to(Whole),
	},
}
