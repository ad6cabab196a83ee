package etcdmember

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// view is a snapshot with the answers to the rules' questions, each computed once.
// An answer that needs something unknown is the cautious one.
type view struct {
	s    *state.EtcdSnapshot
	own  state.EtcdRecord
	peer state.EtcdStatement // meaningful only where said

	known   bool // the own record is readable
	running bool // known to run
	stopped bool // known not to run
	contact bool // the peer is known to be in the membership
	absent  bool // the peer is known to be out of the membership
	said    bool // the peer's statement counts

	members      []state.EtcdMember
	membersKnown bool
	self         state.EtcdMember // this host's entry in members
	other        state.EtcdMember // the peer's voter or learner in members, as this host knows it
	voters       int
}

func look(s *state.EtcdSnapshot) *view {
	v := &view{
		s: s, own: s.Record.Value, known: s.Record.Known,
		running: state.Is(s.Local.Running, true), stopped: state.Is(s.Local.Running, false),
		contact: state.Is(s.Pacemaker.Contact, true), absent: state.Is(s.Pacemaker.Contact, false),
		said: counts(s), peer: s.Statement.Value,
	}
	v.lookAtMembers()
	return v
}

// counts reports whether the peer's statement may be used: the peer is in the
// current membership, and composed the statement in that membership. A statement
// that is older than the membership says what was true before the hosts met; the
// peer may have gone on alone since.
func counts(s *state.EtcdSnapshot) bool {
	return s.Statement.Known && state.Is(s.Pacemaker.Contact, true) &&
		s.Pacemaker.Ring != 0 && s.Statement.Value.Record.State != "" && s.Statement.Value.Ring == s.Pacemaker.Ring
}

// lookAtMembers takes the members from the running etcd, or from the data directory
// of a stopped one.
func (v *view) lookAtMembers() {
	switch {
	case v.running:
		v.members, v.membersKnown = v.s.Local.Members.Value, v.s.Local.Members.Known
	case v.stopped && v.s.Data.Known:
		v.members, v.membersKnown = v.s.Data.Value.Members, v.s.Data.Value.Copy == state.CopyWhole
	}
	for _, m := range v.members {
		if !m.Learner {
			v.voters++
		}
		switch {
		case m.ID == v.id():
			v.self = m
		case v.isThird(m):
		case v.other.ID == 0 || !m.Learner: // a voter counts before a learner
			v.other = m
		}
	}
}

// id returns the own member id: from the record, or before the first record from
// the data directory.
func (v *view) id() state.MemberID {
	if v.own.Member == 0 && v.own.State == state.EtcdNone {
		return v.s.Data.Value.Member
	}
	return v.own.Member
}

func (v *view) in(states ...state.EtcdState) bool { return slices.Contains(states, v.own.State) }
func (v *view) peerIn(states ...state.EtcdState) bool {
	return v.said && slices.Contains(states, v.peer.Record.State)
}

func (v *view) copyIs(c state.CopyState) bool {
	return v.s.Data.Known && v.s.Data.Value.Copy == c
}

func (v *view) peerCopyIs(c state.CopyState) bool {
	return v.said && v.peer.Data.Known && v.peer.Data.Value.Copy == c
}

// whole reports whether etcd can start from the own data directory under the
// record's member id.
func (v *view) whole() bool {
	return v.copyIs(state.CopyWhole) && v.s.Data.Value.Member == v.id()
}

func (v *view) peerRuns() bool  { return v.said && state.Is(v.peer.Running, true) }
func (v *view) peerStops() bool { return v.said && state.Is(v.peer.Running, false) }

// selfListed and selfVoter look for this host in the own etcd's members; otherVoter
// and otherLearner look for the peer.
func (v *view) selfListed() bool   { return v.membersKnown && v.self.ID != 0 }
func (v *view) selfVoter() bool    { return v.selfListed() && !v.self.Learner }
func (v *view) otherVoter() bool   { return v.membersKnown && v.other.ID != 0 && !v.other.Learner }
func (v *view) otherLearner() bool { return v.membersKnown && v.other.Learner }

// iLead reports whether the local etcd says that it is the leader.
func (v *view) iLead() bool {
	return v.running && v.own.Member != 0 && state.Is(v.s.Local.Leader, v.own.Member)
}

func (v *view) leaderless() bool { return v.running && state.Is(v.s.Local.Leader, 0) }

// leaderlessFor returns how long etcd has known no leader while the peer was there,
// so that a peer that joined a moment ago gets its time.
func (v *view) leaderlessFor() time.Duration {
	if !v.leaderless() {
		return 0
	}
	return min(v.s.Local.Leaderless, v.s.Uptime-v.s.Pacemaker.Joined)
}

func (v *view) standIn() state.MemberID { return v.s.Local.StandIn.Value }

// fenced reports whether the peer was read back as off in this boot and after it
// last joined. Contact ends the proof.
func (v *view) fenced() bool {
	return v.fencedInBoot() && v.absent && v.s.Proofs.Fenced.Value.At > v.s.Pacemaker.Joined
}

// fencedInBoot reports whether the peer was read back as off at any time in this
// boot.
func (v *view) fencedInBoot() bool {
	f := v.s.Proofs.Fenced
	return f.Known && f.Value.Target == v.s.Peer && f.Value.State == state.PowerOff && f.Value.Boot == v.s.Boot && f.Value.Boot != ""
}

// voided reports whether the peer was fenced in this boot and may have joined
// since, in a membership that nobody here saw. Pacemaker saw that membership. If
// the peer was not in it, Pacemaker takes the peer for fenced, and nothing else
// ends the wait.
func (v *view) voided() bool { return v.s.Pacemaker.Unseen && v.fencedInBoot() }

// inVain is for how long Pacemaker would answer a request for another fence with the
// one that it made, and some seconds more.
const inVain = 10 * time.Second

// fencedInVain reports whether the peer was read back as off a moment ago, and may
// have joined since in a membership that nobody here saw. That fence proves nothing,
// and Pacemaker's record of it is no answer to the request for another one.
func (v *view) fencedInVain() bool {
	return v.absent && v.fencedInBoot() && !v.fenced() && v.s.Uptime-v.s.Proofs.Fenced.Value.At < inVain
}

// confirmed reports whether an administrator confirmed after the last contact that
// the peer is off.
func (v *view) confirmed() bool {
	h := v.s.Proofs.Human
	return h.Known && v.absent && h.Value.Who != "" &&
		h.Value.Boot == v.s.Boot && h.Value.Boot != "" && h.Value.At > v.s.Pacemaker.Joined
}

// Confirmed reports whether an administrator's confirmation that the peer is off is
// still valid: it was given in this boot, and the peer has not joined since.
func Confirmed(s state.EtcdSnapshot) bool { return look(&s).confirmed() }

func (v *view) forcing() bool { return v.confirmed() && v.s.Proofs.Human.Value.Force }

// heard reports whether the peer itself stated in this boot that it had not gone on
// alone.
func (v *view) heard() bool {
	return v.s.Boot != "" && v.s.Proofs.Heard == v.s.Boot || Hears(*v.s)
}

// Hears reports whether the peer states now that it has not gone on alone. The
// keeper remembers that until the next boot. A peer without a record cannot state
// it, because its lost disk may have been the survivor's. A learner can: it became
// one because this host led, and cannot have led since.
func Hears(s state.EtcdSnapshot) bool {
	return counts(&s) && slices.Contains([]state.EtcdState{state.EtcdLearner, state.EtcdPair, state.EtcdVoter, state.EtcdDeparting, state.EtcdWidening}, s.Statement.Value.Record.State)
}

// yielded reports whether the peer gave up the member that etcd still lists.
func (v *view) yielded() bool {
	return v.peerIn(state.EtcdDeparting) && v.otherVoter() && v.peer.Record.Yields == v.other.ID
}

// yieldedBefore reports whether the peer gave up the member that etcd still lists, or listed until its
// removal, before this host began to take over. A data directory that was given up never comes back, so
// its owner may have left since: a host that boots says so, and is gone a moment later. A peer that
// holds that very member again has a disk of before, and is not trusted.
func (v *view) yieldedBefore() bool {
	p := v.own.Proof
	if !v.in(state.EtcdTakingOver) || !v.membersKnown || p.Kind != state.ProofYielded || p.Member == 0 || v.otherVoter() && p.Member != v.other.ID {
		return false
	}
	return !v.said || v.peer.Record.Member != p.Member || v.peer.Record.Yields == p.Member
}

// renounced reports whether the peer holds another member id than the one that etcd
// lists, or holds nothing at all because its disk was replaced.
func (v *view) renounced() bool {
	return v.said && v.otherVoter() && v.peerStops() && v.peer.Record.Member != v.other.ID &&
		(v.peerIn(state.EtcdLearner) || v.peerBlank())
}

// peerBlank reports whether the peer has neither a record nor a data directory.
func (v *view) peerBlank() bool { return v.peerIn(state.EtcdNone) && v.peerCopyIs(state.CopyNone) }

// answered reports whether the peer made its statement after it had read the
// present version of the own record.
func (v *view) answered() bool { return v.said && v.peer.SeenSeq >= v.own.Seq }

// retired reports whether there is no peer: it was retired for good, and its successor is
// not in Corosync's cluster yet. It counts only if the record is that of a lone survivor, who
// holds every acknowledged write, and no other voter is listed.
func (v *view) retired() bool {
	r := v.s.Proofs.Retired
	return r.Known && r.Value.Peer == v.s.Peer && v.absent && v.in(state.EtcdSole) && v.membersKnown && !v.otherVoter()
}

// noPeer says why there is no peer.
func (v *view) noPeer() string {
	if r := v.s.Proofs.Retired.Value; r.Never {
		return "this host never had a peer; the plan " + r.Plan + " waits for " + r.Peer
	}
	return v.s.Peer + " was retired by the replacement " + v.s.Proofs.Retired.Value.Plan
}

// first reports whether this host has all data because it never had a peer: etcd here runs, leads,
// and is the only member.
func (v *view) first() bool {
	r := v.s.Proofs.Retired
	return r.Known && r.Value.Never && r.Value.Peer == v.s.Peer && v.absent && v.in(state.EtcdNone) && v.whole() &&
		v.running && v.selfVoter() && len(v.members) == 1 && state.Is(v.s.Local.Leader, v.self.ID) && v.standIn() == 0
}

// proof returns why the peer cannot act, and false where nothing proves it.
func (v *view) proof() (state.EtcdProof, bool) {
	switch {
	case v.fenced():
		f := v.s.Proofs.Fenced.Value
		return state.EtcdProof{Kind: state.ProofFenced, Detail: "BMC of " + f.Target + " read back as " + f.State + " " + f.At.String() + " after boot " + f.Boot}, true
	case v.confirmed():
		h := v.s.Proofs.Human.Value
		return state.EtcdProof{Kind: state.ProofHuman, Detail: h.Who + ": " + h.Why}, true
	case v.retired():
		return state.EtcdProof{Kind: state.ProofRetired, Detail: v.noPeer()}, true
	case v.yielded():
		return state.EtcdProof{Kind: state.ProofYielded, Detail: v.s.Peer + " gave up member " + v.other.ID.String(), Member: v.other.ID}, true
	case v.yieldedBefore():
		return v.own.Proof, true
	case v.renounced() && (v.in(state.EtcdPair) || v.answered()):
		return state.EtcdProof{Kind: state.ProofRenounced, Detail: v.s.Peer + " holds member " + v.peer.Record.Member.String() + ", not " + v.other.ID.String()}, true
	case v.waits():
		return state.EtcdProof{Kind: state.ProofWaiting, Detail: v.s.Peer + " has read this host's record and waits with its etcd stopped"}, true
	}
	return state.EtcdProof{}, false
}

// waits reports whether the peer promised to keep its etcd stopped until this
// host's record changes again. Only a record that says taking-over asks for that
// promise: a peer that reads sole may already be starting.
func (v *view) waits() bool {
	return v.in(state.EtcdTakingOver) && v.peerStops() && v.answered() && v.peerDefers()
}

// peerDefers reports whether the peer's record does not claim to lead, or an
// administrator decided for this host and not for the peer.
func (v *view) peerDefers() bool {
	return v.said && (!v.peer.Record.State.Leads() || v.own.Forced.Who != "" && v.peer.Record.Forced.Who == "")
}

func (v *view) proved() bool { _, ok := v.proof(); return ok }

// listedByPeer returns this host's entry among the members that the peer states.
func (v *view) listedByPeer() (state.EtcdMember, bool) {
	for _, m := range v.peer.Members.Value {
		if v.said && v.peer.Members.Known && m.ID == v.own.Member && m.ID != 0 {
			return m, true
		}
	}
	return state.EtcdMember{}, false
}

// offered returns the learner that the peer added and that never started. There are
// only two hosts, so it is meant for this one. An empty name alone proves nothing,
// because the name is published late: this host also has to know that the learner
// differs from the member that it gave up. A host that does not know its earlier
// member first gives up the one that is offered (strange).
func (v *view) offered() (state.MemberID, bool) {
	for _, m := range v.peer.Members.Value {
		if v.said && v.peer.Members.Known && m.Learner && m.Name == "" && v.own.Yields != 0 && m.ID != v.own.Yields {
			return m.ID, true
		}
	}
	return 0, false
}

// unstarted reports whether the record holds a learner that this host accepted and
// never started: the record still names the member that was given up before.
func (v *view) unstarted() bool {
	return v.in(state.EtcdLearner) && v.own.Yields != 0
}

// strange returns a member that the peer lists beside itself while this host holds
// none, and that started once, or may have as far as this host knows.
func (v *view) strange() (state.MemberID, bool) {
	for _, m := range v.peer.Members.Value {
		if v.said && v.own.Member == 0 && v.peer.Members.Known && (m.Name != "" || v.own.Yields == 0) && m.ID != v.peer.Record.Member {
			return m.ID, true
		}
	}
	return 0, false
}

// marked reports whether the newest record of a voter has its marker.
func marked(m state.EtcdMember, seq uint64) bool { return m.Marked != 0 && m.Marked == seq }

// peerNeedsMark reports whether the peer is a voter, by its record and by etcd's
// members, whose marker is missing.
func (v *view) peerNeedsMark() bool {
	return v.peerIn(state.EtcdVoter) && v.peerRuns() && v.otherVoter() && v.peer.Record.Member == v.other.ID &&
		!marked(v.other, v.peer.Record.Seq)
}

// ownNeedsMark reports the same of this host.
func (v *view) ownNeedsMark() bool {
	return v.in(state.EtcdVoter) && v.selfVoter() && v.otherVoter() && v.peerRuns() && !marked(v.self, v.own.Seq)
}

// peerMarked reports whether the peer is a voter whose marker was acknowledged.
func (v *view) peerMarked() bool {
	return v.peerIn(state.EtcdVoter) && v.running && v.otherVoter() && v.selfVoter() &&
		v.peer.Record.Member == v.other.ID && marked(v.other, v.peer.Record.Seq)
}

// Statement returns what a host publishes about itself. It must be composed from a
// snapshot that was taken after the last step was carried out, and a step that was
// decided before it must not be carried out after it: the statement promises the
// peer what this host will do.
func Statement(s state.EtcdSnapshot) state.EtcdStatement {
	v := look(&s)
	out := state.EtcdStatement{
		Boot: s.Boot, Ring: s.Pacemaker.Ring, Record: v.own, Data: s.Data, Running: s.Local.Running,
		Leads: v.iLead(), StandIn: s.Local.StandIn, Members: v.toldMembers(), Leaving: s.Pacemaker.Leaving,
		Stalled: s.Local.Stalled.Truncate(StallStep), Sick: s.Local.Sick, Leaderless: v.leaderless(), Addresses: s.Addresses, Hardware: s.Hardware,
	}
	if out.Leaderless { // the two times are not read at once: rounded, their difference stays the same
		out.Earlier = max(s.Local.Stalled-s.Local.Leaderless, 0).Round(StallStep)
	}
	out.Data.Value.Reason = "" // a statement is short
	if v.said {
		out.SeenSeq, out.PeerStalled = v.peer.Record.Seq, v.peer.Stalled
	}
	if !v.contact || !v.known { // Ring 0 makes the peer ignore the statement
		out.Ring = 0
	}
	return out
}
