package sim

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

type kind uint8

const (
	noop kind = iota
	write
	addLearner
	promote
	remove
	marker
	name // a member reports its name, once it serves
)

// entry is one entry of a log.
type entry struct {
	term uint64
	kind kind
	id   state.MemberID // of a membership change or a marker
	arg  uint64         // number of a write, sequence of a marker
}

type role uint8

const (
	follower role = iota
	candidate
	leader
)

type member struct {
	id      state.MemberID
	learner bool
	named   bool
	marked  uint64
}

// disk holds what survives a power cut.
type disk struct {
	record state.EtcdRecord
	// recordLost is set if the file cannot be read.
	copy    state.CopyState
	cluster state.MemberID
	id      state.MemberID
	log     []entry
	synced  int // entries that survive a power cut
	commit  int // the stored commit index
	term    uint64
	vote    state.MemberID
}

// process is a running etcd.
type process struct {
	running   bool
	frozen    time.Duration // until
	progress  time.Duration // time at which it last received what a commit needs
	role      role
	leaderID  state.MemberID
	commit    int
	members   []member
	changed   int // index of the last membership change in the log
	match     int // of the other member
	next      int
	matchID   state.MemberID // member that match belongs to
	lastHeard time.Duration  // last message of a leader, or, as a leader, of the other
	since     time.Duration  // without a leader since
}

type msgKind uint8

const (
	msgVote msgKind = iota
	msgVoteYes
	msgAppend
	msgAppendYes
	msgAppendNo
	msgBeat
	msgTermUp
	msgTimeoutNow
	msgName
)

type msg struct {
	kind     msgKind
	from, to int
	fromID   state.MemberID
	toID     state.MemberID
	term     uint64
	index    int
	logTerm  uint64
	commit   int
	entries  []entry
}

const electionTimeout = 4 * time.Second

func (h *host) last() int { return len(h.disk.log) }
func (h *host) termAt(i int) uint64 {
	if i <= 0 || i > len(h.disk.log) {
		return 0
	}
	return h.disk.log[i-1].term
}

func (h *host) find(id state.MemberID) (member, bool) {
	for _, m := range h.members {
		if m.id == id {
			return m, true
		}
	}
	return member{}, false
}

func (h *host) isVoter() bool { m, ok := h.find(h.disk.id); return ok && !m.learner }

// other returns the other voter or learner, and false if there is none.
func (h *host) other() (member, bool) {
	var found member
	for _, m := range h.members {
		if m.id != h.disk.id && (found.id == 0 || !m.learner) {
			found = m
		}
	}
	return found, found.id != 0
}

func voters(members []member) (n int) {
	for _, m := range members {
		if !m.learner {
			n++
		}
	}
	return n
}

// applied returns the membership after an entry; it does not change members.
func applied(members []member, e entry) []member {
	switch e.kind {
	case addLearner:
		return append(slices.Clone(members), member{id: e.id, learner: true})
	case remove:
		return slices.DeleteFunc(slices.Clone(members), func(m member) bool { return m.id == e.id })
	case promote, marker, name:
		out := slices.Clone(members)
		for i := range out {
			switch {
			case out[i].id != e.id:
			case e.kind == promote:
				out[i].learner = false
			case e.kind == name:
				out[i].named = true
			default:
				out[i].marked = e.arg
			}
		}
		return out
	case noop, write:
	}
	return members
}

func (w *world) confAt(log []entry, commit int) []member {
	members := w.genesis
	for _, e := range log[:commit] {
		members = applied(members, e)
	}
	return members
}

// send puts a message into the network. The stand-in's answers do not go
// through it.
func (w *world) send(m msg) {
	if len(w.msgs) >= 24 {
		w.msgs = slices.Delete(w.msgs, 0, 1)
	}
	w.msgs = append(w.msgs, m)
}

func (w *world) campaign(i int) {
	h := &w.hosts[i]
	if !h.running || !h.isVoter() || h.role == leader {
		return
	}
	h.disk.term++
	h.disk.vote = h.disk.id
	h.role, h.leaderID = candidate, 0
	w.trace(i, "campaigns at term %d", h.disk.term)
	o, ok := h.other()
	switch {
	case voters(h.members) == 1:
		w.lead(i)
	case ok && !o.learner:
		w.send(msg{kind: msgVote, from: i, to: 1 - i, fromID: h.disk.id, toID: o.id, term: h.disk.term, index: h.last(), logTerm: h.termAt(h.last())})
	}
}

func (w *world) lead(i int) {
	h := &w.hosts[i]
	h.role, h.leaderID, h.match, h.next, h.matchID = leader, h.disk.id, 0, h.last(), 0
	h.lastHeard = w.now
	h.changed = h.last()
	w.trace(i, "leads at term %d", h.disk.term)
	w.propose(i, entry{kind: noop})
}

// propose appends an entry to the leader's log, which is not synced yet.
func (w *world) propose(i int, e entry) {
	h := &w.hosts[i]
	e.term = h.disk.term
	h.disk.log = append(h.disk.log, e)
	if e.kind == addLearner || e.kind == promote || e.kind == remove {
		h.changed = h.last()
	}
}

// sync makes the log durable, and with it the known commit index.
func (w *world) sync(i int) {
	h := &w.hosts[i]
	if h.disk.synced < h.last() {
		h.disk.synced = h.last()
		h.disk.commit = max(h.disk.commit, h.commit)
	}
	w.advance(i)
}

// advance moves the leader's commit index. An entry is committed as soon as a
// quorum of the applied membership holds it, even behind a membership change:
// etcd applies such a change only after it is committed, so a survivor that
// promotes its peer may acknowledge a little more alone.
func (w *world) advance(i int) {
	h := &w.hosts[i]
	for h.running && h.role == leader && h.commit < h.last() {
		k := h.quorumIndex()
		if k <= h.commit {
			return
		}
		w.commitTo(i, k)
	}
}

// quorumIndex returns the highest index that a quorum holds, or zero if that
// entry is of an older term.
func (h *host) quorumIndex() int {
	mine := 0
	if h.isVoter() {
		mine = h.disk.synced
	}
	k := mine
	if o, ok := h.other(); ok && !o.learner {
		theirs := 0
		if h.matchID == o.id {
			theirs = h.match
		}
		k = min(mine, theirs)
	}
	if h.termAt(k) != h.disk.term {
		return 0
	}
	return k
}

func (w *world) commitTo(i, k int) {
	h := &w.hosts[i]
	for h.commit < k {
		e := h.disk.log[h.commit]
		h.commit++
		h.members = applied(h.members, e)
		w.committed(i, h.commit, e)
		if e.kind == remove && e.id == h.matchID {
			h.matchID, h.match = 0, 0
		}
	}
}

// replicate sends the other member the missing entries, or a heartbeat.
func (w *world) replicate(i int) {
	h := &w.hosts[i]
	o, ok := h.other()
	if !ok || h.role != leader {
		return
	}
	if h.matchID != o.id {
		h.matchID, h.match, h.next = o.id, 0, h.last()
	}
	if w.rng.IntN(3) == 0 {
		w.send(msg{kind: msgBeat, from: i, to: 1 - i, fromID: h.disk.id, toID: o.id, term: h.disk.term, commit: min(h.match, h.commit)})
		return
	}
	n := min(h.next, h.last())
	entries := h.disk.log[n:]
	if w.rng.IntN(2) == 0 && len(entries) > 2 { // only a part
		entries = entries[:len(entries)/2]
	}
	w.send(msg{
		kind: msgAppend, from: i, to: 1 - i, fromID: h.disk.id, toID: o.id, term: h.disk.term,
		index: n, logTerm: h.termAt(n), commit: h.commit, entries: slices.Clone(entries),
	})
}

// standInAnswers plays the stand-in: it votes yes, acknowledges everything, and
// stores nothing.
func (w *world) standInAnswers(i int) {
	h := &w.hosts[i]
	o, ok := h.other()
	if !ok || o.learner || h.standIn != o.id || !h.running || h.frozen > w.now || h.hung {
		return
	}
	switch h.role {
	case candidate:
		w.lead(i)
	case leader:
		h.matchID, h.match, h.lastHeard, h.progress = o.id, h.last(), w.now, w.now
		w.advance(i)
	case follower:
		w.campaign(i) // nudged
	}
}

func (w *world) deliver(m msg) {
	h := &w.hosts[m.to]
	if w.cut[m.from][m.to] || w.filtered[m.from][m.to] || !h.power || !h.running || h.frozen > w.now || h.hung || h.disk.id != m.toID || !w.hosts[m.from].power {
		return
	}
	if m.term > h.disk.term && (m.kind != msgVote || !w.leased(m.to)) {
		h.disk.term, h.disk.vote, h.role, h.leaderID = m.term, 0, follower, 0
		h.since = w.now
	}
	switch m.kind {
	case msgVote:
		w.onVote(m)
	case msgAppend, msgBeat:
		w.onAppend(m)
	case msgVoteYes:
		if h.role == candidate && m.term == h.disk.term {
			w.lead(m.to)
		}
	case msgAppendYes, msgAppendNo:
		w.onReply(m)
	case msgTermUp:
	case msgTimeoutNow:
		if m.term == h.disk.term {
			w.campaign(m.to)
		}
	case msgName:
		w.onName(m)
	}
}

// leased reports whether a member recently received a message from its leader
// and therefore ignores candidates.
func (w *world) leased(i int) bool {
	h := &w.hosts[i]
	return h.leaderID != 0 && w.now-h.lastHeard < electionTimeout && w.rng.IntN(4) != 0
}

func (w *world) onVote(m msg) {
	h := &w.hosts[m.to]
	if m.term < h.disk.term || m.term != h.disk.term {
		w.send(msg{kind: msgTermUp, from: m.to, to: m.from, fromID: h.disk.id, toID: m.fromID, term: h.disk.term})
		return
	}
	upToDate := m.logTerm > h.termAt(h.last()) || m.logTerm == h.termAt(h.last()) && m.index >= h.last()
	if upToDate && (h.disk.vote == 0 || h.disk.vote == m.fromID) {
		h.disk.vote = m.fromID
		w.send(msg{kind: msgVoteYes, from: m.to, to: m.from, fromID: h.disk.id, toID: m.fromID, term: h.disk.term})
	}
}

func (w *world) onAppend(m msg) {
	h := &w.hosts[m.to]
	reply := msg{kind: msgAppendYes, from: m.to, to: m.from, fromID: h.disk.id, toID: m.fromID, term: h.disk.term}
	if m.term < h.disk.term {
		reply.kind = msgTermUp
		w.send(reply)
		return
	}
	h.role, h.leaderID, h.lastHeard, h.progress = follower, m.fromID, w.now, w.now
	if m.kind == msgBeat {
		if m.commit > h.last() {
			w.fail("I1", "host %d: tocommit(%d) is out of range [lastIndex(%d)]: a leader counted acknowledgements that this member never gave", m.to, m.commit, h.last())
			return
		}
		w.commitTo(m.to, max(h.commit, m.commit))
		reply.index = -1
		w.send(reply)
		return
	}
	if m.index > h.last() || h.termAt(m.index) != m.logTerm {
		reply.kind, reply.index = msgAppendNo, min(m.index-1, h.last())
		w.send(reply)
		return
	}
	w.store(m)
	if w.failure != nil {
		return
	}
	reply.index = m.index + len(m.entries)
	w.commitTo(m.to, max(h.commit, min(m.commit, reply.index)))
	w.send(reply)
	if len(m.entries) > 0 && w.joining(m.to) {
		w.strike(m.to)
	}
}

// store appends the leader's entries, after it has cut those that contradict
// them.
func (w *world) store(m msg) {
	h := &w.hosts[m.to]
	for k, e := range m.entries {
		at := m.index + k
		if at < h.last() && h.disk.log[at].term == e.term {
			continue
		}
		if at < h.commit {
			w.fail("I2", "host %d would cut entry %d, which it committed", m.to, at+1)
			return
		}
		h.disk.log = append(h.disk.log[:at:at], m.entries[k:]...)
		h.disk.synced = h.last()
		h.disk.commit = max(h.disk.commit, h.commit)
		return
	}
}

func (w *world) onReply(m msg) {
	h := &w.hosts[m.to]
	if h.role != leader || m.term != h.disk.term || m.fromID != h.matchID {
		return
	}
	h.lastHeard, h.progress = w.now, w.now
	switch {
	case m.kind == msgAppendNo:
		h.next = max(0, min(m.index, h.last()))
		h.next = max(h.next, h.match)
	case m.index > h.match:
		h.match, h.next = m.index, m.index
		w.advance(m.to)
	}
}
