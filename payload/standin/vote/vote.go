// Package vote is the stand-in's half of etcd's Raft protocol: a message of the
// survivor goes in, the answers that the fenced member would give come out. It
// stores nothing, and reads neither clock nor network, so each rule is a row of
// a table in its tests.
//
// One fact decides what a Voter may do. With exactly two voters each commit
// needed both disks, so the survivor's log holds every acknowledged write. An
// election with the fenced member's vote would have committed the rest of that
// log, too. Hence a Voter
//
//   - votes for the survivor only, never in a term below one it has seen,
//   - acknowledges only entries that it was shown, or that the survivor reports
//     as committed; at first it asks for all others, and looks at them,
//   - refuses for good where the log is shorter than it has been, or holds a
//     change of the membership that would change the meaning of its vote,
//   - never campaigns, leads, takes a snapshot or forwards anything.
package vote

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
)

// insistence is the number of times that the same append is rejected before it
// is accepted. A leader that keeps sending it cannot send less, because the
// fenced member itself acknowledged the entries before it.
const insistence = 3

// Config names the two members.
type Config struct {
	// Self is the fenced member, in whose name the Voter answers.
	Self uint64
	// Survivor is the only member that gets answers.
	Survivor uint64
	// Least is an index that the survivor's log is known to have reached, or
	// zero. A shorter log gets no vote.
	Least uint64
	// Nudge asks the survivor to campaign now instead of at its next timeout.
	Nudge bool
}

// Progress is what a Voter has learned.
type Progress struct {
	// Term is the highest term seen.
	Term uint64
	// Leading is true once the survivor leads in Term.
	Leading bool
	// Committing is true once the leading survivor has committed something new,
	// and thus takes writes.
	Committing bool
	// Answered is true once the survivor has answered a question of Ask.
	Answered bool
	// Last is the highest index acknowledged.
	Last uint64
	// Tail is the number of entries of earlier terms that were not known to be
	// committed, and that this vote made committed.
	Tail uint64
	// Unseen is true if the Voter acknowledged entries that it was not shown,
	// because the leader could not send them again.
	Unseen bool
}

// Refusal ends the stand-in: the survivor must not get this vote.
type Refusal struct {
	// Code is one of the constants below.
	Code string
	// Detail describes the observation.
	Detail string
}

// Codes of a Refusal.
const (
	// LogShort: the log ends before an index that it is known to have reached.
	LogShort = "log-lost-its-end"
	// Membership: the log holds a change of the membership that the vote must
	// not commit.
	Membership = "membership-change"
)

// Error returns the detail.
func (r *Refusal) Error() string { return r.Detail }

// Voter answers in the fenced member's name. It is not safe for several
// goroutines. The zero value is not usable; see New.
type Voter struct {
	cfg      Config
	seen     Progress
	lastTerm uint64
	first    uint64 // first commit index seen in the term that the survivor leads
	rejected uint64
	times    int
	refusal  *Refusal
}

// New returns a Voter that has seen nothing.
func New(cfg Config) *Voter { return &Voter{cfg: cfg} }

// Progress returns what the Voter has learned so far.
func (v *Voter) Progress() Progress { return v.seen }

// Raise raises the least index that the survivor's log must reach. It never
// lowers it.
func (v *Voter) Raise(index uint64) { v.cfg.Least = max(v.cfg.Least, index) }

// Ask returns a question that changes nothing: a request for a pre-vote in a
// term long past. The survivor answers it with its term in any state. An answer
// also proves that the survivor's messages reach us.
func (v *Voter) Ask() []raftpb.Message {
	if v.seen.Leading || v.refusal != nil || !v.cfg.Nudge {
		return nil
	}
	return []raftpb.Message{v.to(raftpb.MsgPreVote, 1)}
}

// Step answers one message. After the first error, a *Refusal, it answers
// nothing more and returns that error again.
func (v *Voter) Step(m raftpb.Message) ([]raftpb.Message, error) {
	if v.refusal != nil {
		return nil, v.refusal
	}
	if m.From != v.cfg.Survivor || m.To != v.cfg.Self || m.Term < v.seen.Term {
		return nil, nil
	}
	answers, refusal := v.answer(m)
	if refusal != nil {
		v.refusal = refusal
		return nil, refusal
	}
	return answers, nil
}

func (v *Voter) answer(m raftpb.Message) ([]raftpb.Message, *Refusal) {
	switch m.Type {
	case raftpb.MsgPreVote:
		return v.elect(m, raftpb.MsgPreVoteResp)
	case raftpb.MsgVote:
		v.enter(m.Term)
		return v.elect(m, raftpb.MsgVoteResp)
	case raftpb.MsgPreVoteResp:
		return v.heard(m), nil
	case raftpb.MsgApp:
		return v.append(m)
	case raftpb.MsgHeartbeat:
		v.led(m)
		reply := v.to(raftpb.MsgHeartbeatResp, m.Term)
		reply.Context = m.Context
		return []raftpb.Message{reply}, nil
	default:
		// A snapshot would have to be stored, and is never needed: a leader
		// keeps its log from the fenced member's last entry on. A member
		// without data cannot lead, forward a proposal or serve a read.
		return nil, nil
	}
}

// elect grants a vote or a pre-vote to a survivor whose log is whole.
func (v *Voter) elect(m raftpb.Message, reply raftpb.MessageType) ([]raftpb.Message, *Refusal) {
	if m.Index < v.cfg.Least {
		return nil, &Refusal{LogShort, fmt.Sprintf("the survivor's log ends at index %d, but is known to have reached %d", m.Index, v.cfg.Least)}
	}
	if m.Index < v.seen.Last || m.LogTerm < v.lastTerm {
		return nil, &Refusal{LogShort, fmt.Sprintf("the survivor's log ends at index %d of term %d, but index %d of term %d was acknowledged to it",
			m.Index, m.LogTerm, v.seen.Last, v.lastTerm)}
	}
	return []raftpb.Message{v.to(reply, m.Term)}, nil
}

// heard takes the survivor's answer to Ask. The nudge is two messages of which
// at most one has an effect. A survivor that has been without a leader for an
// election timeout has asked for a pre-vote that nobody received, and now gets
// it. A survivor that has not yet noticed is told not to wait: its timer only
// guesses that the leader is gone, and Raft is safe whenever it ends. Neither
// message claims that the fenced member leads.
func (v *Voter) heard(m raftpb.Message) []raftpb.Message {
	v.seen.Answered = true
	v.enter(m.Term)
	if v.seen.Leading || !v.cfg.Nudge {
		return nil
	}
	return []raftpb.Message{
		v.to(raftpb.MsgPreVoteResp, m.Term+1),
		v.to(raftpb.MsgTimeoutNow, m.Term),
	}
}

// append acknowledges entries, or asks for those before them.
func (v *Voter) append(m raftpb.Message) ([]raftpb.Message, *Refusal) {
	if refusal := v.inspect(m.Entries); refusal != nil {
		return nil, refusal
	}
	v.led(m)
	known := max(m.Commit, v.seen.Last)
	reply := v.to(raftpb.MsgAppResp, m.Term)
	if m.Index > known && !v.insists(m.Index) {
		reply.Reject, reply.Index, reply.RejectHint = true, m.Index, known
		return []raftpb.Message{reply}, nil
	}
	v.seen.Unseen = v.seen.Unseen || m.Index > known
	reply.Index = m.Index + uint64(len(m.Entries))
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Term < m.Term && e.Index > known {
			v.seen.Tail++
		}
	}
	v.advance(reply.Index, m)
	return []raftpb.Message{reply}, nil
}

// insists reports whether the leader keeps sending an append although it was
// told that the entries before it are missing.
func (v *Voter) insists(index uint64) bool {
	if v.rejected != index {
		v.rejected, v.times = index, 0
	}
	v.times++
	return v.times > insistence
}

func (v *Voter) advance(index uint64, m raftpb.Message) {
	if index < v.seen.Last {
		return
	}
	v.seen.Last, v.lastTerm = index, m.LogTerm
	if n := len(m.Entries); n > 0 {
		v.lastTerm = m.Entries[n-1].Term
	}
}

// led records that the survivor leads in a term, and whether it commits.
func (v *Voter) led(m raftpb.Message) {
	v.enter(m.Term)
	if !v.seen.Leading {
		v.seen.Leading, v.first = true, m.Commit
	}
	own := m.Type == raftpb.MsgApp && m.LogTerm == m.Term && m.Index <= m.Commit
	v.seen.Committing = v.seen.Committing || own || (m.Type == raftpb.MsgApp && m.Commit > v.first)
}

func (v *Voter) enter(term uint64) {
	if term > v.seen.Term {
		v.seen.Term, v.seen.Leading, v.seen.Committing = term, false, false
	}
}

// inspect searches for changes of the membership that the vote must not commit.
func (v *Voter) inspect(entries []raftpb.Entry) *Refusal {
	for i := range entries {
		if why := v.forbidden(&entries[i]); why != "" {
			return &Refusal{Membership, fmt.Sprintf("entry %d of the survivor's log %s", entries[i].Index, why)}
		}
	}
	return nil
}

// forbidden returns what is wrong with an entry, or nothing.
func (v *Voter) forbidden(e *raftpb.Entry) string {
	switch e.Type {
	case raftpb.EntryNormal:
		return ""
	case raftpb.EntryConfChangeV2:
		return "changes several members at once, which this version of etcd does not do"
	case raftpb.EntryConfChange:
	}
	var change raftpb.ConfChange
	if err := change.Unmarshal(e.Data); err != nil {
		return "is a change of the membership that cannot be read"
	}
	switch change.Type {
	case raftpb.ConfChangeAddLearnerNode, raftpb.ConfChangeUpdateNode:
		return ""
	case raftpb.ConfChangeRemoveNode:
		if change.NodeID == v.cfg.Survivor {
			return "removes the survivor: it was leaving"
		}
		return ""
	case raftpb.ConfChangeAddNode:
		return fmt.Sprintf("makes member %x a voter", change.NodeID)
	default:
		return "changes the membership in an unknown way"
	}
}

func (v *Voter) to(kind raftpb.MessageType, term uint64) raftpb.Message {
	return raftpb.Message{Type: kind, From: v.cfg.Self, To: v.cfg.Survivor, Term: term}
}
