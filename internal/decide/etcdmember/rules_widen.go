package etcdmember

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Two hosts let a third member vote (docs/adr/0097). With three voters the leader and the third
// commit without the other host. If that host, which may not know it yet, took over with a
// stand-in, it would overwrite those writes. So both give their right to take over up first, on
// their disks, and each reads that the other did:
//
//	widening   this host gave it up. Its peer may still be pair and take over, so this host starts
//	           only with its peer, as a voter does.
//	majority   it has read that the peer gave it up, too. Nobody takes over any more, no stand-in
//	           speaks for this host, so it starts by itself; raft decides who commits.
//
// Only where both are in majority a leader promotes the third member. The way back goes by voter,
// from which a marker leads to pair.

// third returns the member that the plan lets in, zero without such a word.
func (v *view) third() state.MemberID {
	if w := v.s.Third.Word; w.Known {
		return w.Value.Member
	}
	return 0
}

// isThird reports whether a member is a voter that belongs to neither host, as either of them
// wrote down.
func (v *view) isThird(m state.EtcdMember) bool {
	return !m.Learner && m.ID != 0 && (m.ID == v.own.Third || m.ID == v.third() || v.said && m.ID == v.peer.Record.Third)
}

// comes reports whether a member is the one that a plan brings. Until the plan's word names it, any
// learner that is not the peer's may be.
func (v *view) comes(m state.EtcdMember) bool {
	if m.ID == v.own.Third || m.ID == v.third() {
		return m.ID != 0
	}
	return v.s.Third.Coming && m.Learner && m.ID != v.own.Member && (!v.said || m.ID != v.peer.Record.Member)
}

// toldMembers are the members that this host states, without a learner that a plan brings: an empty
// peer takes a learner that never started for its own.
func (v *view) toldMembers() state.Fact[[]state.EtcdMember] {
	out := v.s.Local.Members
	if v.s.Third.Coming && out.Known {
		out.Value = slices.DeleteFunc(slices.Clone(out.Value), func(m state.EtcdMember) bool { return m.Learner && v.comes(m) })
	}
	return out
}

// lists returns a member of the local etcd.
func (v *view) lists(id state.MemberID) (state.EtcdMember, bool) {
	k := slices.IndexFunc(v.members, func(m state.EtcdMember) bool { return m.ID == id })
	if k < 0 || !v.membersKnown {
		return state.EtcdMember{}, false
	}
	return v.members[k], true
}

// wanted reports whether the plan's word names the learner that is listed beside the two voters, and
// nothing else is listed.
func (v *view) wanted() bool {
	m, listed := v.lists(v.third())
	return v.third() != 0 && listed && m.Learner && len(v.members) == 3 && v.voters == 2 && v.selfVoter() && v.otherVoter() &&
		v.said && v.peer.Record.Member == v.other.ID
}

// works reports whether both run and nothing holds them up.
func (v *view) works() bool {
	return v.running && v.peerRuns() && v.standIn() == 0 && !v.peer.Leaving && v.s.Local.Stalled == 0
}

// calledOff reports whether the third member of the own record will not vote: the plan's word is
// another one, or is gone, or etcd lists the member no more.
func (v *view) calledOff() bool {
	w := v.s.Third.Word
	_, listed := v.lists(v.own.Third)
	return v.running && v.selfVoter() && v.otherVoter() && v.voters == 2 && (w.Known && w.Value.Member != v.own.Third || !listed)
}

// peerWidens reports whether the peer gave its right up for this third member.
func (v *view) peerWidens(id state.MemberID) bool {
	return v.peerIn(state.EtcdWidening, state.EtcdMajority) && v.peer.Record.Third == id
}

// mayYieldWidening reports whether the peer has read our record and can run. A host that is widening
// and yields was never in majority, so no third member votes, and the peer holds every write.
func (v *view) mayYieldWidening() bool {
	return v.own.Yields == 0 && v.answered() && v.peer.Record.Yields == 0 && v.peerIn(state.EtcdPair, state.EtcdWidening, state.EtcdMajority) &&
		v.peerCopyIs(state.CopyWhole) && !v.peerBarred()
}

func writeWidening(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdWidening)
	r.Third = v.third()
	r.Forced, r.Proof = state.EtcdForced{}, state.EtcdProof{}
	out.Record = &r
}

func writeMajority(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdMajority)
	r.Third = v.peer.Record.Third
	out.Record = &r
}

func aboutThird(v *view, out *state.EtcdVerdict) { out.Member = v.own.Third }

// widenRules apply where neither host went on alone, before the rules that make a pair.
var widenRules = []rule{
	{
		"widen.back", "widening, and the third member will not vote, nothing is committed, or the peer leaves",
		"no third member is let in now: this host is a voter until it is marked again", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.in(state.EtcdWidening) && (v.calledOff() || v.running && (v.stalled() || v.peerIn(state.EtcdDeparting)))
		}, writeVoter,
	},
	{
		"widen.majority", "widening, and the peer gave its right up for the same member",
		"neither host takes over any more: from here on this host starts by itself, and raft's majority decides", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.in(state.EtcdWidening) && v.works() && v.wanted() && v.own.Third == v.third() && v.peerWidens(v.own.Third)
		}, writeMajority,
	},
	{
		"widen.begin", "pair, and so is the peer or it gave its right up, and the plan's word names the one learner that is listed",
		"a third member is let in: this host gives up its right to go on without its peer", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.in(state.EtcdPair) && v.works() && v.wanted() && (v.peerIn(state.EtcdPair) || v.peerWidens(v.third()))
		}, writeWidening,
	},
	{
		"widen.follow", "voter, the peer gave its right up, and the plan's word names the one learner that is listed",
		"a third member is let in: this host, too, never goes on alone", state.EtcdWriteRecord,
		func(v *view) bool {
			return v.in(state.EtcdVoter) && v.works() && v.wanted() && v.peerWidens(v.third())
		}, writeWidening,
	},
	{
		"widen.three", "voter or widening, the peer is in majority, and the third member votes",
		"the third member votes: raft's majority decides", state.EtcdWriteRecord,
		func(v *view) bool {
			_, listed := v.lists(v.peer.Record.Third)
			return v.in(state.EtcdVoter, state.EtcdWidening) && v.running && v.selfVoter() && v.voters == 3 && v.peerIn(state.EtcdMajority) && listed
		}, writeMajority,
	},
}

// widened reports whether nobody takes over, and no stand-in speaks for this host. Only an
// administrator's word at a peer that was widening can have made it lead; then its rules hold.
func widened(v *view) bool {
	return v.in(state.EtcdMajority) && !v.peerIn(state.EtcdTakingOver, state.EtcdSole)
}

// widenedRules need neither contact nor Pacemaker's quorum to start etcd.
var widenedRules = []rule{
	{
		"majority.no-copy", "etcd is stopped, and our data directory is not whole, or does not list us",
		"etcd cannot start from the data directory of this host; the other members hold every write", state.EtcdAskHuman,
		func(v *view) bool { return v.stopped && (!v.whole() || !v.selfListed()) }, restoreCommand,
	},
	{
		"majority.start", "etcd is stopped", "no host takes over and no stand-in votes: etcd is started normally, and raft resolves the rest", state.EtcdStart,
		func(v *view) bool { return v.stopped }, nil,
	},
	{
		"majority.back", "the third member will not vote, and both run, or the peer gave its data directory up",
		"no third member is let in now: this host is a voter until it is marked again", state.EtcdWriteRecord,
		func(v *view) bool { return v.calledOff() && v.peerRuns() || v.yielded() && v.voters == 2 }, writeVoter,
	},
	{
		"majority.promote", "we lead, the third member lacks little, and the peer is in majority for the same member",
		"neither host takes over any more: the third member becomes a voter", state.EtcdPromote,
		func(v *view) bool { return v.mayLetIn() }, aboutThird,
	},
	{
		"majority.three", "three members vote", "one of three voters: raft's majority decides", state.EtcdIdle,
		func(v *view) bool { return v.voters > 2 }, nil,
	},
	{
		"majority.wait", "all else", "waits for the third member, or for the peer", state.EtcdWait, always, nil,
	},
}

// leaves reports whether the plan's word says that the third member leaves.
func (v *view) leaves() bool {
	w := v.s.Third.Word
	return w.Known && w.Value.Leaves && w.Value.Member != 0
}

// oneOfThree reports whether etcd here is one of three voters, of which the word names another one.
func (v *view) oneOfThree() bool {
	m, listed := v.lists(v.third())
	return v.running && v.whole() && v.selfVoter() && v.otherVoter() && v.voters == 3 && len(v.members) == 3 && listed && !m.Learner && m.ID != v.self.ID &&
		v.standIn() == 0 && (!v.said || v.peerIn(state.EtcdNone, state.EtcdMajority))
}

func writeOneOfThree(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdMajority)
	r.Member, r.Cluster, r.Third = v.s.Data.Value.Member, v.s.Data.Value.Cluster, v.third()
	out.Record = &r
}

// A site of three becomes one of two (docs/adr/0102): its two hosts have no record yet, kubelet runs
// etcd, and the plan's word names the member that leaves. Majority is what two hosts are while a third
// one votes, so nobody has to agree first: nobody had the right to go on alone.
func narrows(v *view) bool { return v.in(state.EtcdNone) && v.leaves() }

var narrowRules = []rule{
	{
		"narrow.first", "no record exists yet, and our etcd is one of three voters, of which the one leaves that the plan's word names",
		"one of three voters goes: until then neither host takes over, and raft's majority decides", state.EtcdWriteRecord,
		func(v *view) bool { return v.oneOfThree() }, writeOneOfThree,
	},
	{
		"narrow.wait", "all else", "waits until etcd, which kubelet runs, lists the three voters", state.EtcdWait, always, nil,
	},
}

// mayLetIn reports whether this host, as the leader, may promote the third member.
func (v *view) mayLetIn() bool {
	m, _ := v.lists(v.own.Third)
	b := v.s.Third.Behind
	return v.iLead() && v.works() && v.wanted() && v.own.Third == v.third() && m.InSync && b.Known && b.Value <= MostBehind &&
		v.peerIn(state.EtcdMajority) && v.peer.Record.Third == v.own.Third
}
