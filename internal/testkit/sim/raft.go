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
	arg  uint64         // number of a write, sequence of a marker, place of a learner
}

type role uint8

const (
	follower role = iota
	candidate
	leader
)

type member struct {
	id      state.MemberID
	at      int // its place
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
	changed   int            // index of the last membership change in the log
	follows   [places]follow // as a leader, what it knows of the others
	lastHeard time.Duration  // last message of a leader, or, as a leader, of the other
	since     time.Duration  // without a leader since
}

// follow is what a leader knows of the log of another member.
type follow struct {
	id          state.MemberID
	match, next int
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

// other returns the other host's voter or learner, and false if there is none.
func (h *host) other() (member, bool) {
	var found member
	for _, m := range h.members {
		if m.id != h.disk.id && m.at != third && (found.id == 0 || !m.learner) {
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
		return append(slices.Clone(members), member{id: e.id, at: int(e.arg), learner: true})
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
	h := w.at(i)
	if !h.running || !h.isVoter() || h.role == leader {
		return
	}
	h.disk.term++
	h.disk.vote = h.disk.id
	h.role, h.leaderID = candidate, 0
	w.trace(i, "campaigns at term %d", h.disk.term)
	if voters(h.members) == 1 {
		w.lead(i)
		return
	}
	for _, o := range w.others(i) {
		if !o.learner {
			w.send(msg{kind: msgVote, from: i, to: w.placeOf(i, o), fromID: h.disk.id, toID: o.id, term: h.disk.term, index: h.last(), logTerm: h.termAt(h.last())})
		}
	}
}

func (w *world) lead(i int) {
	h := w.at(i)
	h.role, h.leaderID = leader, h.disk.id
	for k := range h.follows {
		h.follows[k] = follow{next: h.last()}
	}
	h.lastHeard = w.now
	h.changed = h.last()
	w.trace(i, "leads at term %d", h.disk.term)
	w.propose(i, entry{kind: noop})
}

// propose appends an entry to the leader's log, which is not synced yet.
func (w *world) propose(i int, e entry) {
	h := w.at(i)
	e.term = h.disk.term
	h.disk.log = append(h.disk.log, e)
	if e.kind == addLearner || e.kind == promote || e.kind == remove {
		h.changed = h.last()
	}
}

// sync makes the log durable, and with it the known commit index.
func (w *world) sync(i int) {
	h := w.at(i)
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
	h := w.at(i)
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
	var at []int
	for _, m := range h.members {
		if !m.learner && m.id != h.disk.id {
			at = append(at, h.matchOf(m.id))
		}
	}
	mine := 0 // a leader that is no voter commits only what all others hold
	if h.isVoter() {
		mine = h.disk.synced
	}
	at = append(at, mine)
	slices.Sort(at)
	k := at[(len(at)-1)/2]
	if h.termAt(k) != h.disk.term {
		return 0
	}
	return k
}

// matchOf returns how much of the log a member is known to hold.
func (h *host) matchOf(id state.MemberID) int { f, _ := h.followed(id); return f.match }

func (h *host) followed(id state.MemberID) (follow, bool) {
	for _, f := range h.follows {
		if f.id == id {
			return f, true
		}
	}
	return follow{}, false
}

func (h *host) hasLearner() bool {
	return slices.ContainsFunc(h.members, func(m member) bool { return m.learner })
}

func (w *world) commitTo(i, k int) {
	h := w.at(i)
	for h.commit < k {
		e := h.disk.log[h.commit]
		h.commit++
		h.members = applied(h.members, e)
		w.committed(i, h.commit, e)
		for k := range h.follows {
			if f := &h.follows[k]; e.kind == remove && e.id == f.id {
				f.id, f.match = 0, 0
			}
		}
	}
	w.leftBehind(i)
}

// replicate sends one of the others the missing entries, or a heartbeat.
func (w *world) replicate(i int) {
	h := w.at(i)
	all := w.others(i)
	if len(all) == 0 || h.role != leader {
		return
	}
	o := all[0]
	if len(all) > 1 {
		o = all[w.rng.IntN(len(all))]
	}
	to := w.placeOf(i, o)
	f := &h.follows[to]
	if f.id != o.id {
		*f = follow{o.id, 0, h.last()}
	}
	if w.rng.IntN(3) == 0 {
		w.send(msg{kind: msgBeat, from: i, to: to, fromID: h.disk.id, toID: o.id, term: h.disk.term, commit: min(f.match, h.commit)})
		return
	}
	n := min(f.next, h.last())
	entries := h.disk.log[n:]
	if w.rng.IntN(2) == 0 && len(entries) > 2 { // only a part
		entries = entries[:len(entries)/2]
	}
	w.send(msg{
		kind: msgAppend, from: i, to: to, fromID: h.disk.id, toID: o.id, term: h.disk.term,
		index: n, logTerm: h.termAt(n), commit: h.commit, entries: slices.Clone(entries),
	})
}

// standInAnswers plays the stand-in: it votes yes, acknowledges everything, and
// stores nothing.
func (w *world) standInAnswers(i int) {
	h := w.at(i)
	o, ok := h.other()
	if !ok || o.learner || h.standIn != o.id || !h.running || h.frozen > w.now || h.hung {
		return
	}
	switch h.role {
	case candidate:
		w.lead(i)
	case leader:
		f := &h.follows[1-i]
		f.id, f.match, h.lastHeard, h.progress = o.id, h.last(), w.now, w.now
		w.advance(i)
	case follower:
		w.campaign(i) // nudged
	}
}

func (w *world) deliver(m msg) {
	h := w.at(m.to)
	if w.cut[m.from][m.to] || w.filtered[m.from][m.to] || !h.power || !h.running || h.frozen > w.now || h.hung || h.disk.id != m.toID || !w.at(m.from).power || w.expelled(m) {
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
		if v, listed := h.find(m.fromID); h.role == candidate && m.term == h.disk.term && listed && !v.learner { // of three, too, two are enough
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
	h := w.at(i)
	return h.leaderID != 0 && w.now-h.lastHeard < electionTimeout && w.rng.IntN(4) != 0
}

func (w *world) onVote(m msg) {
	h := w.at(m.to)
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
	h := w.at(m.to)
	reply := msg{kind: msgAppendYes, from: m.to, to: m.from, fromID: h.disk.id, toID: m.fromID, term: h.disk.term}
	if m.term < h.disk.term {
		reply.kind = msgTermUp
		w.send(reply)
		return
	}
	h.role, h.leaderID, h.lastHeard, h.progress = follower, m.fromID, w.now, w.now
	if m.kind == msgBeat {
		if m.commit > h.last() {
			if w.panics(m.to) {
				return
			}
			w.fail("I1", "host %d: tocommit(%d) is out of range [lastIndex(%d)]: a leader counted acknowledgements that this member never gave", m.to, m.commit, h.last())
			return
		}
		w.commitTo(m.to, max(h.commit, m.commit))
		reply.index = -1
		w.send(reply)
		return
	}
	if m.index > h.last() || h.termAt(m.index) != m.logTerm {
		reply.kind, reply.index = msgAppendNo, w.hint(m)
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

// hint is the index from which a leader goes on after a refusal. Of three members one may be far apart,
// so the terms are skipped at once, as etcd does.
func (w *world) hint(m msg) int {
	h := w.at(m.to)
	k := min(m.index-1, h.last())
	for w.trio != nil && k > h.commit && h.termAt(k) > m.logTerm {
		k--
	}
	return k
}

// store appends the leader's entries, after it has cut those that contradict
// them.
func (w *world) store(m msg) {
	h := w.at(m.to)
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
	h := w.at(m.to)
	f := &h.follows[m.from]
	if h.role != leader || m.term != h.disk.term || m.fromID != f.id {
		return
	}
	if o, _ := h.find(m.fromID); !o.learner || voters(h.members) == 1 { // a learner makes no quorum
		h.lastHeard, h.progress = w.now, w.now
	}
	switch {
	case m.kind == msgAppendNo:
		f.next = max(0, min(m.index, h.last()))
		f.next = max(f.next, f.match)
	case m.index > f.match:
		f.match, f.next = m.index, m.index
		w.advance(m.to)
	}
}
