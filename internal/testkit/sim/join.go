package sim

import "github.com/holdfast/holdfast/internal/model/state"

// tellName lets a serving member report its name to its leader, as etcd does
// after each start. Until that entry is committed, and known to the leader's
// host, the member looks as if it had never started.
func (w *world) tellName(i int) {
	h := w.at(i)
	m, listed := h.find(h.disk.id)
	to, known := h.find(h.leaderID)
	switch {
	case !listed || m.named || h.leaderID == 0:
	case h.role == leader:
		w.propose(i, entry{kind: name, id: m.id})
	case w.trio != nil && !known:
	default:
		w.send(msg{kind: msgName, from: i, to: w.placeOf(i, to), fromID: h.disk.id, toID: h.leaderID, term: h.disk.term})
	}
}

func (w *world) onName(m msg) {
	if w.at(m.to).role == leader {
		w.propose(m.to, entry{kind: name, id: m.fromID})
	}
}

// joining reports whether a host is becoming a voter again.
func (w *world) joining(i int) bool {
	return i < third && w.hosts[i].disk.record.State == state.EtcdLearner
}

// rejoins reports whether a host whose data directory was destroyed before may
// lose the next one: it is rejoining a survivor that holds everything.
func (w *world) rejoins(i int) bool {
	return !w.lost && w.joining(i) && w.holds(1-i) && w.hosts[1-i].disk.record.State == state.EtcdSole
}

// loseCopy destroys the data directory and leaves the record. Either etcd
// refuses the rest, or the folder is gone.
func (w *world) loseCopy(i int, folder bool) {
	w.hosts[i].hung = false // a destroyed disk no longer hangs
	w.crash(i)
	d := &w.hosts[i].disk
	if !folder {
		w.trace(i, "FAULT its copy is damaged")
		d.copy = state.CopyDamaged
		return
	}
	w.trace(i, "FAULT its copy is gone")
	w.forget(i)
}

// forget empties the data directory completely.
func (w *world) forget(i int) {
	d := &w.hosts[i].disk
	d.copy, d.id, d.log, d.synced, d.commit, d.term, d.vote = state.CopyNone, 0, nil, 0, 0, 0, 0
	w.makeRoom(i)
}

// nameless returns the learner that the peer lists and that has no name.
func nameless(s *state.EtcdSnapshot) state.MemberID {
	for _, m := range s.Statement.Value.Members.Value {
		if m.Learner && m.Name == "" {
			return m.ID
		}
	}
	return 0
}

// acceptNameless accepts any learner that looks as if it had never started.
func acceptNameless(s *state.EtcdSnapshot, v *state.EtcdVerdict) {
	id := nameless(s)
	if id == 0 || v.Rule != "follow.await" && v.Rule != "follow.disown" {
		return
	}
	r := s.Record.Value
	r.State, r.Seq, r.Member, r.Yields = state.EtcdLearner, r.Seq+1, id, s.Statement.Value.Record.Member
	*v = state.EtcdVerdict{Action: state.EtcdWriteRecord, Rule: v.Rule, Record: &r}
}

// startNameless starts the record's member with an empty data directory as long
// as it has no name.
func startNameless(s *state.EtcdSnapshot, v *state.EtcdVerdict) {
	if v.Rule == "follow.lost-copy" && s.Data.Value.Copy == state.CopyNone && nameless(s) == s.Record.Value.Member {
		*v = state.EtcdVerdict{Action: state.EtcdStart, Rule: v.Rule}
	}
}

// overruled ends the schedule if a host acts on its old record although an
// administrator overruled it while it was off, before it has learned of that.
// The hosts lost contact in the moment in which they met; the administrator was
// told not to start this host alone.
func (w *world) overruled(i int, v state.EtcdVerdict) {
	h := &w.hosts[i]
	mine, theirs := h.disk.record, w.hosts[1-i].disk.record
	acts := v.Action == state.EtcdStart || v.Action == state.EtcdWriteRecord
	if acts && !h.contact && mine.State.Leads() && mine.Forced.Who == "" && theirs.Forced.Who != "" {
		w.ignored = true
	}
}
