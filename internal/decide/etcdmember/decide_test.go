package etcdmember

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// host builds the snapshot of host alpha (member a) whose peer is beta (member
// b): a pair, both running, in contact, alpha leading.
func host(changes ...func(*state.EtcdSnapshot)) state.EtcdSnapshot {
	two := []state.EtcdMember{{ID: 0xa, Name: "alpha"}, {ID: 0xb, Name: "beta"}}
	s := state.EtcdSnapshot{
		Host: "alpha", Peer: "beta", Nonce: "n0nce", Boot: "boot-2", Uptime: time.Hour,
		Now:    time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		Record: state.Known(state.EtcdRecord{State: state.EtcdPair, Seq: 4, Cluster: 0xc, Member: 0xa}),
		Data:   state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xa, Members: two}),
		Local: state.EtcdLocal{
			Running: state.Known(true), Leader: state.Known(state.MemberID(0xa)),
			Members: state.Known(two), StandIn: state.Known(state.MemberID(0)),
		},
		Pacemaker: state.EtcdPacemaker{Inert: state.Known(false), Contact: state.Known(true), Ring: 7, Joined: time.Minute},
		Statement: state.Known(state.EtcdStatement{
			Boot: "beta-9", Serial: 3, Ring: 7, SeenSeq: 4,
			Record:  state.EtcdRecord{State: state.EtcdPair, Seq: 2, Cluster: 0xc, Member: 0xb},
			Data:    state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xb}),
			Running: state.Known(true), Members: state.Known(two), StandIn: state.Known(state.MemberID(0)),
		}),
		Proofs: state.EtcdProofs{Heard: "boot-2"},
	}
	for _, c := range changes {
		c(&s)
	}
	return s
}

type change = func(*state.EtcdSnapshot)

func own(st state.EtcdState) change {
	return func(s *state.EtcdSnapshot) {
		s.Record.Value.State = st
		switch st {
		case state.EtcdNone:
			s.Record.Value = state.EtcdRecord{State: st}
		case state.EtcdTakingOver:
			s.Record.Value.TakeOver = state.EtcdTakeOver{ID: "t1", Counter: 1}
		default:
		}
	}
}

func peer(st state.EtcdState) change {
	return func(s *state.EtcdSnapshot) {
		s.Statement.Value.Record.State = st
		if st == state.EtcdNone {
			s.Statement.Value.Record = state.EtcdRecord{State: st}
		}
	}
}

func empty(s *state.EtcdSnapshot) { // an empty learner
	s.Record.Value.State, s.Record.Value.Member = state.EtcdLearner, 0
	s.Data = state.Known(state.EtcdData{Copy: state.CopyNone})
	stopped(s)
}

// gaveUp is an empty learner that remembers which member it held before.
func gaveUp(s *state.EtcdSnapshot) { empty(s); s.Record.Value.Yields = 0xa }

func peerEmpty(s *state.EtcdSnapshot) {
	s.Statement.Value.Record = state.EtcdRecord{State: state.EtcdLearner, Seq: 5}
	s.Statement.Value.Data = state.Known(state.EtcdData{Copy: state.CopyNone})
	s.Statement.Value.Running = state.Known(false)
}

func stopped(s *state.EtcdSnapshot) {
	s.Local = state.EtcdLocal{Running: state.Known(false), StandIn: state.Known(state.MemberID(0))}
}

func peerStopped(s *state.EtcdSnapshot) {
	s.Statement.Value.Running, s.Statement.Value.Leads = state.Known(false), false
	s.Statement.Value.Members = state.Fact[[]state.EtcdMember]{}
}

func follows(s *state.EtcdSnapshot)   { s.Local.Leader = state.Known(state.MemberID(0xb)) }
func noLeader(s *state.EtcdSnapshot)  { s.Local.Leader = state.Known(state.MemberID(0)) }
func peerHeads(s *state.EtcdSnapshot) { s.Statement.Value.Leads = true }

func leaderless(d time.Duration) change {
	return func(s *state.EtcdSnapshot) { noLeader(s); s.Local.Leaderless = d }
}

func gonePeer(s *state.EtcdSnapshot) {
	s.Pacemaker.Contact, s.Pacemaker.Ring = state.Known(false), 8
}

func fenced(s *state.EtcdSnapshot) {
	s.Proofs.Fenced = state.Known(state.EtcdFenced{Target: "beta", State: "Off", Boot: "boot-2", At: 2 * time.Minute})
}

func rebooted(s *state.EtcdSnapshot) { // alone, inert
	stopped(s)
	gonePeer(s)
	s.Pacemaker.Inert, s.Pacemaker.Joined, s.Proofs.Heard = state.Known(true), 0, ""
	s.Statement = state.Fact[state.EtcdStatement]{}
}

func power(p string) change {
	return func(s *state.EtcdSnapshot) { s.Proofs.Power = state.Known(p) }
}

func forces(s *state.EtcdSnapshot) {
	s.Proofs.Human = state.Known(state.Confirmation{Who: "ops", Why: "beta burnt", Boot: "boot-2", At: 2 * time.Minute, Force: true})
}

func confirms(s *state.EtcdSnapshot) { forces(s); s.Proofs.Human.Value.Force = false }

func members(ms ...state.EtcdMember) change {
	return func(s *state.EtcdSnapshot) {
		s.Data.Value.Members = ms
		if s.Local.Running.Value {
			s.Local.Members = state.Known(ms)
		}
	}
}

func peerMembers(ms ...state.EtcdMember) change {
	return func(s *state.EtcdSnapshot) { s.Statement.Value.Members = state.Known(ms) }
}

func standIn(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) { s.Local.StandIn = state.Known(id) }
}

func leaves(s *state.EtcdSnapshot) {
	s.Pacemaker.Leaving, s.Pacemaker.LeavingFor = true, LeaveSettle
}

func damaged(s *state.EtcdSnapshot) {
	stopped(s)
	s.Data = state.Known(state.EtcdData{Copy: state.CopyDamaged})
}

// blank makes the peer one whose disk was replaced.
func blank(s *state.EtcdSnapshot) {
	s.Statement.Value.Record = state.EtcdRecord{State: state.EtcdNone}
	s.Statement.Value.Data = state.Known(state.EtcdData{Copy: state.CopyNone})
}

func givesWay(s *state.EtcdSnapshot) { s.Pacemaker.GivesWay = true }

// unseen makes the peer one that may have joined so long ago, after every fence.
func unseen(ago time.Duration) change {
	return func(s *state.EtcdSnapshot) { s.Pacemaker.Joined, s.Pacemaker.Unseen = s.Uptime-ago, true }
}

func unheard(s *state.EtcdSnapshot) { s.Proofs.Heard = "" }

func at(f func(*state.EtcdSnapshot)) change { return f }

var (
	alpha = state.EtcdMember{ID: 0xa, Name: "alpha"}
	beta  = state.EtcdMember{ID: 0xb, Name: "beta"}
)

// TestProtocol proves docs/adr/0010-two-node-protocol.md sentence by sentence.
func TestProtocol(t *testing.T) { prove(t, protocol()) }

func protocol() []sentence {
	return []sentence{
		// Pair, peer lost
		{"a healthy pair is left alone", host(), state.EtcdIdle, "equal.idle"},
		{"pair, peer lost: wait until it is fenced", host(gonePeer), state.EtcdWait, "gone.unproved"},
		{"pair, peer gone cleanly and never fenced: it is fenced", host(gonePeer, leaderless(FenceAfter+1)), state.EtcdAskFence, "gone.ask-fence"},
		{"a pair that has not heard asks for no fence", host(gonePeer, leaderless(FenceAfter+1), at(func(s *state.EtcdSnapshot) { s.Proofs.Heard = "" })), state.EtcdWait, "gone.unproved"},
		{"a fence of before the peer joined proves nothing", host(gonePeer, fenced, at(func(s *state.EtcdSnapshot) { s.Pacemaker.Joined = 3 * time.Minute })), state.EtcdWait, "gone.unproved"},
		{"a peer that gives way is fenced at once", host(gonePeer, givesWay), state.EtcdAskFence, "gone.fence-promised"},
		{"not a second time", host(gonePeer, givesWay, fenced), state.EtcdWriteRecord, "take-over.announce"},
		{"nor by a host that could not go on", host(gonePeer, givesWay, unheard), state.EtcdWait, "gone.unproved"},
		{"nor by one whose etcd is down", host(gonePeer, givesWay, stopped), state.EtcdWait, "gone.unproved"},
		{"nor by a learner", host(gonePeer, givesWay, members(alphaLearner, beta)), state.EtcdWait, "gone.unproved"},
		{"nor while it is there", host(givesWay), state.EtcdIdle, "equal.idle"},
		{"nor one that the peer may have outlived unseen: another one is asked for", host(gonePeer, fenced, unseen(VoidAfter+1)), state.EtcdAskFence, "gone.fence-again"},
		{"not before Pacemaker had time to ask for it", host(gonePeer, fenced, unseen(VoidAfter)), state.EtcdWait, "gone.unproved"},
		{"nor where the peer was seen", host(gonePeer, fenced, unseen(VoidAfter+1), at(func(s *state.EtcdSnapshot) { s.Pacemaker.Unseen = false })), state.EtcdWait, "gone.unproved"},
		{"nor without a fence", host(gonePeer, unseen(VoidAfter+1)), state.EtcdWait, "gone.unproved"},
		{"nor for the fence of another boot", host(gonePeer, fenced, unseen(VoidAfter+1), at(func(s *state.EtcdSnapshot) { s.Proofs.Fenced.Value.Boot = "boot-1" })), state.EtcdWait, "gone.unproved"},
		{"nor for that of no boot", host(gonePeer, fenced, unseen(VoidAfter+1), at(func(s *state.EtcdSnapshot) { s.Boot, s.Proofs.Fenced.Value.Boot = "", "" })), state.EtcdWait, "gone.unproved"},
		{"nor for that of another host", host(gonePeer, fenced, unseen(VoidAfter+1), at(func(s *state.EtcdSnapshot) { s.Proofs.Fenced.Value.Target = "beta-1" })), state.EtcdWait, "gone.unproved"},
		{"nor for one without a proof", host(gonePeer, fenced, unseen(VoidAfter+1), at(func(s *state.EtcdSnapshot) { s.Proofs.Fenced.Value.State = "On" })), state.EtcdWait, "gone.unproved"},
		{"nor by a host that could not go on", host(gonePeer, fenced, unseen(VoidAfter+1), unheard), state.EtcdWait, "gone.unproved"},
		{"by a host whose etcd is down, too: it would wait for ever", host(gonePeer, fenced, unseen(VoidAfter+1), stopped), state.EtcdAskFence, "gone.fence-again"},
		{"nor by a learner", host(gonePeer, fenced, unseen(VoidAfter+1), members(alphaLearner, beta)), state.EtcdWait, "gone.unproved"},
		{"nor where a person's word stands", host(gonePeer, fenced, unseen(VoidAfter+1), at(func(s *state.EtcdSnapshot) {
			s.Proofs.Human = state.Known(state.Confirmation{Who: "ops", Why: "it burnt", Boot: "boot-2", At: s.Uptime})
		})), state.EtcdWriteRecord, "take-over.announce"},
		{"a fence after that counts", host(gonePeer, unseen(VoidAfter+1), fenced, at(func(s *state.EtcdSnapshot) { s.Proofs.Fenced.Value.At = s.Uptime })), state.EtcdWriteRecord, "take-over.announce"},
		{"a fence of an earlier boot proves nothing", host(gonePeer, fenced, at(func(s *state.EtcdSnapshot) { s.Proofs.Fenced.Value.Boot = "boot-1" })), state.EtcdWait, "gone.unproved"},
		{"PoweringOff is not Off", host(gonePeer, fenced, at(func(s *state.EtcdSnapshot) { s.Proofs.Fenced.Value.State = "PoweringOff" })), state.EtcdWait, "gone.unproved"},
		{"off in small letters is not Off", host(gonePeer, fenced, at(func(s *state.EtcdSnapshot) { s.Proofs.Fenced.Value.State = "off" })), state.EtcdWait, "gone.unproved"},
		{"a fence of another host proves nothing", host(gonePeer, fenced, at(func(s *state.EtcdSnapshot) { s.Proofs.Fenced.Value.Target = "beta-1" })), state.EtcdWait, "gone.unproved"},
		{"contact ends a fenced proof", host(fenced, own(state.EtcdTakingOver)), state.EtcdWait, "lead.unproved"},
		{"peer fenced and heard: the take-over is recorded first", host(gonePeer, fenced), state.EtcdWriteRecord, "take-over.announce"},
		{"pair that has not heard: a person", host(gonePeer, fenced, at(func(s *state.EtcdSnapshot) { s.Proofs.Heard = "boot-1" })), state.EtcdAskHuman, "gone.not-heard"},
		{"local etcd is down: it is started plainly first", host(gonePeer, fenced, stopped), state.EtcdStart, "take-over.start"},
		{"a voter is not eligible", host(gonePeer, fenced, own(state.EtcdVoter)), state.EtcdAskHuman, "gone.not-eligible"},
		{"a learner is not eligible", host(gonePeer, fenced, own(state.EtcdLearner)), state.EtcdAskHuman, "gone.not-eligible"},
		{"who departs is not eligible", host(gonePeer, fenced, own(state.EtcdDeparting)), state.EtcdAskHuman, "gone.not-eligible"},
		{"exactly two voters", host(gonePeer, fenced, members(alpha, beta, state.EtcdMember{ID: 0xd, Name: "x"})), state.EtcdAskHuman, "take-over.too-many"},
		{"the stand-in votes after the record", host(gonePeer, fenced, own(state.EtcdTakingOver), noLeader), state.EtcdStartStandIn, "take-over.stand-in"},
		{"the election is awaited", host(gonePeer, fenced, own(state.EtcdTakingOver), noLeader, standIn(0xb)), state.EtcdWait, "take-over.wait"},
		{"the peer is removed once this host leads", host(gonePeer, fenced, own(state.EtcdTakingOver), standIn(0xb)), state.EtcdRemove, "take-over.remove"},
		{"then sole is written", host(gonePeer, fenced, own(state.EtcdTakingOver), standIn(0xb), members(alpha)), state.EtcdWriteRecord, "take-over.sole"},
		{"then the stand-in is stopped", host(gonePeer, fenced, own(state.EtcdSole), standIn(0xb), members(alpha)), state.EtcdStopStandIn, "gone.end-stand-in"},
		{"interrupted anywhere: start again from the record", host(gonePeer, fenced, own(state.EtcdTakingOver), stopped), state.EtcdStart, "take-over.start"},
		{"sole with the peer still listed takes over", host(gonePeer, fenced, own(state.EtcdSole), noLeader), state.EtcdWriteRecord, "take-over.announce"},
		{"sole and alone goes on", host(gonePeer, own(state.EtcdSole), members(alpha)), state.EtcdIdle, "gone.sole-alone"},
		{"sole whose etcd died restarts in place", host(gonePeer, own(state.EtcdSole), members(alpha), stopped), state.EtcdStart, "gone.sole-restarts"},
		{"but not when it has not heard the peer in this boot", host(gonePeer, own(state.EtcdSole), members(alpha), stopped, at(func(s *state.EtcdSnapshot) { s.Proofs.Heard = "" })), state.EtcdWait, "gone.unproved"},
		{"a proof that ended ends the stand-in", host(gonePeer, own(state.EtcdTakingOver), standIn(0xb)), state.EtcdStopStandIn, "gone.end-stand-in"},

		// Sole, peer back
		{"a copy that is not listed is given up in the record first", host(peer(state.EtcdSole), peerHeads, peerMembers(beta), stopped), state.EtcdWriteRecord, "follow.give-up"},
		{"then it is backed up and emptied", host(peer(state.EtcdSole), peerHeads, peerMembers(beta), empty, at(func(s *state.EtcdSnapshot) { s.Data.Value.Copy = state.CopyWhole })), state.EtcdEmpty, "follow.empty"},
		{"a half-emptied copy is emptied on", host(peer(state.EtcdSole), peerHeads, peerMembers(beta), empty, at(func(s *state.EtcdSnapshot) { s.Data.Value.Copy = state.CopyDamaged })), state.EtcdEmpty, "follow.empty"},
		{"nothing is emptied before the survivor leads", host(peer(state.EtcdSole), peerMembers(beta), stopped), state.EtcdWait, "follow.peer-not-leading"},
		{"a copy that is listed is never emptied", host(peer(state.EtcdSole), peerHeads, peerMembers(alpha, beta), stopped), state.EtcdWriteRecord, "follow.demote"},
		{"an unknown membership empties nothing", host(peer(state.EtcdSole), peerHeads, stopped, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Members.Known = false })), state.EtcdWait, "follow.unknown"},
		{"the survivor adds a learner once the copy is empty", host(own(state.EtcdSole), members(alpha), peerEmpty), state.EtcdAddLearner, "lead.add"},
		{"no second learner is added", host(own(state.EtcdSole), members(alpha, state.EtcdMember{ID: 0xd, Learner: true}), peerEmpty), state.EtcdWait, "lead.wait"},
		{"the reply was lost: the listed learner is used", host(gaveUp, peer(state.EtcdSole), peerHeads, peerMembers(beta, state.EtcdMember{ID: 0xd, Learner: true})), state.EtcdWriteRecord, "follow.accept"},
		{"a listed learner is simply started", host(gaveUp, at(func(s *state.EtcdSnapshot) { s.Record.Value.Member = 0xd }), peer(state.EtcdSole), peerHeads, peerMembers(beta, state.EtcdMember{ID: 0xd, Learner: true})), state.EtcdStart, "follow.join"},
		{"a learner whose copy is lost gives the id up", host(empty, at(func(s *state.EtcdSnapshot) { s.Record.Value.Member = 0xd }), peer(state.EtcdSole), peerHeads, peerMembers(beta, state.EtcdMember{ID: 0xd, Learner: true, Name: "alpha"})), state.EtcdWriteRecord, "follow.lost-copy"},
		{"a new disk disowns the learner it does not know", host(empty, peer(state.EtcdSole), peerHeads, peerMembers(beta, state.EtcdMember{ID: 0xd, Learner: true, Name: "alpha"})), state.EtcdWriteRecord, "follow.disown"},
		{"a disowned learner is dropped", host(own(state.EtcdSole), members(alpha, state.EtcdMember{ID: 0xd, Learner: true, Name: "beta"}), peerEmpty, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Yields = 0xd })), state.EtcdRemove, "lead.drop-learner"},
		{"a learner is promoted when in sync", host(own(state.EtcdSole), members(alpha, state.EtcdMember{ID: 0xb, Learner: true, Name: "beta", InSync: true}), peer(state.EtcdLearner)), state.EtcdPromote, "lead.promote"},
		{"and not before", host(own(state.EtcdSole), members(alpha, state.EtcdMember{ID: 0xb, Learner: true, Name: "beta"}), peer(state.EtcdLearner)), state.EtcdWait, "lead.wait"},
		{"the newcomer writes voter", host(own(state.EtcdLearner), peer(state.EtcdSole), peerHeads, follows), state.EtcdWriteRecord, "follow.promoted"},
		{"one key is written, by the survivor if it leads", host(own(state.EtcdSole), peer(state.EtcdVoter)), state.EtcdMark, "lead.mark"},
		{"or by the newcomer if it leads", host(own(state.EtcdVoter), peer(state.EtcdSole)), state.EtcdMark, "follow.mark"},
		{"acknowledged: the survivor writes pair", host(own(state.EtcdSole), peer(state.EtcdVoter), members(alpha, state.EtcdMember{ID: 0xb, Name: "beta", Marked: 2})), state.EtcdWriteRecord, "lead.pair"},
		{"the marker of an earlier record does not count", host(own(state.EtcdSole), peer(state.EtcdVoter), members(alpha, state.EtcdMember{ID: 0xb, Name: "beta", Marked: 1})), state.EtcdMark, "lead.mark"},
		{"the newcomer becomes pair when told so", host(own(state.EtcdVoter), follows, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Paired = state.EtcdPairing{Member: 0xa, Seq: 4} })), state.EtcdWriteRecord, "equal.pair"},
		{"and not by a pairing of before", host(own(state.EtcdVoter), follows, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Paired = state.EtcdPairing{Member: 0xa, Seq: 3} })), state.EtcdIdle, "equal.idle"},

		{"a learner whose own copy does not list it catches up", host(own(state.EtcdLearner), members(beta), peer(state.EtcdSole), peerHeads, follows, peerMembers(beta, state.EtcdMember{ID: 0xa, Name: "alpha", Learner: true})), state.EtcdWait, "follow.catch-up"},

		// Graceful leave
		{"who stops waits a moment for word that the peer stops too", host(leaves, at(func(s *state.EtcdSnapshot) { s.Pacemaker.LeavingFor = LeaveSettle - 1 })), state.EtcdWait, "leave.settle"},
		{"who leads moves leadership first", host(leaves), state.EtcdMoveLeader, "leave.hand-over-leadership"},
		{"then departing is written", host(leaves, follows), state.EtcdWriteRecord, "leave.depart"},
		{"who stays writes sole when it has seen that", host(peer(state.EtcdDeparting)), state.EtcdWriteRecord, "equal.peer-departs"},
		{"and removes the leaver", host(own(state.EtcdSole), peer(state.EtcdDeparting)), state.EtcdRemove, "lead.remove-departing"},
		{"the leaver waits for its removal", host(leaves, follows, own(state.EtcdDeparting), peer(state.EtcdSole)), state.EtcdWait, "leave.await-removal"},
		{"and not for ever", host(leaves, follows, own(state.EtcdDeparting), peer(state.EtcdSole), leavingFor(LeaveLimit+1)), state.EtcdStop, "leave.stop"},
		{"removed: the leaver stops", host(leaves, follows, own(state.EtcdDeparting), peer(state.EtcdSole), members(beta)), state.EtcdStop, "leave.stop"},
		{"who was stopped without leaving leaves once its peer commits nothing because of that", host(staysStopped), state.EtcdWriteRecord, "leave.depart-stopped"},
		{"a departing member whose etcd has stopped yields", host(leaves, stopped, own(state.EtcdDeparting)), state.EtcdWriteRecord, "leave.yield"},
		{"but not before the peer has read that it departs", host(leaves, stopped, own(state.EtcdDeparting), at(func(s *state.EtcdSnapshot) { s.Statement.Value.SeenSeq = 3 })), state.EtcdIdle, "leave.stopped"},
		{"a yield is proof enough", host(peer(state.EtcdDeparting), own(state.EtcdSole), noLeader, peerStopped, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Yields = 0xb })), state.EtcdWriteRecord, "lead.left-behind"},
		{"it proves nothing about another id", host(peer(state.EtcdDeparting), own(state.EtcdTakingOver), noLeader, peerStopped, at(func(s *state.EtcdSnapshot) {
			s.Statement.Value.Record.Yields = 0xd
			s.Statement.Value.SeenSeq = 0
		})), state.EtcdWait, "lead.unproved"},
		{"did not leave after all: voter until a new marker", host(own(state.EtcdDeparting)), state.EtcdWriteRecord, "equal.stay"},
		{"who does not know its members for the moment looks again", host(leaves, at(func(s *state.EtcdSnapshot) { s.Local.Members = state.Fact[[]state.EtcdMember]{} })), state.EtcdWait, "leave.look-again"},
		{"who does not know who leads looks again", host(leaves, noLeader), state.EtcdWait, "leave.look-again"},
		{"who has not heard of the peer in this membership looks again", host(leaves, follows, at(func(s *state.EtcdSnapshot) { s.Statement = state.Fact[state.EtcdStatement]{} })), state.EtcdWait, "leave.look-again"},
		{"and not for ever either", host(leaves, noLeader, at(func(s *state.EtcdSnapshot) { s.Pacemaker.LeavingFor = LeaveLook + 1 })), state.EtcdStop, "leave.stop"},
		{"a peer that stops too is not waited for", host(leaves, noLeader, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Leaving = true })), state.EtcdStop, "leave.stop"},
		{"a survivor never leaves", host(leaves, own(state.EtcdSole)), state.EtcdStop, "leave.stop"},

		// Both stop
		{"both stop: nobody leaves", host(leaves, follows, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Leaving = true })), state.EtcdStop, "leave.stop"},
		{"the peer departs already: nobody else leaves", host(leaves, follows, peer(state.EtcdDeparting)), state.EtcdStop, "leave.stop"},
		{"the peer is gone: nobody leaves", host(leaves, gonePeer), state.EtcdStop, "leave.stop"},

		// Both start
		{"1 the survivor leads", host(stopped, own(state.EtcdSole), peerStopped), state.EtcdStart, "lead.start"},
		{"1 the other waits while taking-over lasts", host(stopped, peer(state.EtcdTakingOver)), state.EtcdWait, "follow.wait"},
		{"1 and stops if it runs", host(peer(state.EtcdTakingOver)), state.EtcdStop, "follow.stop"},
		{"1 and waits while it is not known whether the stand-in ended", host(stopped, peer(state.EtcdSole), peerHeads, at(func(s *state.EtcdSnapshot) { s.Statement.Value.StandIn.Known = false })), state.EtcdWait, "follow.wait"},
		{"2 both pair: both start plainly", host(stopped, peerStopped), state.EtcdStart, "equal.start"},
		{"2 a voter starts plainly", host(stopped, peerStopped, own(state.EtcdVoter)), state.EtcdStart, "equal.start"},
		{"2 a copy that does not list itself is not started", host(stopped, own(state.EtcdDeparting), members(beta)), state.EtcdWriteRecord, "equal.removed-yield"},
		{"2 two cluster ids: a person", host(stopped, at(func(s *state.EtcdSnapshot) { s.Data.Value.Cluster = 0xe })), state.EtcdAskHuman, "equal.two-clusters"},
		{"3 no data here, the other is pair: a person", host(stopped, own(state.EtcdNone), at(func(s *state.EtcdSnapshot) { s.Data.Value = state.EtcdData{Copy: state.CopyNone} })), state.EtcdAskHuman, "equal.no-record"},
		{"3 no data there: a person", host(stopped, peer(state.EtcdNone), peerStopped, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Data.Value = state.EtcdData{Copy: state.CopyNone} })), state.EtcdAskHuman, "equal.peer-lost"},
		{"4 both sole: refuse", host(stopped, own(state.EtcdSole), peer(state.EtcdSole)), state.EtcdAskHuman, "two-histories"},
		{"4 both sole, this one forced: it leads", host(stopped, own(state.EtcdSole), peer(state.EtcdSole), at(func(s *state.EtcdSnapshot) { s.Record.Value.Forced.Who = "ops" })), state.EtcdStart, "lead.start"},
		{"4 both sole, the other forced: this one may never start alone again", host(stopped, own(state.EtcdSole), peer(state.EtcdSole), at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Forced.Who = "ops" })), state.EtcdWriteRecord, "follow.overruled"},
		{"5 a peer that has not spoken: wait", host(stopped, at(func(s *state.EtcdSnapshot) { s.Statement = state.Fact[state.EtcdStatement]{} })), state.EtcdWait, "silent.wait"},
		{"the hand-over: a first record is written", host(stopped, own(state.EtcdNone), peer(state.EtcdNone), peerStopped), state.EtcdWriteRecord, "equal.adopt"},
		{"the hand-over: both are voters, marked: pair", host(own(state.EtcdVoter), peer(state.EtcdVoter), members(state.EtcdMember{ID: 0xa, Marked: 4}, state.EtcdMember{ID: 0xb, Marked: 2})), state.EtcdWriteRecord, "equal.pair-first"},

		// One starts alone
		{"inert and pair: waits", host(rebooted, power("Off")), state.EtcdAskHuman, "alone.wait"},
		{"inert and pair, even where the peer was fenced", host(rebooted, power("Off"), fenced), state.EtcdAskHuman, "alone.wait"},
		{"the survivor asks for a fence first", host(rebooted, own(state.EtcdSole), power("Off")), state.EtcdAskFence, "alone.fence-first"},
		{"the survivor goes on alone", host(rebooted, own(state.EtcdSole), power("Off"), fenced), state.EtcdGrantQuorum, "alone.survivor"},
		{"an interrupted survivor goes on alone", host(rebooted, own(state.EtcdTakingOver), power("Off"), fenced), state.EtcdGrantQuorum, "alone.survivor"},
		{"the survivor waits while the peer's BMC says On", host(rebooted, own(state.EtcdSole), power("On"), fenced), state.EtcdAskHuman, "alone.unproved"},
		{"the survivor waits while the peer's BMC is mute", host(rebooted, own(state.EtcdSole)), state.EtcdAskHuman, "alone.unproved"},
		{"a person confirms that the survivor's peer is off", host(rebooted, own(state.EtcdSole), confirms), state.EtcdGrantQuorum, "alone.survivor"},
		{"a confirmation of an earlier boot counts for nothing", host(rebooted, own(state.EtcdSole), confirms, at(func(s *state.EtcdSnapshot) { s.Proofs.Human.Value.Boot = "boot-1" })), state.EtcdAskHuman, "alone.unproved"},
		{"a person's word that the peer is off does not make a pair lead", host(rebooted, confirms), state.EtcdAskHuman, "alone.wait"},
		{"a person forces a pair: recorded first", host(rebooted, forces), state.EtcdWriteRecord, "alone.forced"},
		{"a learner's copy can never be forced", host(rebooted, own(state.EtcdLearner), forces), state.EtcdAskHuman, "alone.no-copy"},
		{"nor one that has left the cluster", host(rebooted, own(state.EtcdDeparting), forces, members(beta)), state.EtcdAskHuman, "alone.removed"},
		{"nor one that was given up", host(rebooted, own(state.EtcdDeparting), forces, at(func(s *state.EtcdSnapshot) { s.Record.Value.Yields = 0xa })), state.EtcdAskHuman, "alone.no-copy"},

		// Local and peer's etcd
		{"local etcd dies: restarted in place", host(stopped), state.EtcdStart, "equal.start"},
		{"only where that cannot work it yields", host(damaged), state.EtcdWriteRecord, "equal.lost-copy-yield"},
		{"the peer yielded: the take-over is recorded", host(noLeader, peer(state.EtcdDeparting), peerStopped, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Yields = 0xb }), own(state.EtcdPair)), state.EtcdWriteRecord, "equal.take-over"},
		{"who meant to leave goes on when its peer yields", host(own(state.EtcdDeparting), noLeader, peer(state.EtcdDeparting), peerStopped, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Yields = 0xb })), state.EtcdWriteRecord, "equal.take-over"},
		{"the peer's disk was replaced: who heard it in this boot goes on", host(noLeader, peer(state.EtcdNone), peerStopped, blank), state.EtcdWriteRecord, "equal.take-over"},
		{"who has not heard it asks", host(noLeader, peer(state.EtcdNone), peerStopped, blank, unheard), state.EtcdAskHuman, "equal.peer-lost"},
		{"a peer that holds a copy and lost its record is another matter", host(noLeader, peer(state.EtcdNone), peerStopped), state.EtcdIdle, "equal.idle"},
		{"both damaged: waits", host(damaged, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Data.Value.Copy = state.CopyDamaged })), state.EtcdWait, "equal.unusable-wait"},
		{"the peer's etcd is down: its restart is awaited", host(peerStopped, leaderless(10*time.Second)), state.EtcdIdle, "equal.idle"},
		{"for a bounded time, then it is fenced", host(peerStopped, leaderless(FenceAfter+1)), state.EtcdAskFence, "equal.fence"},
		{"a peer that joined a moment ago gets its time", host(peerStopped, leaderless(FenceAfter+1), at(func(s *state.EtcdSnapshot) { s.Pacemaker.Joined = s.Uptime - time.Second })), state.EtcdIdle, "equal.idle"},
		{"sole, the newcomer's etcd is down: taking-over is recorded", host(own(state.EtcdSole), peer(state.EtcdVoter), peerStopped, leaderless(RestartGrace+1)), state.EtcdWriteRecord, "lead.voter-lost"},
		{"waiting counts only after the peer has read it", host(own(state.EtcdTakingOver), peer(state.EtcdVoter), peerStopped, noLeader, at(func(s *state.EtcdSnapshot) { s.Statement.Value.SeenSeq = 3 })), state.EtcdWait, "lead.unproved"},
		{"waiting is proof", host(own(state.EtcdTakingOver), peer(state.EtcdVoter), peerStopped, noLeader), state.EtcdStartStandIn, "lead.stand-in"},

		// Facts and unknowns
		{"facts of another membership do not count", host(stopped, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Ring = 6 })), state.EtcdWait, "silent.wait"},
		{"facts of a peer that is gone do not count", host(own(state.EtcdTakingOver), gonePeer, peerStopped, noLeader), state.EtcdWait, "gone.unproved"},
		{"an unreadable record: nothing is touched", host(at(func(s *state.EtcdSnapshot) { s.Record = state.Fact[state.EtcdRecord]{} })), state.EtcdAskHuman, "unknown.record"},
		{"etcd that does not answer is left alone", host(at(func(s *state.EtcdSnapshot) { s.Local.Members.Known = false })), state.EtcdWait, "unknown.members"},
		{"unknown whether etcd runs: wait", host(at(func(s *state.EtcdSnapshot) { s.Local.Running.Known = false })), state.EtcdWait, "unknown.local"},
		{"unknown contact: wait", host(fenced, at(func(s *state.EtcdSnapshot) { s.Pacemaker.Contact.Known = false })), state.EtcdWait, "unknown.local"},
		{"unknown data: wait", host(stopped, at(func(s *state.EtcdSnapshot) { s.Data.Known = false })), state.EtcdWait, "unknown.data"},
		{"a removed member stops", host(members(beta)), state.EtcdStop, "removed.stop"},
	}
}

func TestARecordFollowsTheOneBefore(t *testing.T) {
	got := Decide(host(gonePeer, fenced)).Record
	if got == nil || got.State != state.EtcdTakingOver || got.Seq != 5 || got.Member != 0xa || got.Cluster != 0xc ||
		got.TakeOver != (state.EtcdTakeOver{ID: "n0nce", Counter: 1}) || got.Proof.Kind != state.ProofFenced || got.Forced.Who != "" {
		t.Errorf("%+v", got)
	}
	got = Decide(host(rebooted, forces)).Record
	if got == nil || got.Forced.Who != "ops" || got.Forced.Why != "beta burnt" || got.Proof.Kind != state.ProofHuman {
		t.Errorf("what a person forced is not recorded: %+v", got)
	}
	if _, err := state.EncodeEtcdRecord(*got); err != nil {
		t.Error(err)
	}
}

func TestAStatementPromisesOnlyWhatIsKnown(t *testing.T) {
	if st := Statement(host()); st.Ring != 7 || st.SeenSeq != 2 || !st.Leads {
		t.Errorf("%+v", st)
	}
	for name, s := range map[string]state.EtcdSnapshot{
		"an unreadable record":        host(at(func(s *state.EtcdSnapshot) { s.Record = state.Fact[state.EtcdRecord]{} })),
		"no contact":                  host(gonePeer),
		"unknown whether in contact":  host(at(func(s *state.EtcdSnapshot) { s.Pacemaker.Contact.Known = false })),
		"a statement of another ring": host(at(func(s *state.EtcdSnapshot) { s.Statement.Value.Ring = 6 })),
	} {
		if st := Statement(s); st.Ring != 0 && st.SeenSeq != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func TestTheTableReadsLikeADocument(t *testing.T) {
	var ids []string
	for _, r := range Rules() {
		if r.ID == "" || r.When == "" || r.Why == "" || r.Action == "" || r.Section == "" {
			t.Errorf("rule %+v is not told in full", r)
		}
		ids = append(ids, r.Section+r.ID)
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != len(Rules()) {
		t.Errorf("%d rules have %d ids", len(Rules()), n)
	}
}
