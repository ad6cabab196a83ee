package etcdmember

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestLeaving(t *testing.T) { prove(t, leavingSentences()) }

// leavingSentences are about a host that Pacemaker stops.
func leavingSentences() []sentence {
	return []sentence{
		{"the limit of a leave is its last moment, also for a newcomer whose peer is sole", like("or by the newcomer if it leads", leavingFor(LeaveLimit)), state.EtcdMoveLeader, "leave.hand-over-leadership"},
		{"who departs and leads moves leadership again", like("who stops waits a moment for word that the peer stops too", own(state.EtcdDeparting)), state.EtcdMoveLeader, "leave.hand-over-leadership"},
		{"who stops looks again where it is unknown whether the peer's etcd runs", like("who stops waits a moment for word that the peer stops too", peerUnknown), state.EtcdWait, "leave.look-again"},
		{"who does not know whether its own etcd runs stops", like("who stops waits a moment for word that the peer stops too", runningUnknown), state.EtcdStop, "leave.stop"},
		{"a pair leaves a survivor too", like("then departing is written", peer(state.EtcdSole)), state.EtcdWriteRecord, "leave.depart"},
		{"who departs does not wait for a peer whose etcd may be down", like("the leaver waits for its removal", peerUnknown), state.EtcdStop, "leave.stop"},
		{"who is removed moves no leadership", like("removed: the leaver stops", member(0xb)), state.EtcdStop, "leave.stop"},
		{"a stand-in is stopped before the stop is finished", like("but not before the peer has read that it departs", standIn(0xa)), state.EtcdStop, "leave.stop"},
		{"who leads stops after the limit of a leave", like("a healthy pair is left alone", leavingFor(LeaveLimit+1)), state.EtcdStop, "leave.stop"},
		{"who stops gives up no copy that did not depart", like("a copy that is not listed is given up in the record first", leaves), state.EtcdIdle, "leave.stopped"},
		{"a voter does not leave a pair", like("the newcomer becomes pair when told so", leaves), state.EtcdStop, "leave.stop"},
		{"a host that is no member of what it runs does not leave", like("who stops waits a moment for word that the peer stops too", member(0x0)), state.EtcdStop, "leave.stop"},
		{"without a number of the membership nothing was said: who stops looks again", like("who stops waits a moment for word that the peer stops too", noRing), state.EtcdWait, "leave.look-again"},
		{"a host that cannot read its record does not leave", like("who stops waits a moment for word that the peer stops too", unreadable), state.EtcdStop, "leave.stop"},
		{"the only voter does not leave", like("who stops waits a moment for word that the peer stops too", members(alpha)), state.EtcdStop, "leave.stop"},
		{"who stops and sees a third member lead does not wait", like("who leads moves leadership first", led(0xd)), state.EtcdStop, "leave.stop"},
		{"who stops looks again where the leader is unknown", like("who leads moves leadership first", leaderUnknown), state.EtcdWait, "leave.look-again"},
		{"the limit of a leave is the last moment to depart", like("then departing is written", leavingFor(LeaveLimit)), state.EtcdWriteRecord, "leave.depart"},
		{"and after it nobody departs", like("then departing is written", leavingFor(LeaveLimit+1)), state.EtcdStop, "leave.stop"},
		{"who departs does not wait for a peer that departs too", like("the leaver waits for its removal", peer(state.EtcdDeparting)), state.EtcdStop, "leave.stop"},
		{"who departs does not wait for a peer that stops too", like("the leaver waits for its removal", peerLeaves), state.EtcdStop, "leave.stop"},
		{"who departs and cannot read its record any more stops", like("the leaver waits for its removal", unreadable), state.EtcdStop, "leave.stop"},
		{"the limit of a leave is the last moment to wait", like("the leaver waits for its removal", leavingFor(LeaveLimit)), state.EtcdWait, "leave.await-removal"},
		{"a yield to a peer that takes over counts", like("a departing member whose etcd has stopped yields", peer(state.EtcdTakingOver)), state.EtcdWriteRecord, "leave.yield"},
		{"what was given up is not given up again", like("a departing member whose etcd has stopped yields", yields(0xa)), state.EtcdIdle, "leave.stopped"},
		{"nothing is yielded to a peer that yielded itself", like("a departing member whose etcd has stopped yields", peerYields(0xa)), state.EtcdIdle, "leave.stopped"},
		{"a host that cannot read its record yields nothing", like("a departing member whose etcd has stopped yields", unreadable), state.EtcdIdle, "leave.stopped"},
		{"a voter that stops looks again too", like("who does not know its members for the moment looks again", own(state.EtcdVoter)), state.EtcdWait, "leave.look-again"},
		{"who stops beside a peer that stops does not look again", like("who does not know its members for the moment looks again", peerLeaves), state.EtcdStop, "leave.stop"},
		{"who stops and cannot read its record does not look again", like("who does not know its members for the moment looks again", unreadable), state.EtcdStop, "leave.stop"},
		{"a voter too", like("who was stopped without leaving leaves once its peer commits nothing because of that", own(state.EtcdVoter)), state.EtcdWriteRecord, "leave.depart-stopped"},
		{"and gives its data directory up once the peer has read that", like("who was stopped without leaving leaves once its peer commits nothing because of that", own(state.EtcdDeparting), at(func(s *state.EtcdSnapshot) { s.Statement.Value.SeenSeq = s.Record.Value.Seq })), state.EtcdWriteRecord, "leave.yield"},
		{"not while a restart may still end", like("who was stopped without leaving leaves once its peer commits nothing because of that", leavingFor(LeaveLimit)), state.EtcdIdle, "leave.stopped"},
		{"nor beside a peer that stops too", like("who was stopped without leaving leaves once its peer commits nothing because of that", peerLeaves), state.EtcdIdle, "leave.stopped"},
		{"nor beside a peer that was started a moment ago: both may be", like("who was stopped without leaving leaves once its peer commits nothing because of that", peerStalls(StallAfter-StallStep-1)), state.EtcdIdle, "leave.stopped"},
		{"nor beside one that was started a moment ago, and stalled before that", like("who was stopped without leaving leaves once its peer commits nothing because of that", peerStalls(StallAfter+StallStep), peerStalledBefore(StallAfter)), state.EtcdIdle, "leave.stopped"},
		{"a stall before that does not count, and does no harm", like("who was stopped without leaving leaves once its peer commits nothing because of that", peerStalls(2*StallAfter-StallStep), peerStalledBefore(StallAfter)), state.EtcdWriteRecord, "leave.depart-stopped"},
		{"nor beside one that has a leader", like("who was stopped without leaving leaves once its peer commits nothing because of that", at(func(s *state.EtcdSnapshot) { s.Statement.Value.Leaderless = false })), state.EtcdIdle, "leave.stopped"},
		{"nor beside one whose etcd is down", like("who was stopped without leaving leaves once its peer commits nothing because of that", peerStopped), state.EtcdIdle, "leave.stopped"},
		{"nor beside one whose etcd cannot work", like("who was stopped without leaving leaves once its peer commits nothing because of that", at(func(s *state.EtcdSnapshot) { s.Statement.Value.Sick = "its disk hangs" })), state.EtcdIdle, "leave.stopped"},
		{"nor beside one that may lack writes", like("who was stopped without leaving leaves once its peer commits nothing because of that", peer(state.EtcdVoter)), state.EtcdIdle, "leave.stopped"},
		{"nor with a stand-in, which is stopped first", like("who was stopped without leaving leaves once its peer commits nothing because of that", standIn(0xb)), state.EtcdStop, "leave.stop"},
		{"a learner that stays stopped does not leave", like("who was stopped without leaving leaves once its peer commits nothing because of that", own(state.EtcdLearner)), state.EtcdIdle, "leave.stopped"},
		{"who has just moved leadership on a slow host looks again", like("who does not know who leads looks again", leavingFor(10500*time.Millisecond)), state.EtcdWait, "leave.look-again"},
		{"the limit of looking again is its last moment", like("who does not know its members for the moment looks again", leavingFor(LeaveLook)), state.EtcdWait, "leave.look-again"},
	}
}

// staysStopped makes this host one that Pacemaker stopped without leaving, and the peer one
// that commits nothing because of that.
func staysStopped(s *state.EtcdSnapshot) {
	stopped(s)
	leaves(s)
	s.Pacemaker.LeavingFor = LeaveLimit + 1
	s.Statement.Value.Leaderless, s.Statement.Value.Stalled = true, StallAfter-StallStep
}

// peerStalledBefore makes the peer state which part of that is from before it knew no leader.
func peerStalledBefore(d time.Duration) change {
	return func(s *state.EtcdSnapshot) { s.Statement.Value.Earlier = d }
}

// peerStalls makes the peer state for how long it has committed nothing.
func peerStalls(d time.Duration) change {
	return func(s *state.EtcdSnapshot) { s.Statement.Value.Stalled = d }
}

// TestAPeerThatGaveItsCopyUpAndLeftIsGoneOnWithout: a host that boots says that it gave its copy up, and
// is gone a moment later. Nobody waits for it, and nothing else proves that it cannot act.
func TestAPeerThatGaveItsCopyUpAndLeftIsGoneOnWithout(t *testing.T) {
	gaveUp := func(kind state.ProofKind, member state.MemberID) change {
		return func(s *state.EtcdSnapshot) { s.Record.Value.Proof = state.EtcdProof{Kind: kind, Member: member} }
	}
	takesOver := own(state.EtcdTakingOver)
	prove(t, []sentence{
		{"the record has the proof: a stand-in casts its vote", host(gonePeer, takesOver, noLeader, gaveUp(state.ProofYielded, 0xb)), state.EtcdStartStandIn, "take-over.stand-in"},
		{"and it is removed", host(gonePeer, takesOver, standIn(0xb), gaveUp(state.ProofYielded, 0xb)), state.EtcdRemove, "take-over.remove"},
		{"a stand-in stays if the peer is back and has said nothing", host(unsaid, takesOver, noLeader, standIn(0xb), gaveUp(state.ProofYielded, 0xb)), state.EtcdWait, "silent.wait"},
		{"then this host is the only voter", host(gonePeer, takesOver, members(alpha), gaveUp(state.ProofYielded, 0xb)), state.EtcdWriteRecord, "take-over.sole"},
		{"and restarts in place before it has written that", host(gonePeer, takesOver, members(alpha), stopped, gaveUp(state.ProofYielded, 0xb)), state.EtcdStart, "take-over.start"},
		{"a peer that holds that member again is not trusted", host(takesOver, noLeader, peer(state.EtcdPair), gaveUp(state.ProofYielded, 0xb)), state.EtcdWait, "lead.unproved"},
		{"it proves nothing about another member", host(gonePeer, takesOver, noLeader, gaveUp(state.ProofYielded, 0xd)), state.EtcdWait, "gone.unproved"},
		{"a release of before does not say which one", host(gonePeer, takesOver, noLeader, gaveUp(state.ProofYielded, 0)), state.EtcdWait, "gone.unproved"},
		{"other proofs end with contact", host(gonePeer, takesOver, noLeader, gaveUp(state.ProofFenced, 0xb)), state.EtcdWait, "gone.unproved"},
		{"a peer that waited may start", host(gonePeer, takesOver, noLeader, gaveUp(state.ProofWaiting, 0xb)), state.EtcdWait, "gone.unproved"},
		{"a survivor asks for a proof of its own", host(gonePeer, own(state.EtcdSole), noLeader, gaveUp(state.ProofYielded, 0xb)), state.EtcdWait, "gone.unproved"},
		{"nor does a host that boots start alone by it", host(rebooted, takesOver, gaveUp(state.ProofYielded, 0xb)), state.EtcdAskHuman, "alone.unproved"},
	})
	v := Decide(host(peer(state.EtcdDeparting), own(state.EtcdSole), noLeader, peerStopped, peerYields(0xb)))
	if v.Record == nil || v.Record.Proof.Kind != state.ProofYielded || v.Record.Proof.Member != 0xb {
		t.Errorf("what the peer gave up is not noted: %+v", v.Record)
	}
}

// TestAStopIsToldBeforeItEnds: without the word that a host departs, or gave its copy up, its peer has
// half of the votes until the host is back.
func TestAStopIsToldBeforeItEnds(t *testing.T) {
	unread := at(func(s *state.EtcdSnapshot) { s.Statement.Value.SeenSeq = s.Record.Value.Seq - 1 })
	departs := all(leaves, stopped, own(state.EtcdDeparting))
	notes := func(member state.MemberID) change {
		return func(s *state.EtcdSnapshot) {
			s.Statement.Value.Record.Proof = state.EtcdProof{Kind: state.ProofYielded, Member: member}
		}
	}
	for sentence, c := range map[string]struct {
		s    state.EtcdSnapshot
		want bool
	}{
		"the peer has not read that it departs":                          {host(departs, unread), true},
		"the peer has read it, and it is about to yield":                 {host(departs), true},
		"the peer has not read that it gave its copy up":                 {host(departs, yields(0xa), unread), true},
		"the peer has read that, and notes nothing":                      {host(departs, yields(0xa)), true},
		"the peer has read that, and lists it":                           {host(departs, yields(0xa), peer(state.EtcdSole), peerMembers(alpha, beta)), true},
		"the peer takes over for it":                                     {host(departs, yields(0xa), peer(state.EtcdTakingOver), notes(0xa)), false},
		"the peer takes over, and no longer will once this host is gone": {host(departs, yields(0xa), peer(state.EtcdTakingOver)), true},
		"the peer took over for another member":                          {host(departs, yields(0xa), peer(state.EtcdTakingOver), notes(0xd)), true},
		"the peer lists it":                                              {host(departs, unread, peerMembers(alpha, beta)), true},
		"the peer has removed it":                                        {host(departs, unread, peerMembers(beta)), false},
		"the peer stops too":                                             {host(departs, unread, peerLeaves), false},
		"the peer is gone":                                               {host(departs, unread, gonePeer), false},
		"nobody could read what the peer says":                           {host(departs, unsaid), true},
		"nobody knows whether the peer is there":                         {host(departs, at(func(s *state.EtcdSnapshot) { s.Pacemaker.Contact.Known = false })), true},
		"its own record cannot be read":                                  {host(departs, unreadable), true},
		"the copy of the peer is damaged, and it does not yield":         {host(departs, peerCopyDamaged), false},
		"it did not leave":                                               {host(leaves, stopped, unread), false},
		"it did not leave, and nobody could read what the peer says":     {host(leaves, stopped, unsaid), false},
	} {
		if got := Unread(c.s); got != c.want {
			t.Errorf("%s: %v", sentence, got)
		}
	}
}
