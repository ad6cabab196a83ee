package etcdmember

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// untouched reports whether no record claims anything yet and both data directories
// are there: the hand-over from the static pods.
func (v *view) untouched() bool {
	return v.in(state.EtcdNone) && v.whole() && v.selfVoter() && v.sameCluster() &&
		(v.peerIn(state.EtcdNone) && v.peerCopyIs(state.CopyWhole) || v.peerIn(state.EtcdVoter))
}

func (v *view) sameCluster() bool {
	mine, theirs := v.s.Data.Value.Cluster, v.peer.Data.Value.Cluster
	return v.s.Data.Known && v.peer.Data.Known && (mine == theirs || mine == 0 || theirs == 0)
}

// lostCopy reports whether etcd here cannot run from its data directory although
// the record says that it was a voter.
func (v *view) lostCopy() bool {
	return v.stopped && !v.whole() && v.in(state.EtcdVoter, state.EtcdPair, state.EtcdDeparting)
}

// barred reports whether etcd cannot run here although its data directory is as good
// as before: its disk is full, or podman does not start it. Its peer has no quorum
// meanwhile.
func (v *view) barred() bool { return v.stopped && v.s.Data.Value.Barred() }

// peerBarred reports the same of the peer.
func (v *view) peerBarred() bool { return v.said && v.peer.Data.Value.Barred() }

// peerCarries reports whether the peer's etcd runs and nothing is known against it.
func (v *view) peerCarries() bool { return v.peerRuns() && !v.peerSick() && !v.peerBarred() }

// equalRules apply where neither record claims that its host went on alone: Raft
// resolves the difference between the logs.
var equalRules = slices.Concat(equalFirstRules, stallRules, stallEqualRules, stallWaitRules, widenRules, equalLastRules)

// equalFirstRules handle data directories that are unusable or unknown.
var equalFirstRules = []rule{
	{
		"equal.unknown", "the condition of the peer's data directory is unknown", "waits until the peer has examined its data", state.EtcdWait,
		func(v *view) bool { return !v.peer.Data.Known && !v.peerRuns() }, nil,
	},
	{
		"equal.two-clusters", "the data directories belong to different clusters",
		"the two data directories belong to different clusters; neither is touched", state.EtcdAskHuman,
		func(v *view) bool { return v.s.Data.Known && v.peer.Data.Known && !v.sameCluster() }, restoreCommand,
	},
	{
		"equal.adopt", "no record exists yet, and both data directories are whole",
		"the cluster is adopted as it is: this member is a voter that waits for its marker", state.EtcdWriteRecord,
		func(v *view) bool { return v.untouched() }, writeVoter,
	},
	{
		"equal.adopting", "our record exists, and the peer is about to write its first one",
		"waits for the peer's first record", state.EtcdWait,
		func(v *view) bool {
			return v.in(state.EtcdVoter) && v.stopped && v.peerIn(state.EtcdNone) && v.peerCopyIs(state.CopyWhole)
		}, nil,
	},
	{
		"equal.no-record", "we have no record, and none can be made",
		"this host has no record, or no data, and the peer did not go on alone: the missing disk may have been the survivor's", state.EtcdAskHuman,
		func(v *view) bool { return v.in(state.EtcdNone) }, confirmCommand,
	},
	{
		"equal.both-yielded", "both gave up their data directories", "both hosts gave up their data directories: only a backup helps", state.EtcdAskHuman,
		func(v *view) bool { return v.own.Yields != 0 && v.peer.Record.Yields != 0 }, restoreCommand,
	},
	{
		"equal.yielded", "we gave up our data directory", "waits until the peer has gone on without this host", state.EtcdWait,
		func(v *view) bool { return v.own.Yields != 0 }, nil,
	},
	{
		"equal.lost-copy-yield", "etcd cannot start from our data directory, and the peer is pair with a whole one",
		"the data directory of this host is lost: the host gives it up, which lets the peer go on without a fence", state.EtcdWriteRecord,
		func(v *view) bool { return v.lostCopy() && v.mayYield() && v.peerIn(state.EtcdPair) }, writeYield,
	},
	{
		"equal.widening-yield", "etcd cannot start from our data directory, we are widening and never were in majority, and the peer's is whole",
		"the data directory of this host is lost, and no third member votes yet: the host gives it up, which lets the peer go on without a fence", state.EtcdWriteRecord,
		func(v *view) bool { return v.in(state.EtcdWidening) && v.stopped && !v.whole() && v.mayYieldWidening() }, writeYield,
	},
	{
		"equal.no-space-depart", "etcd ends as often as it is started because its disk is full, or podman does not start it, and the peer's, which is pair, runs",
		"etcd cannot run on this host, because its disk is full or podman does not start it: this host leaves, the peer goes on", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.barred() && v.in(state.EtcdVoter, state.EtcdPair) && v.mayYield() && v.peerCarries()
		}, writeDeparting,
	},
	{
		// Two steps, for the peer's disk may be full too, or its image be missing: if
		// each gave its data directory up before it had read of the other, none would
		// be left.
		"equal.no-space-yield", "the same, and the peer has read that this host leaves",
		"etcd cannot run on this host, because its disk is full or podman does not start it: the host gives its data directory up, which lets the peer go on without a fence", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.barred() && v.in(state.EtcdDeparting) && v.mayYield() && v.peerCarries()
		}, writeYield,
	},
	{
		"equal.no-space-await", "etcd cannot run here, and the peer has not read yet that this host leaves",
		"waits until the peer has read that this host leaves", state.EtcdWait,
		func(v *view) bool {
			return v.barred() && v.in(state.EtcdDeparting) && v.peerIn(state.EtcdPair) && v.peerCarries()
		}, nil,
	},
	{
		"equal.removed-yield", "our etcd is stopped, and its data directory does not list us",
		"this member's removal never reached the peer: this host gives up its data directory", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.whole() && v.stopped && v.membersKnown && !v.selfListed() && v.mayYield()
		}, writeYield,
	},
	{
		"equal.unusable", "etcd cannot start from our data directory, and the peer cannot go on either",
		"neither host can go on with its present data directory", state.EtcdAskHuman,
		func(v *view) bool { return v.stopped && (!v.whole() || !v.selfListed()) && !v.peerIn(state.EtcdPair) }, restoreCommand,
	},
	{
		"equal.unusable-wait", "etcd cannot start from our data directory",
		"waits until the peer has read this host's record", state.EtcdWait,
		func(v *view) bool { return v.stopped && (!v.whole() || !v.selfListed()) }, nil,
	},
	{
		"equal.peer-lost", "the peer has neither record nor data",
		"the peer has no data: its missing disk may have been the survivor's", state.EtcdAskHuman,
		func(v *view) bool {
			return v.peerIn(state.EtcdNone) && !v.running || v.peerBlank() && v.leaderless() && !v.mayGoOn()
		}, confirmCommand,
	},
}

// equalLastRules make two voters of two whole data directories.
var equalLastRules = []rule{
	{
		"equal.start", "our data directory lists us", "both hosts are in contact and neither went on alone: etcd is started normally, and Raft resolves the rest", state.EtcdStart,
		func(v *view) bool { return v.stopped }, nil,
	},
	{
		"equal.take-over", "the peer gave up the member that is listed; it did so because it saw us hold everything",
		"the peer cannot act: the take-over is recorded before it begins", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.selfVoter() && v.voters == 2 &&
				(v.in(state.EtcdPair) && v.mayGoOn() && (v.yielded() || v.renounced()) || v.in(state.EtcdDeparting, state.EtcdVoter) && v.yielded())
		}, writeTakingOver,
	},
	{
		"equal.sole", "we are pair, lead, and are the only voter", "the peer was removed: this host is the only voter", state.EtcdWriteRecord,
		func(v *view) bool { return v.in(state.EtcdPair) && v.iLead() && v.selfVoter() && !v.otherVoter() }, writeSole,
	},
	{
		"equal.peer-departs", "we are pair, and the peer departs, not because etcd cannot run there: it would yield at once",
		"the peer leaves and can no longer take over: this host may go on alone", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.in(state.EtcdPair) && v.selfVoter() && v.peerIn(state.EtcdDeparting) && !v.peerBarred()
		}, writeSole,
	},
	{
		"equal.promoted", "we are a learner in our record and a voter in our membership", "this member was promoted", state.EtcdWriteRecord,
		func(v *view) bool { return v.in(state.EtcdLearner) && v.selfVoter() }, writeVoter,
	},
	{
		"equal.stay", "we depart, run, and are still listed",
		"this host did not leave after all: it is a voter until it is marked again", state.EtcdWriteRecord,
		func(v *view) bool { return v.in(state.EtcdDeparting) && v.selfVoter() && v.peerRuns() }, writeVoter,
	},
	{
		"equal.mark", "we lead, and a voter was not marked yet",
		"one key is written: once it is acknowledged, both hosts hold everything", state.EtcdMark,
		func(v *view) bool { return v.iLead() && v.selfVoter() && (v.peerNeedsMark() || v.ownNeedsMark()) }, markMissing,
	},
	{
		"equal.pair-again", "we are pair, and the peer's marker is acknowledged",
		"the peer holds everything: it may now become pair too", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.in(state.EtcdPair) && v.peerMarked() && v.own.Paired != state.EtcdPairing{Member: v.peer.Record.Member, Seq: v.peer.Record.Seq}
		}, writePair,
	},
	{
		"equal.pair", "we are a marked voter, and the peer is pair with us",
		"both data directories hold everything: either host may now go on without the other", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.in(state.EtcdVoter) && v.peerIn(state.EtcdPair) && v.running && v.selfVoter() &&
				v.peer.Record.Paired == state.EtcdPairing{Member: v.own.Member, Seq: v.own.Seq}
		}, writePair,
	},
	{
		// A host that went back to voter may have known an older membership then. The markers are
		// younger than that record, so the list that holds them shows a third voter.
		"equal.pair-first", "both are marked voters, and no third member votes",
		"both data directories hold everything: either host may now go on without the other", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.in(state.EtcdVoter) && v.voters == 2 && marked(v.self, v.own.Seq) && v.peerMarked()
		}, writePair,
	},
	{
		"equal.fence", "both have had no leader for too long, because the peer's etcd is down",
		"the peer's etcd does not come back: Pacemaker is asked to fence it", state.EtcdAskFence,
		func(v *view) bool {
			return v.in(state.EtcdPair) && v.peerStops() && !v.peer.Leaving && v.peerIn(state.EtcdPair, state.EtcdVoter) && v.leaderlessFor() > FenceAfter
		}, nil,
	},
	{
		"equal.idle", "all else", "runs as one of two voters", state.EtcdIdle, always, nil,
	},
}
