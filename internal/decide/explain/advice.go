package explain

import (
	"github.com/holdfast/holdfast/internal/decide/confirm"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// RestorePage describes how both hosts begin again from a backup, SiteRestorePage how a site is
// installed again with one.
const (
	RestorePage     = "docs/runbook/etcd-restore.md"
	SiteRestorePage = "docs/runbook/restore.md"
)

// advisor returns the advice of one rule, or of several.
type advisor func(in Input) []Advice

// byRule maps each rule that may last to its advice. A rule that is missing passes
// by itself within seconds, or leaves nothing to do.
var byRule = map[string]advisor{
	"unknown.record":  unreadable,
	"unknown.local":   lookAtServices,
	"unknown.data":    lookAtServices,
	"unknown.members": lookAtServices,

	"alone.no-copy":     join(startPeer, restore),
	"alone.damaged":     join(startPeer, restore),
	"alone.removed":     join(startPeer, restore),
	"alone.fence-first": join(fencing, startPeer, word),
	"alone.unproved":    join(startPeer, fencing, word),
	"alone.wait":        join(startPeer, word),

	"gone.ask-fence":      join(fencing, word),
	"gone.fence-again":    join(fencing, word),
	"gone.fence-promised": join(fencing, word),
	"gone.unproved":       join(fencing, word),
	"gone.not-heard":      join(startPeer, word),
	"gone.not-eligible":   join(startPeer, word, restore),
	"gone.sole-alone":     startPeer,
	"gone.widening":       join(startPeer, word),

	"majority.no-copy": join(peersExplanation, restore),
	"majority.wait":    waitsForPeer,

	"take-over.no-copy":     restore,
	"take-over.not-a-voter": restore,
	"take-over.too-many":    tooMany,

	"two-histories": choose,

	"lead.no-copy":        restore,
	"lead.removed":        restore,
	"equal.two-clusters":  restore,
	"equal.no-record":     join(wordOnPeer, restore),
	"equal.peer-lost":     join(word, restore),
	"equal.both-yielded":  restore,
	"equal.unusable":      restore,
	"equal.idle":          whyNoLeader,
	"silent.run":          whyNoLeader,
	"stall.own":           whyNoLeader,
	"stall.wait":          whyNoLeader,
	"stall.both":          join(lookAtDisks, peersExplanation),
	"stall.unmarked":      whyNoLeader,
	"silent.wait":         peersAgent,
	"equal.unknown":       peersAgent,
	"equal.unusable-wait": peersAgent,
	"follow.wait":         peersExplanation,
	"follow.unknown":      peersExplanation,
	"lead.unproved":       peersExplanation,
}

func advice(in Input, status Status) []Advice {
	if in.Source == FromFiles {
		return withoutAgent(in)
	}
	if status == Stopped || staysStopped(in.Report) {
		return stoppedAdvice(in)
	}
	give, ok := byRule[in.Report.Verdict.Rule]
	if !ok {
		return nil
	}
	return give(in)
}

func join(list ...advisor) advisor {
	return func(in Input) []Advice {
		var out []Advice
		for _, give := range list {
			out = append(out, give(in)...)
		}
		return out
	}
}

func startPeer(in Input) []Advice {
	snap := in.Report.Snapshot
	if p := snap.Proofs.Power; p.Known && p.Value != state.PowerOff && state.Is(snap.Pacemaker.Contact, false) {
		return []Advice{
			{Does: snap.Peer + " has power (its BMC reads " + p.Value + "): find out why the two hosts do not see each other: cable, switch, its console"},
			{"corosync-cfgtool -s", "shows the links between the hosts"},
		}
	}
	at := "at its BMC"
	if in.BMC != "" {
		at = "at its BMC, " + in.BMC
	}
	return []Advice{{Does: "switch " + in.Report.Snapshot.Peer + " on (" + at + "): once the two hosts see each other, the rest happens by itself"}}
}

// leave is all advice to a host whose place another machine has: nothing may start it.
func leave(in Input) []Advice {
	return []Advice{{Does: "switch " + in.Report.Snapshot.Host + " off and wipe its disk before it gets its network again; then it may be installed anew: docs/runbook/replace-host.md"}}
}

func fencing(in Input) []Advice {
	peer := in.Report.Snapshot.Peer
	return []Advice{
		{"holdfast fencing verify", "shows why the BMC of " + peer + " does not answer; changes nothing"},
		{"pcs stonith history show " + peer, "shows what Pacemaker has tried"},
	}
}

// word offers the confirmation where the protocol would use it.
func word(in Input) []Advice {
	effect, _ := confirm.Would(in.Report.Snapshot)
	peer := in.Report.Snapshot.Peer
	var does string
	switch effect {
	case confirm.Useless:
		return nil
	case confirm.Forced:
		does = "if " + peer + " cannot be started: shows what may be lost, switches it off and lets this host's data directory lead"
	default:
		does = "if " + peer + " cannot be started and fencing does not succeed: switches it off, or takes your confirmation, and goes on alone; no acknowledged write is lost"
	}
	return []Advice{
		{"holdfast quorum confirm --dry-run", "shows what is known about " + peer + " and what would be done; changes nothing"},
		{"holdfast quorum confirm --reason 'WHY'", does},
	}
}

func wordOnPeer(in Input) []Advice {
	peer := in.Report.Snapshot.Peer
	return []Advice{
		{"ssh " + peer + " sudo holdfast explain etcd", "shows what " + peer + " holds: if its data directory is the one to keep, it may go on with it"},
		{"ssh " + peer + " sudo holdfast quorum confirm --dry-run", "shows whether " + peer + " may go on without this host, which would then be switched off"},
	}
}

func choose(in Input) []Advice {
	peer := in.Report.Snapshot.Peer
	return []Advice{
		{"ssh " + peer + " sudo holdfast explain etcd", "shows since when " + peer + " has gone on alone; compare it with this host, and choose whose writes to keep"},
		{"mv " + state.EtcdRecordPath + " /root/ && systemctl restart podman-etcd", "only on the host whose writes are given up: its data directory is backed up and emptied, and it joins the other host's cluster"},
	}
}

func restore(Input) []Advice {
	return []Advice{{"etcdutl snapshot restore --help", "starts again from a backup, on both hosts at once: " + RestorePage}}
}

// putBack advises about things that somebody deleted on the host.
func putBack(in Input) []Advice {
	var out []Advice
	for _, d := range in.Deleted {
		if d.Command != "" {
			out = append(out, Advice{d.Command, "puts back what was deleted: " + d.What})
		}
	}
	return out
}

// odd advises about members of etcd that belong to neither host, under any rule, as long as
// etcd can commit their removal.
func odd(in Input) []Advice {
	list := etcdmember.Strangers(in.Report.Snapshot)
	if len(list) == 0 || in.Source == FromFiles || service(in.Report.Snapshot.Local) != Writes {
		return nil
	}
	return []Advice{{etcdmember.RemoveCommand(list[0].ID), "removes the member that belongs to neither host; do it while both hosts live, unless you know whose it is"}}
}

// tooMany advises a survivor whose etcd lists a third voter. Nobody takes over from a peer
// then, and two of three have to agree to a removal: the peer has to come back first.
func tooMany(in Input) []Advice {
	out := startPeer(in)
	list := etcdmember.Strangers(in.Report.Snapshot)
	switch {
	case len(list) == 0:
		out = append(out, Advice{etcdmember.ListCommand(), "shows the members: there must be exactly two voters; the one that belongs to neither host can be removed once etcd takes writes again"})
	case service(in.Report.Snapshot.Local) != Writes: // odd has it otherwise
		out = append(out, Advice{etcdmember.RemoveCommand(list[0].ID), "removes the member that belongs to neither host, once etcd takes writes again; without a leader it fails"})
	}
	return append(out, afterLoss(in))
}

// afterLoss advises where only the peer's return helps: a backup that is restored on one host
// alone has no right to lead, so the site is installed again.
func afterLoss(in Input) Advice {
	return Advice{
		"holdfast restore --from FILE --identity KEY --dir DIR --dry-run",
		"if " + in.Report.Snapshot.Peer + " is lost for good: shows what a backup holds; the site is installed again with it: " + SiteRestorePage,
	}
}

func unreadable(in Input) []Advice {
	peer := in.Report.Snapshot.Peer
	return []Advice{
		{"cat " + state.EtcdRecordPath, "shows the record: version, checksum, state"},
		{"ssh " + peer + " sudo holdfast explain etcd", "shows what " + peer + " does"},
		{"mv " + state.EtcdRecordPath + " /root/ && systemctl restart podman-etcd", "only if " + peer + " goes on alone (rule lead.* or gone.sole-alone): this host then backs up its data directory and joins again"},
	}
}

func lookAtServices(Input) []Advice {
	return []Advice{
		{"systemctl status corosync pacemaker podman-etcd", "shows which of them is not running"},
		{"journalctl -u podman-etcd -n 50", "shows what could not be read"},
	}
}

// whyNoLeader advises where both etcds run and do not come together.
func whyNoLeader(in Input) []Advice {
	if !leaderless(in) {
		return nil
	}
	peer := in.Report.Snapshot.Peer
	return append(peersExplanation(in),
		Advice{"ss -tn '( dport = :2380 or sport = :2380 )'", "shows whether the etcds of the two hosts are connected"},
		Advice{"journalctl -k -n 50", "shows disk errors and blocked processes; check on " + peer + " too"},
		Advice{"journalctl -u podman-etcd -n 50", "shows what the etcd keeper has tried; check here and on " + peer},
	)
}

// waitsForPeer advises in majority, where the third member does not vote yet and nobody takes
// over any more: a peer that is lost for good leaves a backup as the only way.
func waitsForPeer(in Input) []Advice {
	if !leaderless(in) || !state.Is(in.Report.Snapshot.Pacemaker.Contact, false) {
		return whyNoLeader(in)
	}
	return append(startPeer(in), afterLoss(in))
}

// lookAtDisks advises where neither host's etcd can work: one has to be repaired.
func lookAtDisks(in Input) []Advice {
	return []Advice{
		{Does: "repair what blocks etcd on one of the hosts, here: " + in.Report.Snapshot.Local.Sick + "; the repaired host goes on"},
		{"journalctl -k -n 50", "shows disk errors and blocked processes; check on " + in.Report.Snapshot.Peer + " too"},
	}
}

func peersAgent(in Input) []Advice {
	return []Advice{{"ssh " + in.Report.Snapshot.Peer + " systemctl status podman-etcd", "if this lasts: its etcd keeper has made no statement yet"}}
}

func peersExplanation(in Input) []Advice {
	return []Advice{{"ssh " + in.Report.Snapshot.Peer + " sudo holdfast explain etcd", "if this lasts: shows what " + in.Report.Snapshot.Peer + " waits for"}}
}

func stoppedAdvice(in Input) []Advice {
	return []Advice{
		{"pcs status", "shows why Pacemaker keeps it stopped: standby, disabled, or a failure"},
		{"pcs node unstandby " + in.Report.Snapshot.Host, "ends a standby of this host"},
		{"pcs resource enable etcd", "has Pacemaker start etcd again on both hosts, if somebody disabled it"},
	}
}

// withoutAgent advises where only files could be read.
func withoutAgent(in Input) []Advice {
	out := []Advice{
		{"systemctl start podman-etcd", "starts the etcd keeper, which checks the rest and goes on from the record"},
		{"journalctl -u podman-etcd -n 50", "shows why it stopped"},
	}
	if !in.Report.Snapshot.Record.Known {
		out = append(out, unreadable(in)...)
	}
	return out
}
