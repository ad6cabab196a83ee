package etcdmember

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/model/state"
)

// next returns a copy of the own record as the base of the next one.
func (v *view) next(s state.EtcdState) state.EtcdRecord {
	r := v.own
	r.State, r.Written = s, v.s.Now
	r.Seq++
	r.Yields, r.Paired, r.Third = 0, state.EtcdPairing{}, 0
	return r
}

func writeTakingOver(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdTakingOver)
	r.TakeOver = state.EtcdTakeOver{ID: v.s.Nonce, Counter: v.own.TakeOver.Counter + 1}
	r.Proof, _ = v.proof()
	if v.forcing() && !v.mayGoOn() {
		h := v.s.Proofs.Human.Value
		r.Forced = state.EtcdForced{Who: h.Who, Why: h.Why, At: v.s.Now}
	}
	out.Record = &r
}

// mayGoOn reports whether the own record allows this host to go on without the peer
// once the peer is proved off, without an administrator's override.
func (v *view) mayGoOn() bool {
	switch v.own.State {
	case state.EtcdTakingOver, state.EtcdSole:
		return true
	case state.EtcdPair:
		return v.heard()
	case state.EtcdNone, state.EtcdLearner, state.EtcdVoter, state.EtcdDeparting, state.EtcdWidening, state.EtcdMajority:
	}
	return false
}

func writeSole(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdSole)
	out.Record = &r
}

// writeFirst makes the first record of a host that never had a peer.
func writeFirst(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdSole)
	r.Member, r.Cluster = v.s.Data.Value.Member, v.s.Data.Value.Cluster
	out.Record = &r
}

func writePair(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdPair)
	r.Paired = state.EtcdPairing{Member: v.peer.Record.Member, Seq: v.peer.Record.Seq}
	r.Forced, r.Proof = state.EtcdForced{}, state.EtcdProof{}
	out.Record = &r
}

// writeVoter keeps no pairing: the next marker has to name this write of the
// record.
func writeVoter(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdVoter)
	r.Forced, r.Proof = state.EtcdForced{}, state.EtcdProof{}
	if r.Member == 0 {
		r.Member, r.Cluster = v.s.Data.Value.Member, v.s.Data.Value.Cluster
	}
	out.Record = &r
}

// writeEmpty announces that the data directory is given up: the record holds no
// member id.
func writeEmpty(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdLearner)
	r.Yields = v.own.Member
	r.Member, r.Forced, r.Proof = 0, state.EtcdForced{}, state.EtcdProof{}
	r.Cluster = v.peer.Record.Cluster
	out.Record = &r
}

// writeDisown gives up a member that the peer lists and that is not in the record.
func writeDisown(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdLearner)
	r.Yields, _ = v.strange()
	out.Record = &r
}

// writeLearner keeps the member that was given up before, which says that the new
// member was not started yet.
func writeLearner(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdLearner)
	r.Cluster = v.peer.Record.Cluster
	r.Member, _ = v.offered()
	r.Yields = v.own.Yields
	out.Record = &r
}

// writeJoining is written in the same step as the first start, before it: from then
// on a missing data directory is a lost one.
func writeJoining(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdLearner)
	out.Record = &r
}

func writeDeparting(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdDeparting)
	out.Record = &r
}

func writeYield(v *view, out *state.EtcdVerdict) {
	r := v.next(state.EtcdDeparting)
	r.Yields = v.own.Member
	out.Record = &r
}

func aboutOther(v *view, out *state.EtcdVerdict) { out.Member = v.other.ID }

// markMissing names the voter whose marker is missing, the peer's first.
func markMissing(v *view, out *state.EtcdVerdict) {
	if v.peerNeedsMark() {
		out.Member, out.Seq = v.other.ID, v.peer.Record.Seq
		return
	}
	out.Member, out.Seq = v.own.Member, v.own.Seq
}

// Confirm is the command that a verdict names where an administrator may confirm
// that the peer is off.
const Confirm = "holdfast quorum confirm"

func confirmCommand(_ *view, out *state.EtcdVerdict) { out.Next = Confirm }

// notEligible names what leads out where no confirmation does: a learner's data, and data that were
// given up, are never forced to lead.
func notEligible(v *view, out *state.EtcdVerdict) {
	if v.in(state.EtcdNone, state.EtcdLearner) || v.own.Yields != 0 {
		restoreCommand(v, out)
		return
	}
	confirmCommand(v, out)
}

func restoreCommand(_ *view, out *state.EtcdVerdict) { out.Next = "etcdutl snapshot restore --help" }

// evidence lists what the decision rests on, for later readers.
func evidence(v *view) []string {
	out := make([]string, 0, 6)
	out = append(out, "own record: "+describe(v.s.Record), "own data directory: "+describeCopy(v.s.Data), "own etcd: "+describeLocal(v))
	switch {
	case v.said:
		out = append(out, v.s.Peer+" states: "+describeRecord(v.peer.Record)+", data directory "+describeCopy(v.peer.Data)+", etcd "+tell(v.peer.Running, "runs", "is stopped"))
	case v.contact:
		out = append(out, v.s.Peer+" is in contact and has made no statement in this membership")
	default:
		out = append(out, "contact with "+v.s.Peer+": "+tell(v.s.Pacemaker.Contact, "yes", "no, it last joined "+v.s.Pacemaker.Joined.String()+" after boot"))
	}
	if v.s.Proofs.Power.Known {
		out = append(out, "BMC of "+v.s.Peer+" reads "+v.s.Proofs.Power.Value)
	}
	if p, ok := v.proof(); ok {
		out = append(out, "proof that it cannot act: "+string(p.Kind)+", "+p.Detail)
	}
	return out
}

func tell(f state.Fact[bool], yes, no string) string {
	switch {
	case !f.Known:
		return "unknown"
	case f.Value:
		return yes
	}
	return no
}

func describe(f state.Fact[state.EtcdRecord]) string {
	if !f.Known {
		return "unreadable"
	}
	return describeRecord(f.Value)
}

func describeRecord(r state.EtcdRecord) string {
	text := string(r.State)
	if r.Member != 0 {
		text += " as member " + r.Member.String()
	}
	if r.Forced.Who != "" {
		text += ", forced by " + r.Forced.Who
	}
	return text
}

func describeCopy(f state.Fact[state.EtcdData]) string {
	if !f.Known {
		return "unknown"
	}
	text := string(f.Value.Copy)
	if f.Value.Copy == state.CopyDamaged && f.Value.Reason != "" {
		text += ": " + f.Value.Reason
	}
	if f.Value.NoSpace {
		text += ", and its disk full"
	}
	if f.Value.NoStart {
		text += ", and nothing starts etcd"
		if f.Value.Reason != "" {
			text += ": " + f.Value.Reason
		}
	}
	return text
}

func describeLocal(v *view) string {
	text := tell(v.s.Local.Running, "runs", "is stopped")
	if v.running && v.membersKnown {
		text += fmt.Sprintf(", %d voters", v.voters)
	}
	switch {
	case v.iLead():
		text += ", leads"
	case v.leaderless():
		text += ", no leader for " + v.s.Local.Leaderless.String()
	}
	return text
}
