package sim

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Bugs lists all bugs: first the rules of the protocol that look fussy, each
// taken out, then mistakes that others made.
var Bugs = slices.Concat(rulesOut, stallsOut, holes, historic, sitesOut, thirdsOut)

var rulesOut = []Bug{
	{
		Name: "noevid", Seed: 2, What: "the loss of contact is proof enough", Origin: "proof of a fence before a take-over",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) { pretendFenced(s) },
	},
	{
		Name: "oldevid", Seed: 1160, What: "a fence of before the last contact still counts", Origin: "contact ends a proof",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if s.Proofs.Fenced.Known && state.Is(s.Pacemaker.Contact, false) {
				s.Pacemaker.Joined = 0
			}
		},
	},
	{
		Name: "noheard", Seed: 114, What: "a pair takes over although the peer has not said that it did not go on alone", Origin: "heard in this boot",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) { s.Proofs.Heard = s.Boot },
	},
	{
		Name: "solopair", Seed: 11, What: "a pair starts alone", Origin: "pair never starts alone",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if !state.Is(s.Pacemaker.Contact, true) && s.Proofs.Heard != s.Boot {
				claim(s, state.EtcdPair, state.EtcdSole)
			}
		},
	},
	{
		Name: "noelig", Seed: 200, What: "a voter is eligible as soon as it is promoted", Origin: "eligible by an acknowledged marker",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if state.Is(s.Pacemaker.Contact, false) && s.Record.Value.State == state.EtcdVoter {
				s.Record.Value.State, s.Proofs.Heard = state.EtcdPair, s.Boot
			}
		},
	},
	{
		Name: "nomarker", Seed: 1490, What: "the survivor believes every voter to be marked", Origin: "one key, acknowledged, before pair",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) { markAll(s) },
	},
	{
		Name: "startreal", Seed: 29, What: "a member starts while its peer takes over", Origin: "the real member stays stopped during a take-over",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if s.Statement.Value.Record.State == state.EtcdTakingOver {
				s.Statement.Value.Record.State = state.EtcdPair
			}
			s.Statement.Value.StandIn = state.Known(state.MemberID(0))
		},
	},
	{
		Name: "nowaiting", Seed: 1, What: "a stand-in votes for a peer in contact that has not promised to wait", Origin: "waiting: the peer has read the record",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if s.Statement.Known {
				s.Statement.Value.SeenSeq = s.Record.Value.Seq
				s.Statement.Value.Running = state.Known(false)
			}
		},
	},
	{
		Name: "wipe", Seed: 1367, What: "a returning copy is emptied although the peer's cluster lists it", Origin: "only what the living cluster does not list is emptied",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			own := s.Record.Value.Member
			s.Statement.Value.Members.Value = slices.DeleteFunc(slices.Clone(s.Statement.Value.Members.Value), func(m state.EtcdMember) bool { return m.ID == own && own < 3 })
			if s.Statement.Known && s.Statement.Value.Record.State == state.EtcdPair && s.Statement.Value.Leads && state.Is(s.Local.Running, false) {
				s.Statement.Value.Record.State = state.EtcdSole
			}
		},
	},
	{
		Name: "earlyyield", Seed: 1561, What: "a departing member may yield before the peer has read that it departs", Origin: "both stop: nobody leaves",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			// The wait of a leaving host makes the fault rare; only the peer's
			// answer makes leaving safe.
			s.Pacemaker.LeavingFor += etcdmember.LeaveSettle
			if s.Statement.Known && s.Record.Value.State == state.EtcdDeparting {
				s.Statement.Value.SeenSeq = s.Record.Value.Seq
				claimPeer(s, state.EtcdDeparting, state.EtcdPair)
			}
		},
	},
	{
		Name: "unknownisno", Seed: 6, What: "a fact that could not be found out counts as no", Origin: "unknown never acts",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			for _, f := range []*state.Fact[bool]{&s.Local.Running, &s.Pacemaker.Contact, &s.Statement.Value.Running} {
				f.Known = true
			}
			s.Statement.Value.Members.Known, s.Local.Members.Known = true, true
			s.Local.StandIn.Known, s.Statement.Value.StandIn.Known = true, true
		},
	},
}

// stallsOut lists the rules for a pair that commits nothing, each taken out.
var stallsOut = []Bug{
	{
		Name: "nostall", Seed: 136, What: "a pair without a leader waits for ever", Origin: "docs/facts/findings.md#two-nodes, B1: a filtered port or a disk that hangs stopped every write for as long as it lasted",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) { s.Local.Stalled = 0 },
	},
	{
		Name: "fullwaits", Seed: 2099, What: "a host whose disk is full is waited for", Origin: "a disk that is full stalls a pair, and its own clock of the stall begins anew with each start",
		verdict: forbid("equal.no-space-depart", "equal.no-space-yield", "follow.no-space"),
	},
	{
		Name: "fulldamage", Seed: 772, What: "starts that found the disk full speak against the data once there is room", Origin: "CI, random faults of seed 1, round 15",
		snapshot: func(w *world, i int, s *state.EtcdSnapshot) {
			if n := w.hosts[i].space.starts; n.Failed >= etcdhealth.MaxStarts && w.hosts[i].free() >= etcdhealth.LeastSpace && state.Is(s.Local.Running, false) && s.Data.Value.Copy == state.CopyWhole {
				s.Data.Value.Copy = state.CopyDamaged
			}
		},
	},
	{
		Name: "fullyields", Seed: 18526, What: "a host whose disk is full yields before its peer has read that it leaves", Origin: "the simulator: the peer's data were lost, or its disk was full, in the same second",
		verdict: func(_ *world, _ int, s *state.EtcdSnapshot, v *state.EtcdVerdict) {
			if v.Rule == "equal.no-space-depart" {
				v.Record.Yields = s.Record.Value.Member
			}
		},
	},
}

// holes lists cases that the first text of the protocol did not cover.
var holes = []Bug{
	{
		Name: "oldring", Seed: 324, What: "a statement from before the hosts met counts", Origin: "a statement counts only in the membership that it was composed in",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if s.Statement.Known {
				s.Statement.Value.Ring = s.Pacemaker.Ring
			}
		},
	},
	{Name: "anyorder", Seed: 53, What: "attributes are taken in the order in which they come", Origin: "a statement carries a serial number", anyOrder: true},
	{
		Name: "heardnone", Seed: 1832, What: "a peer without a record is heard as one that did not go on alone", Origin: "its lost disk may have been the survivor's",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if s.Statement.Known && s.Statement.Value.Record.State == state.EtcdNone && s.Statement.Value.Ring == s.Pacemaker.Ring {
				s.Proofs.Heard = s.Boot
			}
		},
		verdict: func(w *world, i int, s *state.EtcdSnapshot, _ *state.EtcdVerdict) { w.hosts[i].heard = s.Proofs.Heard },
	},
	{
		Name: "oldlearner", Seed: 5874, What: "a learner is dropped because the peer's last statement does not know it", Origin: "a member is given up by name",
		verdict: func(w *world, i int, s *state.EtcdSnapshot, v *state.EtcdVerdict) {
			dropStale(w.hosts[1-i].disk.id, s, v)
		},
	},
	{
		Name: "sameid", Seed: 787, What: "a learner id without a name is accepted, also one whose copy was lost", Origin: "a name is published late: a host remembers what it gave up",
		verdict: func(_ *world, _ int, s *state.EtcdSnapshot, v *state.EtcdVerdict) { acceptNameless(s, v) },
	},
	{
		Name: "emptystart", Seed: 1818, What: "a learner without a name is started from nothing, also where it ran before", Origin: "the first start is written down before it",
		verdict: func(_ *world, _ int, s *state.EtcdSnapshot, v *state.EtcdVerdict) { startNameless(s, v) },
	},
}

var historic = []Bug{
	{
		Name: "force-new", Seed: 11, What: "quorum is regained by forcing a new cluster", Origin: "the shell agent's way: entries above the stored commit index are thrown away",
		forceNew: true,
	},
	{
		Name: "revision-wins", Seed: 5, What: "both start: the older revision is emptied", Origin: "OCPBUGS-61117, #2157: sampled revisions decide",
		verdict: func(w *world, i int, s *state.EtcdSnapshot, v *state.EtcdVerdict) { revisionWins(w, i, s, v) },
	},
	{
		Name: "standalone-joins", Seed: 1, What: "a standalone voter that restarts before its peer is back joins as a learner", Origin: "OCPBUGS-77946",
		verdict: func(_ *world, _ int, s *state.EtcdSnapshot, v *state.EtcdVerdict) {
			if s.Record.Value.State == state.EtcdSole && v.Rule == "lead.start" {
				r := s.Record.Value
				r.State, r.Seq, r.Member = state.EtcdLearner, r.Seq+1, 0
				*v = state.EtcdVerdict{Action: state.EtcdWriteRecord, Rule: v.Rule, Record: &r}
			}
		},
	},
	{
		Name: "departed-wins", Seed: 1, What: "a departed member leads", Origin: "resource-agents #2204",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if state.Is(s.Pacemaker.Inert, true) || state.Is(s.Pacemaker.Contact, false) {
				claim(s, state.EtcdDeparting, state.EtcdSole)
			}
		},
	},
	{
		Name: "both-leave", Seed: 22, What: "both stop at once, and both give up their copies", Origin: "OCPBUGS-60098",
		verdict: func(_ *world, _ int, s *state.EtcdSnapshot, v *state.EtcdVerdict) { bothLeave(s, v) },
	},
	{
		Name: "crash-waits", Seed: 1, What: "a member whose etcd crashed waits for its peer", Origin: "OCPBUGS-59238",
		verdict: forbid("equal.start", "lead.start", "gone.sole-restarts", "take-over.start"),
	},
	{
		Name: "learner-lost", Seed: 1, What: "the reply to member add is lost and the learner is never used", Origin: "OCPBUGS-76278",
		verdict: forbid("follow.accept"),
	},
	{
		Name: "learner-stays", Seed: 10, What: "a stale learner is never removed", Origin: "OCPBUGS-78482",
		verdict: forbid("lead.drop-learner"),
	},
	{
		Name: "void", Seed: 562, What: "the evidence of a fence is void, since the peer may have joined unseen, and nobody fences again", Origin: "another fence is asked for",
		verdict: forbid("gone.fence-again"),
	},
	{
		Name: "no-data-is-older", Seed: 76, What: "a peer without data counts as older", Origin: "OCPBUGS-60273",
		verdict: func(_ *world, _ int, s *state.EtcdSnapshot, v *state.EtcdVerdict) {
			if v.Rule == "equal.peer-lost" {
				r := s.Record.Value
				r.State, r.Seq, r.TakeOver = state.EtcdTakingOver, r.Seq+1, state.EtcdTakeOver{ID: s.Nonce, Counter: 1}
				*v = state.EtcdVerdict{Action: state.EtcdWriteRecord, Rule: v.Rule, Record: &r}
			}
		},
	},
	{Name: "request-is-off", Seed: 314, What: "a fence counts once the BMC accepted the request", Origin: "fence-agents #253", trustsRequest: true},
	{Name: "lying-bmc", Seed: 314, What: "a BMC says Off while its host runs", Origin: "what the protocol cannot survive", liar: true},
}

func claimPeer(s *state.EtcdSnapshot, from, to state.EtcdState) {
	if s.Statement.Value.Record.State == from {
		s.Statement.Value.Record.State = to
	}
}

// markAll makes every voter look marked.
func markAll(s *state.EtcdSnapshot) {
	if !s.Statement.Known || !s.Local.Members.Known {
		return
	}
	s.Local.Members.Value = slices.Clone(s.Local.Members.Value)
	for i := range s.Local.Members.Value {
		m := &s.Local.Members.Value[i]
		switch m.ID {
		case s.Record.Value.Member:
			m.Marked = s.Record.Value.Seq
		case s.Statement.Value.Record.Member:
			m.Marked = s.Statement.Value.Record.Seq
		}
	}
}

// dropStale removes a learner that has started, because of an old statement.
func dropStale(started state.MemberID, s *state.EtcdSnapshot, v *state.EtcdVerdict) {
	if s.Record.Value.State != state.EtcdSole || v.Rule != "lead.wait" || s.Statement.Value.Record.Member != 0 {
		return
	}
	for _, m := range s.Local.Members.Value {
		if m.Learner && m.ID == started {
			*v = state.EtcdVerdict{Action: state.EtcdRemove, Rule: v.Rule, Member: m.ID}
		}
	}
}

// revisionWins empties the data directory with the shorter log when both hosts
// start.
func revisionWins(w *world, i int, s *state.EtcdSnapshot, v *state.EtcdVerdict) {
	mine, theirs := len(w.hosts[i].disk.log), len(w.hosts[1-i].disk.log)
	if v.Rule != "equal.start" || mine >= theirs && i == 0 || mine > theirs {
		return
	}
	r := s.Record.Value
	r.State, r.Seq, r.Member = state.EtcdLearner, r.Seq+1, 0
	*v = state.EtcdVerdict{Action: state.EtcdWriteRecord, Rule: v.Rule, Record: &r}
}

// bothLeave lets a host depart and yield without a look at the peer.
func bothLeave(s *state.EtcdSnapshot, v *state.EtcdVerdict) {
	r := s.Record.Value
	switch {
	case v.Rule == "leave.stop" && r.State == state.EtcdPair:
		r.State, r.Seq = state.EtcdDeparting, r.Seq+1
	case v.Rule == "leave.stopped" && r.State == state.EtcdDeparting && r.Yields == 0:
		r.Yields, r.Seq = r.Member, r.Seq+1
	default:
		return
	}
	*v = state.EtcdVerdict{Action: state.EtcdWriteRecord, Rule: v.Rule, Record: &r}
}
