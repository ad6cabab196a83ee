package etcdmember

import "github.com/holdfast/holdfast/internal/model/state"

func leaving(v *view) bool { return v.s.Pacemaker.Leaving }

// mayLeave reports whether the peer can carry the cluster when this host leaves.
func (v *view) mayLeave() bool {
	return v.known && v.said && v.peerRuns() && !v.peer.Leaving && v.selfVoter() && v.otherVoter() &&
		(v.in(state.EtcdPair) && v.peerIn(state.EtcdPair, state.EtcdSole) || v.in(state.EtcdVoter) && v.peerIn(state.EtcdSole))
}

// mightLeave reports whether nothing known speaks against leaving, while something
// that could speak for it is unknown.
func (v *view) mightLeave() bool {
	switch {
	case !v.known || !v.contact || !v.running || !v.in(state.EtcdPair, state.EtcdVoter):
		return false
	case !v.said || v.peer.Leaving:
		return !v.said
	case v.mayLeave():
		return !v.s.Local.Leader.Known || v.leaderless()
	}
	return !v.membersKnown || !v.peer.Running.Known
}

// mayYield reports whether the peer holds everything, can run, and has read that
// this host departs. From then on the peer never departs itself, so two hosts that leave at
// once cannot both give their data directories up.
func (v *view) mayYield() bool {
	return v.said && v.stopped && v.own.Yields == 0 && v.own.Member != 0 && v.answered() && v.peer.Record.Yields == 0 &&
		v.peerIn(state.EtcdPair, state.EtcdSole, state.EtcdTakingOver) && v.peerCopyIs(state.CopyWhole) && !v.peerBarred()
}

// staysStopped reports whether this host was stopped without leaving, longer than a restart
// takes, while the peer is to run and states for about StallAfter that it has no leader: both
// were started, or the peer never stopped. It knows of a peer only what that states, so a stop
// of both, and a start of both, are over by then. A stall of the peer's former run does not count:
// the peer may have been started a moment ago, and the start of this host be on its way.
func (v *view) staysStopped() bool {
	return v.s.Pacemaker.LeavingFor > LeaveLimit && v.standIn() == 0 && v.mayYield() && v.peerIn(state.EtcdPair) && v.peerCarries() &&
		!v.peer.Leaving && v.peer.Leaderless && v.peer.Stalled-v.peer.Earlier >= StallAfter-StallStep
}

var leavingRules = []rule{
	{
		"leave.yield", "we depart, our etcd is stopped, and the peer has read that we depart",
		"gives up its data directory, which is proof enough for the peer to go on without a fence", state.EtcdWriteRecord,
		func(v *view) bool { return v.known && v.in(state.EtcdDeparting) && v.mayYield() }, writeYield,
	},
	{
		// It may be down before it was asked to stop, or its peer may stop too and be
		// started again: then it never left, and one of two voters commits nothing.
		"leave.depart-stopped", "etcd is stopped, we never left, and the peer, which is pair, runs and has committed nothing for too long",
		"this host stays stopped, and its peer takes no writes because of that: this host leaves, the peer goes on", state.EtcdWriteRecord,
		func(v *view) bool { return v.in(state.EtcdPair, state.EtcdVoter) && v.staysStopped() }, writeDeparting,
	},
	{
		"leave.stopped", "etcd is stopped", "etcd is stopped, as Pacemaker requested", state.EtcdIdle,
		func(v *view) bool { return v.stopped && v.standIn() == 0 }, nil,
	},
	{
		"leave.settle", "the peer can carry the cluster, and we have only begun to stop",
		"waits briefly for a statement that the peer stops too: in that case neither host leaves", state.EtcdWait,
		func(v *view) bool { return v.mayLeave() && v.s.Pacemaker.LeavingFor < LeaveSettle }, nil,
	},
	{
		"leave.hand-over-leadership", "the peer can carry the cluster, and we lead",
		"leadership moves to the peer before this host leaves, so that writes go on", state.EtcdMoveLeader,
		func(v *view) bool {
			return v.iLead() && (v.mayLeave() || v.in(state.EtcdDeparting) && v.stillLeaves()) && v.s.Pacemaker.LeavingFor <= LeaveLimit
		}, aboutOther,
	},
	{
		"leave.depart", "the peer can carry the cluster, and leads",
		"this host leaves, the peer stays", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.mayLeave() && state.Is(v.s.Local.Leader, v.other.ID) && v.s.Pacemaker.LeavingFor <= LeaveLimit
		}, writeDeparting,
	},
	{
		"leave.await-removal", "we depart and are still a member",
		"waits until the peer has removed this member", state.EtcdWait,
		func(v *view) bool {
			return v.in(state.EtcdDeparting) && v.stillLeaves() && v.s.Pacemaker.LeavingFor <= LeaveLimit
		}, nil,
	},
	{
		"leave.look-again", "the peer is in contact and does not stop, and it is not yet known whether it can carry the cluster, or who leads",
		"checks again before it stops without leaving: a peer left with half of the votes cannot write", state.EtcdWait,
		func(v *view) bool { return v.mightLeave() && v.s.Pacemaker.LeavingFor <= LeaveLook }, nil,
	},
	{
		"leave.stop", "all else",
		"stops and keeps its data directory and its record: neither host leaves when both stop, and a lone survivor never leaves", state.EtcdStop,
		always, nil,
	},
}

// stillLeaves reports whether the peer is about to remove this member.
func (v *view) stillLeaves() bool {
	return v.known && v.running && v.peerRuns() && !v.peer.Leaving && v.selfVoter() && v.otherVoter() &&
		v.peerIn(state.EtcdPair, state.EtcdSole)
}

// Unread reports whether the peer may not yet know what it needs in order to go on without a host that
// was stopped: that this host departs, and then that it gave its data directory up, which the peer
// knows for good once its record says that it takes over. A peer that has removed this host needs
// neither, and one that is gone or stops too reads nothing.
func Unread(s state.EtcdSnapshot) bool {
	v := look(&s)
	switch {
	case v.known && !v.in(state.EtcdDeparting) || v.absent:
		return false
	case !v.known || !v.said: // nobody knows: perhaps one look was late
		return true
	case v.peer.Leaving:
		return false
	}
	if _, listed := v.listedByPeer(); v.peer.Members.Known && !listed {
		return false
	}
	return !v.answered() || v.mayYield() || v.own.Yields != 0 && !v.peerNotedYield()
}

// peerNotedYield reports whether the peer takes over for what this host gave up. A former release notes
// no member, and a peer that takes over for another reason has no proof once this host is gone.
func (v *view) peerNotedYield() bool {
	p := v.peer.Record.Proof
	return v.peerIn(state.EtcdTakingOver) && p.Kind == state.ProofYielded && p.Member == v.own.Yields
}

var unknownRules = []rule{
	{
		"unknown.record", "our record cannot be read",
		"the record of this host cannot be read, so it is unknown what this host may do; a healthy etcd is not touched", state.EtcdAskHuman,
		func(v *view) bool { return !v.known },
		func(_ *view, out *state.EtcdVerdict) { out.Next = "holdfast explain etcd" },
	},
	{
		"unknown.local", "it is unknown whether etcd or a stand-in runs here, or whether the peer is in contact",
		"part of the state of this host could not be read; it will be read again", state.EtcdWait,
		func(v *view) bool {
			return !v.running && !v.stopped || !v.contact && !v.absent || !v.s.Local.StandIn.Known || !v.s.Pacemaker.Inert.Known
		}, nil,
	},
	{
		"unknown.data", "etcd is stopped and the condition of its data is unknown",
		"etcd's data directory could not be examined; it will be examined again", state.EtcdWait,
		func(v *view) bool { return v.stopped && !v.s.Data.Known }, nil,
	},
	{
		"unknown.members", "etcd runs and its membership is unknown",
		"etcd did not answer in time; it is not touched and will be asked again", state.EtcdWait,
		func(v *view) bool { return v.running && !v.membersKnown }, nil,
	},
	{
		// A learner that catches up replays earlier memberships, so the list in its
		// own data directory proves nothing.
		"removed.stop", "etcd runs, our record is neither none nor learner, and etcd's own membership does not list us",
		"this member was removed from the cluster", state.EtcdStop,
		func(v *view) bool { return v.running && !v.selfListed() && !v.in(state.EtcdNone, state.EtcdLearner) }, nil,
	},
}

func inert(v *view) bool { return state.Is(v.s.Pacemaker.Inert, true) }

var inertRules = []rule{
	{
		"alone.no-copy", "no record, a learner's record, or a data directory that we gave up",
		"this host has no data directory that may lead: a learner's may lack writes. Start the peer, or restore a backup", state.EtcdAskHuman,
		func(v *view) bool { return v.in(state.EtcdNone, state.EtcdLearner) || v.own.Yields != 0 }, restoreCommand,
	},
	{
		"alone.damaged", "our data directory is not whole",
		"etcd cannot start from the data directory of this host. Start the peer, or restore a backup", state.EtcdAskHuman,
		func(v *view) bool { return !v.whole() }, restoreCommand,
	},
	{
		"alone.removed", "our data directory does not list us as a voter",
		"this member has left the cluster, or never became a voter of it: its data directory can never lead. Start the peer, or restore a backup", state.EtcdAskHuman,
		func(v *view) bool { return !v.selfVoter() }, restoreCommand,
	},
	{
		"alone.retired", "sole, and the peer was retired for good",
		"this host was the survivor and its peer was retired: it goes on alone until another host takes the peer's place", state.EtcdGrantQuorum,
		func(v *view) bool { return v.retired() }, nil,
	},
	{
		"alone.survivor", "the record allows a start alone, and the peer was fenced and its BMC reads Off, or an administrator confirmed that it is off",
		"this host was the survivor and the peer is off: it goes on alone", state.EtcdGrantQuorum,
		func(v *view) bool {
			return v.own.State.Leads() && (v.fenced() && state.Is(v.s.Proofs.Power, state.PowerOff) || v.confirmed())
		}, nil,
	},
	{
		"alone.fence-first", "the record allows a start alone, and the peer's BMC reads Off",
		"this host was the survivor; Pacemaker's fencing of the peer has to succeed first", state.EtcdAskFence,
		func(v *view) bool { return v.own.State.Leads() && state.Is(v.s.Proofs.Power, state.PowerOff) }, nil,
	},
	{
		"alone.unproved", "the record allows a start alone, but nothing proves that the peer is off",
		"this host was the survivor, but nothing proves that its peer is off; it waits for contact with the peer", state.EtcdAskHuman,
		func(v *view) bool { return v.own.State.Leads() }, confirmCommand,
	},
	{
		"alone.forced", "an administrator forces this host to lead",
		"an administrator decided that this data directory leads; writes that only the peer holds are lost. The peer must not be started alone before it has had contact with this host", state.EtcdWriteRecord,
		func(v *view) bool { return v.forcing() }, writeTakingOver,
	},
	{
		"alone.wait", "all else",
		"the peer may have gone on without this host: this host waits for contact with the peer, and only an administrator can decide otherwise", state.EtcdAskHuman,
		always, confirmCommand,
	},
}

func gone(v *view) bool { return v.absent }

var goneRules = append([]rule{
	{
		"gone.first", "no record exists yet, our etcd leads and is the only member, and this host never had a peer",
		"this host was the only control plane: it holds every acknowledged write", state.EtcdWriteRecord,
		func(v *view) bool { return v.first() }, writeFirst,
	},
	{
		"gone.sole-restarts", "we are sole, our etcd is down, and the peer stated in this boot that it had not gone on alone",
		"etcd is restarted in place with the same data; no peer can have gone on", state.EtcdStart,
		func(v *view) bool { return v.in(state.EtcdSole) && v.stopped && v.whole() && v.heard() }, nil,
	},
	{
		"gone.end-stand-in", "a stand-in votes for a member that was removed, or without a proof",
		"the stand-in has done its work, or its proof is no longer valid", state.EtcdStopStandIn,
		func(v *view) bool {
			return v.standIn() != 0 && v.running && (!v.otherVoter() && v.in(state.EtcdSole) || !v.proved())
		}, nil,
	},
	{
		"gone.sole-alone", "we are sole, and no other voter is listed",
		"goes on alone: until the peer is back, one more failure loses data", state.EtcdIdle,
		func(v *view) bool {
			return v.in(state.EtcdSole) && v.running && v.standIn() == 0 && !v.otherVoter()
		}, nil,
	},
	{
		// Packets of such a peer may still come in. Corosync then forms a membership
		// of one host every half second, and Pacemaker begins anew with each.
		"gone.fence-promised", "the peer is lost, and stated that it is cut off from its network and gives way",
		"the peer gives way: Pacemaker is asked to fence it at once", state.EtcdAskFence,
		func(v *view) bool {
			return !v.proved() && v.s.Pacemaker.GivesWay && v.running && v.selfVoter() && v.mayGoOn()
		}, nil,
	},
	{
		"gone.fence-again", "the peer was fenced, may have joined since, and is absent",
		"the peer may have started after that fence: Pacemaker is asked to fence it again", state.EtcdAskFence,
		func(v *view) bool {
			return !v.proved() && v.voided() && v.s.Uptime-v.s.Pacemaker.Joined > VoidAfter && v.selfVoter() && v.mayGoOn()
		}, nil,
	},
	{
		"gone.ask-fence", "nothing proves that the peer cannot act, and etcd has had no leader for too long",
		"the peer may have left the membership cleanly, which causes no fence: Pacemaker is asked to fence it", state.EtcdAskFence,
		func(v *view) bool {
			return !v.proved() && v.leaderless() && v.s.Local.Leaderless > FenceAfter && v.selfVoter() && v.mayGoOn()
		}, nil,
	},
	{
		"gone.unproved", "nothing proves that the peer cannot act",
		"the peer is lost; waits until Pacemaker has fenced it and its BMC reads Off", state.EtcdWait,
		func(v *view) bool { return !v.proved() }, nil,
	},
	{
		"gone.forced", "an administrator forces this host to lead",
		"an administrator decided that this data directory leads; writes that only the peer holds are lost", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.forcing() && !v.mayGoOn() && v.whole() && v.selfVoter() && v.own.Yields == 0 && v.in(state.EtcdPair, state.EtcdVoter, state.EtcdDeparting, state.EtcdWidening)
		}, writeTakingOver,
	},
	{
		"gone.not-heard", "pair, and the peer has not stated in this boot that it did not go on alone",
		"the peer may have gone on without this host earlier: only a statement of the peer or an administrator can rule that out", state.EtcdAskHuman,
		func(v *view) bool { return v.in(state.EtcdPair) && !v.heard() }, confirmCommand,
	},
	{
		"gone.widening", "widening",
		"this host gave up its right to go on alone, because a third member is let in: it waits for its peer", state.EtcdAskHuman,
		func(v *view) bool { return v.in(state.EtcdWidening) }, confirmCommand,
	},
	{
		"gone.not-eligible", "none, learner, voter or departing",
		"this data directory may lack acknowledged writes, so it never leads alone", state.EtcdAskHuman,
		func(v *view) bool { return !v.mayGoOn() }, notEligible,
	},
}, takeOverRules...)

// takeOverRules apply where the peer is proved unable to act and the own record
// allows going on without it.
var takeOverRules = []rule{
	{
		"take-over.no-copy", "etcd is stopped and our data directory is not whole",
		"etcd cannot start from the data directory of this host, and no other one may lead", state.EtcdAskHuman,
		func(v *view) bool { return v.stopped && !v.whole() }, restoreCommand,
	},
	{
		"take-over.start", "etcd is stopped",
		"etcd is started normally; the take-over follows", state.EtcdStart,
		func(v *view) bool { return v.stopped }, nil,
	},
	{
		"take-over.not-a-voter", "our own membership does not list us as a voter",
		"a learner's data directory can never lead", state.EtcdAskHuman,
		func(v *view) bool { return !v.selfVoter() }, restoreCommand,
	},
	{
		"take-over.too-many", "more than two voters",
		"a stand-in vote is sound only among exactly two voters", state.EtcdAskHuman,
		func(v *view) bool { return v.voters > 2 },
		func(_ *view, out *state.EtcdVerdict) { out.Next = ListCommand() },
	},
	{
		"take-over.announce", "the peer is listed as a voter and our record does not say taking-over",
		"the peer cannot act: the take-over is recorded before it begins", state.EtcdWriteRecord,
		func(v *view) bool { return v.otherVoter() && !v.in(state.EtcdTakingOver) }, writeTakingOver,
	},
	{
		"take-over.stand-in", "taking-over, the peer is listed as a voter, no stand-in runs",
		"a stand-in casts the peer's vote", state.EtcdStartStandIn,
		func(v *view) bool {
			return v.in(state.EtcdTakingOver) && v.otherVoter() && v.standIn() != v.other.ID
		}, aboutOther,
	},
	{
		"take-over.remove", "the stand-in votes and we lead",
		"the peer is removed by an ordinary membership change", state.EtcdRemove,
		func(v *view) bool { return v.otherVoter() && v.iLead() }, aboutOther,
	},
	{
		"take-over.sole", "we are the only voter and lead",
		"the removal is committed: this host is the only voter", state.EtcdWriteRecord,
		func(v *view) bool { return !v.otherVoter() && v.iLead() }, writeSole,
	},
	{
		"take-over.wait", "all else", "waits for the election, or for the removal to be committed", state.EtcdWait,
		always, nil,
	},
}

func silent(v *view) bool { return !v.said }

var silentRules = []rule{
	{
		"silent.run", "etcd runs", "goes on while the peer has made no statement yet", state.EtcdIdle,
		func(v *view) bool { return v.running && !v.own.State.Leads() }, nil,
	},
	{
		"silent.sole", "sole, and etcd runs", "goes on while the peer has made no statement yet", state.EtcdIdle,
		func(v *view) bool { return v.in(state.EtcdSole) && v.running && v.standIn() == 0 }, nil,
	},
	{
		"silent.wait", "all else", "the peer is in contact; waits for its statement", state.EtcdWait, always, nil,
	},
}
