package etcdmember

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

func bothLead(v *view) bool {
	return v.own.State.Leads() && v.peer.Record.State.Leads() && (v.own.Forced.Who != "") == (v.peer.Record.Forced.Who != "")
}

var bothLeadRules = []rule{
	{
		"two-histories", "both records say that their host went on alone, and an administrator decided for both or for neither",
		"there are two histories and nothing shows which one counts; neither is touched", state.EtcdAskHuman, always, confirmCommand,
	},
}

func weLead(v *view) bool { return v.own.State.Leads() && v.peerDefers() }

// weLeadRules finish a take-over, then make the peer a voter again.
var weLeadRules = slices.Concat(leadFirstRules, stallRules, stallWaitRules, leadRules)

// leadFirstRules finish a take-over.
var leadFirstRules = []rule{
	{
		"lead.no-copy", "etcd is stopped and our data directory is not whole",
		"this host has the only up-to-date data directory, and etcd cannot start from it", state.EtcdAskHuman,
		func(v *view) bool { return v.stopped && !v.whole() }, restoreCommand,
	},
	{
		// An administrator forced a host that was about to leave: the forced
		// take-over committed its own removal, the last entry of its log.
		"lead.removed", "etcd is stopped, and our data directory does not list us",
		"this member's own removal was committed while it led: etcd cannot start as a removed member, though its data are the newest", state.EtcdAskHuman,
		func(v *view) bool { return v.stopped && v.membersKnown && !v.selfListed() }, restoreCommand,
	},
	{
		"lead.start", "etcd is stopped", "this host went on last, so it leads", state.EtcdStart,
		func(v *view) bool { return v.stopped }, nil,
	},
	{
		"lead.unproved", "taking-over, the peer is listed, and it has not yet read that and stopped its etcd",
		"waits until the peer has read that this host takes over and keeps its etcd stopped", state.EtcdWait,
		func(v *view) bool {
			return v.in(state.EtcdTakingOver) && v.otherVoter() && !v.proved() && v.standIn() == 0
		}, nil,
	},
	{
		"lead.end-stand-in", "a stand-in votes and no proof allows it any more",
		"the proof is no longer valid: the stand-in must not meet the member whose vote it casts", state.EtcdStopStandIn,
		func(v *view) bool { return v.standIn() != 0 && v.otherVoter() && !v.proved() }, nil,
	},
	{
		"lead.stand-in", "taking-over and the peer cannot act",
		"a stand-in casts the peer's vote", state.EtcdStartStandIn,
		func(v *view) bool {
			return v.in(state.EtcdTakingOver) && v.otherVoter() && v.selfVoter() && v.voters == 2 && v.standIn() != v.other.ID
		}, aboutOther,
	},
	{
		"lead.remove", "taking-over, the stand-in votes and we lead",
		"the peer is removed by an ordinary membership change", state.EtcdRemove,
		func(v *view) bool { return v.in(state.EtcdTakingOver) && v.otherVoter() && v.iLead() }, aboutOther,
	},
	{
		"lead.sole", "taking-over, and we are the only voter and lead",
		"the removal is committed: this host is the only voter", state.EtcdWriteRecord,
		func(v *view) bool { return v.in(state.EtcdTakingOver) && !v.otherVoter() && v.iLead() }, writeSole,
	},
	{
		"lead.taking-over", "taking-over, all else", "waits for the election, or for the removal to be committed", state.EtcdWait,
		func(v *view) bool { return v.in(state.EtcdTakingOver) }, nil,
	},
	{
		"lead.stand-in-ends", "sole, and a stand-in is left", "the stand-in has done its work", state.EtcdStopStandIn,
		func(v *view) bool { return v.standIn() != 0 }, nil,
	},
}

// leadRules make the peer a voter again.
var leadRules = []rule{
	{
		"lead.left-behind", "sole, the peer is listed as a voter, and it gave that member up",
		"the peer gave up its data directory: this host goes on without the peer", state.EtcdWriteRecord,
		func(v *view) bool { return v.yielded() && v.selfVoter() }, writeTakingOver,
	},
	{
		"lead.remove-departing", "sole, we lead, and the peer departs",
		"the peer leaves: it is removed", state.EtcdRemove,
		func(v *view) bool { return v.iLead() && v.otherVoter() && v.peerIn(state.EtcdDeparting) }, aboutOther,
	},
	{
		"lead.mark", "sole, we lead, the peer is a voter that was not marked yet",
		"one key is written: once it is acknowledged, the peer is certain to hold everything", state.EtcdMark,
		func(v *view) bool { return v.iLead() && v.selfVoter() && v.peerNeedsMark() }, markMissing,
	},
	{
		"lead.pair", "sole, and the peer's marker is acknowledged",
		"both data directories hold everything: either host may now go on without the other", state.EtcdWriteRecord,
		func(v *view) bool { return v.peerMarked() }, writePair,
	},
	{
		"lead.voter-lost", "sole, the peer is a voter whose etcd is down, and its time to restart is over",
		"the peer was never eligible to go on alone: this host goes on without it", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.selfVoter() && v.otherVoter() && v.peerStops() && v.leaderlessFor() > RestartGrace
		}, writeTakingOver,
	},
	{
		"lead.quarantine", "the learner is in sync, and the pair could not commit together recently",
		"the learner is promoted later: the last time, nothing could be committed with it", state.EtcdWait,
		func(v *view) bool { return v.caughtUp() && v.s.Uptime < v.s.Local.Quarantine }, nil,
	},
	{
		"lead.promote", "the learner is in sync", "the learner becomes a voter once it has applied everything", state.EtcdPromote,
		func(v *view) bool { return v.caughtUp() }, aboutOther,
	},
	{
		"lead.drop-learner", "a learner is listed that the peer gave up",
		"the peer lost the data directory of that learner: it is removed, and another learner is added", state.EtcdRemove,
		func(v *view) bool {
			return v.iLead() && v.otherLearner() && v.peer.Record.Yields == v.other.ID
		}, aboutOther,
	},
	{
		"lead.add", "the peer waits with an empty data directory, and no learner is listed",
		"the peer joins as a learner under a new id", state.EtcdAddLearner,
		func(v *view) bool { return v.iLead() && v.other.ID == 0 && v.peerStops() && v.peerEmpty() }, nil,
	},
	{
		"lead.wait", "all else", "leads; the peer is on its way back to a voter", state.EtcdWait, always, nil,
	},
}

// caughtUp reports whether the peer is a learner that this host, as the leader, may
// promote.
func (v *view) caughtUp() bool {
	return v.iLead() && v.otherLearner() && v.other.InSync && v.peerRuns() && v.peer.Record.Member == v.other.ID
}

// peerEmpty reports whether the peer's record holds no member id and its data
// directory is empty.
func (v *view) peerEmpty() bool {
	return v.peerIn(state.EtcdLearner) && v.peer.Record.Member == 0 && v.peerCopyIs(state.CopyNone)
}

func peerLeads(v *view) bool { return v.peer.Record.State.Leads() }

func (v *view) listed() bool { _, ok := v.listedByPeer(); return ok }

// mayStart reports whether etcd may be started here behind the peer. A data
// directory that was once eligible could lead just as well as the peer's, so
// follow.demote turned its record into a voter's before.
func (v *view) mayStart() bool {
	return v.whole() && v.in(state.EtcdLearner, state.EtcdVoter)
}

var peerLeadsRules = slices.Concat(followFirstRules, stallFollowRules, followRules)

// followFirstRules keep a host out of its peer's take-over.
var followFirstRules = []rule{
	{
		"follow.overruled", "our record says that we went on alone, and an administrator decided for the peer",
		"an administrator decided for the peer: this host must not start alone any more", state.EtcdWriteRecord,
		func(v *view) bool { return v.own.State.Leads() && v.standIn() == 0 }, writeVoter,
	},
	{
		"follow.stop", "the peer takes over, or its stand-in votes, and our etcd runs",
		"the peer takes over: this host must not meet its own stand-in", state.EtcdStop,
		func(v *view) bool {
			return v.running && (v.peerIn(state.EtcdTakingOver) || v.peer.StandIn.Known && v.peer.StandIn.Value != 0)
		}, nil,
	},
	{
		"follow.wait", "the peer takes over, or its stand-in may vote",
		"waits with its etcd stopped until the peer has finished its take-over", state.EtcdWait,
		func(v *view) bool { return v.peerTakesOver() }, nil,
	},
}

// followRules bring this host back as a learner, then as a voter.
var followRules = []rule{
	{
		"follow.unknown", "the peer does not state its members",
		"the peer's membership is unknown", state.EtcdWait,
		func(v *view) bool { return !v.peer.Members.Known }, nil,
	},
	{
		"follow.yield", "the peer lists us, and our own stopped data directory does not",
		"this member's removal is committed here and never reached the peer: this host gives up its data directory", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.listed() && !v.in(state.EtcdLearner) && v.whole() && v.membersKnown && !v.selfListed() && v.mayYield()
		}, writeYield,
	},
	{
		"follow.yielded", "the peer lists us, and we gave up our data directory",
		"waits until the peer has removed the member that was given up", state.EtcdWait,
		func(v *view) bool { return v.listed() && v.own.Yields == v.own.Member }, nil,
	},
	{
		"follow.demote", "the peer lists us, and our record is pair, departing, widening or majority",
		"the peer states that it is sole: this host is a voter until it is marked again", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.listed() && v.in(state.EtcdPair, state.EtcdDeparting, state.EtcdWidening, state.EtcdMajority)
		}, writeVoter,
	},
	{
		"follow.no-space", "the peer lists us, we are a voter, and etcd ends as often as it is started because its disk is full, or podman does not start it",
		"etcd cannot run on this host, because its disk is full or podman does not start it, and the peer needs this host's vote: the member is given up, and this host joins again as another one", state.EtcdWriteRecord,
		func(v *view) bool { return v.listed() && v.in(state.EtcdVoter) && v.barred() }, writeEmpty,
	},
	{
		"follow.start", "the peer lists us, and our data directory is whole",
		"the peer's cluster lists this member: its etcd is started normally", state.EtcdStart,
		func(v *view) bool { return v.listed() && v.stopped && v.mayStart() }, nil,
	},
	{
		"follow.join", "the peer lists us as a learner that never started, our record says so too, and our data directory is empty",
		"joins the peer's cluster as a learner", state.EtcdStart,
		func(v *view) bool {
			m, ok := v.listedByPeer()
			return ok && m.Learner && m.Name == "" && v.stopped && v.unstarted() && v.copyIs(state.CopyNone)
		}, writeJoining,
	},
	{
		"follow.lost-copy", "the peer lists us, and our data directory is missing or damaged",
		"the data directory of this member is lost: the member is given up, and this host joins again as another one", state.EtcdWriteRecord,
		func(v *view) bool { return v.listed() && v.stopped && !v.whole() }, writeEmpty,
	},
	{
		// Our own membership is not enough: an etcd that has no leader yet lists those with which it was started.
		"follow.promoted", "we are a learner in our record, and a voter in our membership and in the peer's",
		"this member was promoted", state.EtcdWriteRecord,
		func(v *view) bool {
			m, listed := v.listedByPeer()
			return listed && !m.Learner && v.in(state.EtcdLearner) && v.running && v.selfVoter()
		}, writeVoter,
	},
	{
		"follow.mark", "a voter that leads and was not marked yet",
		"one key is written: once it is acknowledged, this host is certain to hold everything", state.EtcdMark,
		func(v *view) bool { return v.listed() && v.iLead() && v.ownNeedsMark() }, markMissing,
	},
	{
		"follow.catch-up", "the peer lists us", "catches up with the peer", state.EtcdWait,
		func(v *view) bool { return v.listed() }, nil,
	},
	{
		"follow.peer-not-leading", "the peer does not list us, and does not lead",
		"waits until the peer leads its cluster", state.EtcdWait,
		func(v *view) bool { return !v.peer.Leads }, nil,
	},
	{
		"follow.removed", "the peer's cluster does not list us, and our etcd runs",
		"the peer's cluster no longer lists this member", state.EtcdStop,
		func(v *view) bool { return v.running }, nil,
	},
	{
		"follow.give-up", "the peer's cluster does not list us, and our record still holds a member",
		"the running cluster does not list this member: its data directory will be backed up and emptied, and this host joins again", state.EtcdWriteRecord,
		func(v *view) bool { return !v.in(state.EtcdLearner) || v.own.Member != 0 }, writeEmpty,
	},
	{
		"follow.empty", "our record holds no member, and an old data directory exists",
		"the old data directory is backed up and emptied", state.EtcdEmpty,
		func(v *view) bool { return !v.copyIs(state.CopyNone) }, nil,
	},
	{
		"follow.accept", "the peer has added a learner that never started, after we gave another id up",
		"takes the member id that the peer added for this host", state.EtcdWriteRecord,
		func(v *view) bool { _, ok := v.offered(); return ok }, writeLearner,
	},
	{
		"follow.disown", "the peer lists a member that started once, or may have, and we hold nothing",
		"the data directory of that member is lost, or may be: the member is given up, so that the peer can add another", state.EtcdWriteRecord,
		func(v *view) bool { id, ok := v.strange(); return ok && v.own.Yields != id }, writeDisown,
	},
	{
		"follow.await", "all else", "waits for the peer to add this host as a learner", state.EtcdWait, always, nil,
	},
}

func (v *view) peerTakesOver() bool {
	return v.peerIn(state.EtcdTakingOver) || !state.Is(v.peer.StandIn, 0)
}
