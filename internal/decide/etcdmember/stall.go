package etcdmember

import (
	"cmp"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The rules of a pair that commits nothing although both hosts are there and
// both etcds run: a disk that hangs, a port that is filtered, certificates that
// one side refuses, a process that stands still. With two voters each commit
// needs both disks, both processes and the network between them, so that a stall
// says that something is wrong, and not on which side. What tells the sides
// apart is what each host's own tests say of itself, and whether it says
// anything at all. Where nothing does, the second host by name gives its copy up
// without anybody's power being touched.

// stalledFor is how long nothing was committed although the peer was there.
func (v *view) stalledFor() time.Duration {
	if !v.said || !v.selfVoter() || v.voters != 2 || v.standIn() != 0 {
		return 0
	}
	return min(v.s.Local.Stalled, v.s.Uptime-cmp.Or(v.s.Pacemaker.Together, v.s.Pacemaker.Joined))
}

// stalled reports whether that is too long, and neither host is about to stop.
func (v *view) stalled() bool {
	return v.stalledFor() >= StallAfter && !v.s.Pacemaker.Leaving && !v.peer.Leaving && !v.peerSpeaksForUs()
}

// peerSpeaksForUs reports whether a stand-in on the peer may speak.
func (v *view) peerSpeaksForUs() bool { return v.peer.StandIn.Known && v.peer.StandIn.Value != 0 }

func (v *view) sick() bool { return v.s.Local.Sick != "" }

// peerSick reports whether the peer says that its etcd cannot work, or says
// nothing although a host that works would speak every few seconds.
func (v *view) peerSick() bool { return v.said && (v.peer.Sick != "" || v.peerSilent()) }

func (v *view) peerSilent() bool { return v.peer.Age > SilentAfter }

// unblamed reports whether both hosts see that nothing is committed, and neither
// finds anything wrong with itself.
func (v *view) unblamed() bool {
	return v.stalled() && !v.sick() && !v.peerSick() && v.peer.Stalled >= StallAfter-StallStep && v.peerRuns()
}

// second reports whether this host is the second by name, which gives way where
// nothing tells the hosts apart.
func (v *view) second() bool { return v.s.Host > v.s.Peer }

// lesser reports whether this host gives way to its peer where nothing tells them
// apart: the second of two that hold everything, or the one that may lack writes.
func (v *view) lesser() bool {
	return v.peerIn(state.EtcdPair) && (v.in(state.EtcdPair) && v.second() || v.in(state.EtcdVoter))
}

// greater reports whether it waits for its peer to give way. Such a peer tells that
// it has not gone on alone, so this host may, once that is off.
func (v *view) greater() bool {
	return v.in(state.EtcdPair) && v.peerIn(state.EtcdPair, state.EtcdVoter) || v.in(state.EtcdSole) && v.peerIn(state.EtcdVoter)
}

// gaveWay reports whether etcd was stopped here because nothing was committed.
// The peer, whose etcd runs, has no quorum until this host gave its copy up.
func (v *view) gaveWay() bool {
	return v.stopped && v.s.Local.Stalled >= StallAfter && v.whole() && !v.peer.Leaving && !v.peerSick() && v.peerRuns() && v.peer.Stalled > 0
}

// Fault returns why the peer's etcd holds up the cluster while both hosts see
// each other, empty where it does not or nobody knows. Whoever is at fault does
// not fence, so that there is no race with it.
func Fault(s state.EtcdSnapshot) string {
	v := look(&s)
	switch {
	case !v.stalled() || v.sick():
		return ""
	case v.peer.Sick != "":
		return s.Peer + " says of itself: " + v.peer.Sick
	case v.peerSilent() && !v.second(): // it may hear as little of this host: then the order between the two has to hold
		return s.Peer + " says nothing any more, although its host is there"
	}
	return ""
}

var stallRules = []rule{
	{
		"stall.both", "nothing is committed, and both hosts find their own etcd unable to work",
		"neither host's etcd can work: nobody is fenced, since the other would be no better", state.EtcdAskHuman,
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
		"stall.fence", "nothing is committed, and the peer says that its etcd cannot work, or says nothing",
		"the peer's etcd holds up every write: Pacemaker is asked to fence it", state.EtcdAskFence,
		func(v *view) bool {
			return v.stalled() && v.running && !v.sick() && v.mayGoOn() && v.peerSick() &&
				v.peerIn(state.EtcdPair, state.EtcdVoter, state.EtcdLearner, state.EtcdDeparting)
		}, nil,
	},
}

// stallEqualRules follow them where neither host went on alone.
var stallEqualRules = []rule{
	{
		"stall.give-way", "nothing is committed, nothing tells the hosts apart, and this host is the second by name, or may lack writes",
		"one host has to go on without the other: this one gives way, and nobody's power is touched", state.EtcdStop,
		func(v *view) bool { return v.unblamed() && v.running && v.lesser() }, nil,
	},
	{
		// An etcd of the first host by name was stopped by something else, and is
		// started again: of two hosts that give way at once neither could go on.
		"stall.depart", "etcd was stopped here to give way, and this host is the second by name, or may lack writes",
		"this host leaves, the peer goes on", state.EtcdWriteRecord,
		func(v *view) bool { return v.gaveWay() && v.lesser() }, writeDeparting,
	},
	{
		"stall.unmarked", "nothing is committed, nothing tells the hosts apart, and neither was told yet that it holds everything",
		"neither host may go on without the other: a person has to find what is between them", state.EtcdAskHuman,
		func(v *view) bool {
			return v.unblamed() && v.running && v.in(state.EtcdVoter) && v.peerIn(state.EtcdVoter)
		},
		func(_ *view, out *state.EtcdVerdict) { out.Next = "holdfast explain etcd" },
	},
	{
		"stall.yield", "etcd was stopped here to give way, and the peer has read that this host leaves",
		"gives its copy up, which is proof enough for the peer to go on without a fence", state.EtcdWriteRecord,
		func(v *view) bool { return v.gaveWay() && v.in(state.EtcdDeparting) && v.mayYield() }, writeYield,
	},
	{
		"stall.await", "etcd was stopped here to give way, and the peer has not read it yet",
		"waits until the peer has read that this host leaves", state.EtcdWait,
		func(v *view) bool {
			return v.gaveWay() && v.in(state.EtcdDeparting) && v.peerIn(state.EtcdPair)
		}, nil,
	},
}

// stallWaitRules are those of a host whose peer gives way.
var stallWaitRules = []rule{
	{
		"stall.last-resort", "nothing is committed, and the peer, which should have given way, did not in time",
		"the peer gives no way: Pacemaker is asked to fence it", state.EtcdAskFence,
		func(v *view) bool { return v.unblamed() && v.running && v.greater() && v.stalledFor() > FenceAfter }, nil,
	},
	{
		"stall.wait", "nothing is committed, and nothing tells the hosts apart",
		"waits for the peer to give way", state.EtcdWait,
		func(v *view) bool { return v.unblamed() && v.running && v.greater() }, nil,
	},
}

// stallFollowRules are those of a voter whose peer is sole: it was never
// eligible, so it is the one that gives way, whatever its name.
var stallFollowRules = []rule{
	{
		"stall.follower", "nothing is committed, nothing tells the hosts apart, and the peer holds more than this host",
		"the peer goes on without this host, and nobody's power is touched", state.EtcdStop,
		func(v *view) bool { return v.unblamed() && v.running && v.in(state.EtcdVoter) && v.listed() }, nil,
	},
	{
		"stall.follower-yields", "etcd was stopped here to give way to the peer, which holds more",
		"gives its copy up, and joins anew", state.EtcdWriteRecord,
		func(v *view) bool { return v.gaveWay() && v.in(state.EtcdVoter) && v.listed() }, writeEmpty,
	},
}

// quarantines are how long a learner waits for its promotion after the first,
// second, ... stall of one boot of the host that went on: a host whose disk or
// port is still bad would hold up every write again.
var quarantines = []time.Duration{time.Minute, 2 * time.Minute, 10 * time.Minute, time.Hour}

// Quarantine is how long a learner waits after so many stalls.
func Quarantine(stalls int) time.Duration {
	return quarantines[min(max(stalls, 1), len(quarantines))-1]
}

// GoesOn reports whether a verdict ends a stall: this host goes on without its
// peer, or has it fenced.
func GoesOn(s state.EtcdSnapshot, verdict state.EtcdVerdict) bool {
	ends := verdict.Action == state.EtcdAskFence || verdict.Record != nil && verdict.Record.State.Leads()
	return ends && look(&s).stalled()
}
