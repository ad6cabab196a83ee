package etcdmember

import (
	"cmp"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The rules of a pair that commits nothing although both hosts are there and both
// etcds run: a disk hangs, a port is filtered, one side refuses certificates, or a
// process stands still. With two voters each commit needs both disks, both
// processes and the network between them. So a stall shows that something is wrong,
// but not on which side. The sides differ in what each host's own tests report, and
// in whether it reports anything at all. Where they do not differ, the second host
// by name gives its data directory up, and nobody's power is touched.

// stalledFor returns how long nothing was committed while the peer was there.
func (v *view) stalledFor() time.Duration {
	if !v.said || !v.selfVoter() || v.voters != 2 || v.standIn() != 0 {
		return 0
	}
	return min(v.s.Local.Stalled, v.s.Uptime-cmp.Or(v.s.Pacemaker.Together, v.s.Pacemaker.Joined))
}

// stalled reports whether the stall lasts too long while neither host is about to
// stop.
func (v *view) stalled() bool {
	return v.stalledFor() >= StallAfter && !v.s.Pacemaker.Leaving && !v.peer.Leaving && !v.peerSpeaksForUs()
}

// peerSpeaksForUs reports whether a stand-in on the peer may speak.
func (v *view) peerSpeaksForUs() bool { return v.peer.StandIn.Known && v.peer.StandIn.Value != 0 }

func (v *view) sick() bool { return v.s.Local.Sick != "" }

// peerSick reports whether the peer states that its etcd cannot work, or states
// nothing although a working host would publish every few seconds.
func (v *view) peerSick() bool { return v.said && (v.peer.Sick != "" || v.peerSilent()) }

func (v *view) peerSilent() bool { return v.peer.Age > SilentAfter }

// unblamed reports whether both hosts see that nothing is committed and neither
// finds a fault in itself.
func (v *view) unblamed() bool {
	return v.stalled() && !v.sick() && !v.peerSick() && v.peer.Stalled >= StallAfter-StallStep && v.peerRuns()
}

// second reports whether this host is the second by name, which gives way where the
// hosts do not differ.
func (v *view) second() bool { return v.s.Host > v.s.Peer }

// lesser reports whether this host gives way to its peer where they do not differ:
// it is the second of two that hold everything, or the one that may lack writes.
func (v *view) lesser() bool {
	return v.peerIn(state.EtcdPair) && (v.in(state.EtcdPair) && v.second() || v.in(state.EtcdVoter))
}

// greater reports whether this host waits for its peer to give way. Such a peer
// states that it has not gone on alone, so this host may, once the peer is off.
func (v *view) greater() bool {
	return v.in(state.EtcdPair) && v.peerIn(state.EtcdPair, state.EtcdVoter) || v.in(state.EtcdSole) && v.peerIn(state.EtcdVoter)
}

// gaveWay reports whether etcd was stopped here because nothing was committed. The
// peer's etcd runs, but has no quorum until this host has given its data directory
// up.
func (v *view) gaveWay() bool {
	return v.stopped && v.s.Local.Stalled >= StallAfter && v.whole() && !v.peer.Leaving && !v.peerSick() && v.peerRuns() && v.peer.Stalled > 0
}

// Fault returns why the peer's etcd holds up the cluster while both hosts see each
// other, empty where it does not or nobody knows. A host at fault does not fence,
// so there is no race with it.
func Fault(s state.EtcdSnapshot) string {
	v := look(&s)
	switch {
	case !v.stalled() || v.sick():
		return ""
	case v.peer.Sick != "":
		return s.Peer + " states: " + v.peer.Sick
	case v.peerSilent() && !v.second(): // it may receive just as little from this host, so the order by name decides
		return s.Peer + " no longer makes statements, although its host is in contact"
	}
	return ""
}

var stallRules = []rule{
	{
		"stall.both", "nothing is committed, and both hosts find their own etcd unable to work",
		"neither host's etcd can work: neither host is fenced, since the other would be no better", state.EtcdAskHuman,
		func(v *view) bool {
			return v.stalled() && v.running && v.sick() && v.peer.Sick != ""
		},
		func(_ *view, out *state.EtcdVerdict) { out.Next = "holdfast explain etcd" },
	},
	{
		"stall.own", "nothing is committed, and this host finds its own etcd unable to work",
		"etcd on this host cannot work: the peer is the one that goes on", state.EtcdWait,
		func(v *view) bool { return v.stalled() && v.running && v.in(state.EtcdPair) && v.sick() }, nil,
	},
	{
		"stall.fence", "nothing is committed, and the peer states that its etcd cannot work, or no longer makes statements",
		"the peer's etcd blocks every write: Pacemaker is asked to fence it", state.EtcdAskFence,
		func(v *view) bool {
			return v.stalled() && v.running && !v.sick() && v.mayGoOn() && v.peerSick() &&
				v.peerIn(state.EtcdPair, state.EtcdVoter, state.EtcdLearner, state.EtcdDeparting, state.EtcdWidening)
		}, nil,
	},
}

// stallEqualRules follow stallRules where neither host went on alone.
var stallEqualRules = []rule{
	{
		"stall.give-way", "nothing is committed, nothing tells the hosts apart, and this host is the second by name, or may lack writes",
		"one host has to go on without the other: this one gives way, and no power is cut", state.EtcdStop,
		func(v *view) bool { return v.unblamed() && v.running && v.lesser() }, nil,
	},
	{
		// On the first host by name something else stopped etcd, so it is started
		// again: if both hosts gave way at once, neither could go on.
		"stall.depart", "etcd was stopped here to give way, and this host is the second by name, or may lack writes",
		"this host leaves, the peer goes on", state.EtcdWriteRecord,
		func(v *view) bool { return v.gaveWay() && v.lesser() }, writeDeparting,
	},
	{
		"stall.unmarked", "nothing is committed, nothing tells the hosts apart, and neither is marked yet as holding everything",
		"neither host may go on without the other: an administrator has to find the fault between them", state.EtcdAskHuman,
		func(v *view) bool {
			return v.unblamed() && v.running && v.in(state.EtcdVoter) && v.peerIn(state.EtcdVoter)
		},
		func(_ *view, out *state.EtcdVerdict) { out.Next = "holdfast explain etcd" },
	},
	{
		"stall.yield", "etcd was stopped here to give way, and the peer has read that this host leaves",
		"gives up its data directory, which is proof enough for the peer to go on without a fence", state.EtcdWriteRecord,
		func(v *view) bool { return v.gaveWay() && v.in(state.EtcdDeparting) && v.mayYield() }, writeYield,
	},
	{
		"stall.await", "etcd was stopped here to give way, and the peer has not read that yet",
		"waits until the peer has read that this host leaves", state.EtcdWait,
		func(v *view) bool {
			return v.gaveWay() && v.in(state.EtcdDeparting) && v.peerIn(state.EtcdPair)
		}, nil,
	},
}

// stallWaitRules apply to a host whose peer gives way.
var stallWaitRules = []rule{
	{
		"stall.last-resort", "nothing is committed, and the peer, which should have given way, did not in time",
		"the peer does not give way: Pacemaker is asked to fence it", state.EtcdAskFence,
		func(v *view) bool { return v.unblamed() && v.running && v.greater() && v.stalledFor() > FenceAfter }, nil,
	},
	{
		"stall.wait", "nothing is committed, and nothing tells the hosts apart",
		"waits for the peer to give way", state.EtcdWait,
		func(v *view) bool { return v.unblamed() && v.running && v.greater() }, nil,
	},
}

// stallFollowRules apply to a voter whose peer is sole. Such a voter was never
// eligible, so it gives way, whatever its name.
var stallFollowRules = []rule{
	{
		"stall.follower", "nothing is committed, nothing tells the hosts apart, and the peer holds more than this host",
		"the peer goes on without this host, and no power is cut", state.EtcdStop,
		func(v *view) bool { return v.unblamed() && v.running && v.in(state.EtcdVoter) && v.listed() }, nil,
	},
	{
		"stall.follower-yields", "etcd was stopped here to give way to the peer, which holds more",
		"gives up its data directory and joins again", state.EtcdWriteRecord,
		func(v *view) bool { return v.gaveWay() && v.in(state.EtcdVoter) && v.listed() }, writeEmpty,
	},
}

// quarantines lists how long a learner waits for its promotion after the first,
// second, ... stall in one boot of the host that went on. A host whose disk or port
// is still bad would hold up every write again.
var quarantines = []time.Duration{time.Minute, 2 * time.Minute, 10 * time.Minute, time.Hour}

// Quarantine returns how long a learner waits after this number of stalls.
func Quarantine(stalls int) time.Duration {
	return quarantines[min(max(stalls, 1), len(quarantines))-1]
}

// GoesOn reports whether a verdict ends a stall: this host goes on without its
// peer, or has it fenced. A peer on which etcd cannot run held up every write too.
func GoesOn(s state.EtcdSnapshot, verdict state.EtcdVerdict) bool {
	ends := verdict.Action == state.EtcdAskFence || verdict.Record != nil && verdict.Record.State.Leads()
	v := look(&s)
	return ends && (v.stalled() || v.peerBarred())
}
