package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

var names = [2]string{"alpha", "beta"}

// snapshot returns the facts that the etcd keeper of a host can observe.
func (w *world) snapshot(i int) state.EtcdSnapshot {
	h := &w.hosts[i]
	s := state.EtcdSnapshot{
		Host: w.name(i), Peer: w.peerName(i), Boot: h.bootName(), Uptime: w.uptime(i),
		Now:    time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Add(w.now + h.wall),
		Record: state.Known(h.disk.record),
		Data:   state.Known(w.data(i)),
		Pacemaker: state.EtcdPacemaker{
			Inert: state.Known(h.inert), Contact: state.Known(h.contact), Ring: h.ring,
			Joined: h.joined, Unseen: h.unseen, Leaving: h.leaving,
		},
		Statement: w.heardBy(i),
		Proofs:    state.EtcdProofs{Heard: h.heard, Fenced: h.fenced, Human: h.human},
	}
	if s.Record.Value.State.Leads() || s.Record.Value.State == state.EtcdPair {
		s.Nonce = fmt.Sprint("t", w.step)
	} else {
		s.Nonce = "t"
	}
	if h.leaving {
		s.Pacemaker.LeavingFor = w.now - h.leavingAt
	}
	s.Local = w.local(i)
	if h.inert {
		s.Proofs.Power = w.powerOfPeer(i)
	}
	w.blur(&s)
	w.observeSeat(i, &s)
	w.observeTrio(i, &s)
	return s
}

// heardBy returns the peer's statement with its age.
func (w *world) heardBy(i int) state.Fact[state.EtcdStatement] {
	out := w.hosts[i].inbox
	out.Value.Age = w.now - w.hosts[i].inboxAt
	return out
}

// blur makes facts unknown, as timeouts do.
func (w *world) blur(s *state.EtcdSnapshot) {
	if w.calm || w.rng.IntN(8) != 0 {
		return
	}
	switch w.rng.IntN(6) {
	case 0:
		s.Local.Running = state.Fact[bool]{}
	case 1:
		s.Local.Members = state.Fact[[]state.EtcdMember]{}
	case 2:
		s.Local.Leader = state.Fact[state.MemberID]{}
	case 3:
		s.Data = state.Fact[state.EtcdData]{}
	case 4:
		s.Pacemaker.Contact = state.Fact[bool]{}
	case 5:
		s.Local.StandIn = state.Fact[state.MemberID]{}
	}
}

func (w *world) data(i int) state.EtcdData {
	d := &w.hosts[i].disk
	out := state.EtcdData{Copy: d.copy}
	if d.copy == state.CopyWhole {
		out.Cluster, out.Member = d.cluster, d.id
		if !w.hosts[i].running {
			out.Members = w.list(i, w.confAt(d.log, min(d.commit, len(d.log))))
		}
	}
	w.judge(i, &out)
	return out
}

// list returns members as the etcd of a host tells them.
func (w *world) list(i int, members []member) []state.EtcdMember {
	out := make([]state.EtcdMember, 0, 2)
	for _, m := range members {
		e := state.EtcdMember{ID: m.id, Learner: m.learner, Marked: m.marked, InSync: m.learner && w.inSync(i, m)}
		if m.named {
			e.Name = w.memberName(m)
		}
		out = append(out, e)
	}
	return out
}

func (w *world) local(i int) state.EtcdLocal {
	h := &w.hosts[i]
	out := state.EtcdLocal{Running: state.Known(h.running), StandIn: state.Known(h.standIn)}
	if h.running {
		h.stalled = w.now - h.progress
		if h.stalled < noticed {
			h.stalled = 0
		}
	}
	out.Stalled = h.stalled
	if h.lies == plaintive && h.stalled > 0 || h.lies == honest && h.hung && h.stalled > selfTest {
		out.Sick = "its disk hangs"
	}
	if !h.running || h.frozen > w.now {
		if h.running {
			out.Running = state.Fact[bool]{}
		}
		return out
	}
	out.Members = state.Known(w.list(i, h.members))
	out.Leader = state.Known(h.leaderID)
	if h.leaderID == 0 {
		out.Leaderless = w.now - h.since
	}
	return out
}

// inSync reports whether a leader finds that a learner lacks little: etcd's own rule is 90 %.
func (w *world) inSync(i int, m member) bool {
	h := &w.hosts[i]
	f := h.follows[w.placeOf(i, m)]
	return h.running && h.role == leader && f.match > 0 && f.match*10 >= h.commit*9
}

// The time until a host notices that nothing is committed, and the time until
// its own tests show that its disk hangs.
const (
	noticed  = 4 * time.Second
	selfTest = 12 * time.Second
)

func (w *world) powerState(target int) state.Fact[string] {
	t := &w.hosts[target]
	switch {
	case t.bmc == bmcMute:
		return state.Fact[string]{}
	case t.bmc == bmcLies:
		return state.Known(state.PowerOff)
	case t.sticks > w.now:
		return state.Known("PoweringOff")
	case t.power:
		return state.Known("On")
	}
	return state.Known(state.PowerOff)
}

// observe is the first half of the etcd keeper's loop: it gathers facts,
// publishes the statement, and decides. It publishes nothing again before the
// decision is carried out.
func (w *world) observe(i int) {
	h := &w.hosts[i]
	s := w.snapshot(i)
	if b := w.opt.Bug; b != nil && b.snapshot != nil {
		b.snapshot(w, i, &s)
	}
	if etcdmember.Hears(s) {
		h.heard = s.Boot
	}
	w.publish(i, s)
	verdict := etcdmember.Decide(s)
	if b := w.opt.Bug; b != nil && b.verdict != nil {
		b.verdict(w, i, &s, &verdict)
	}
	if w.opt.Trace && (verdict.Rule != h.verdict.Rule || verdict.Action == state.EtcdWriteRecord) {
		w.trace(i, "%s: %s (%s)", verdict.Rule, verdict.Action, verdict.Reason)
	}
	h.verdict, h.decidedIn = verdict, h.ring
	h.pending = &verdict
}

func (w *world) publish(i int, s state.EtcdSnapshot) {
	h := &w.hosts[i]
	stmt := etcdmember.Statement(s)
	h.serial++
	stmt.Serial = h.serial
	h.published = state.Known(stmt)
	if len(w.attrs) >= 8 {
		w.attrs = slices.Delete(w.attrs, 0, 1)
	}
	w.attrs = append(w.attrs, attribute{1 - i, stmt})
}

// receive delivers one attribute. Of one boot it keeps the newest.
func (w *world) receive(a attribute) {
	h := &w.hosts[a.to]
	if !h.power || !h.contact || !w.linked() || !w.hosts[1-a.to].power {
		return
	}
	old := h.inbox
	newer := !old.Known || a.stmt.Boot != old.Value.Boot && a.stmt.Ring >= old.Value.Ring || a.stmt.Boot == old.Value.Boot && a.stmt.Serial > old.Value.Serial
	if newer || w.opt.Bug != nil && w.opt.Bug.anyOrder {
		h.inbox, h.inboxAt = state.Known(a.stmt), w.now
	}
}

// act is the second half of the loop. A power cut may come before and after
// each step.
func (w *world) act(i int) {
	h := &w.hosts[i]
	v := *h.pending
	if h.hung && v.Action == state.EtcdWriteRecord {
		return // it waits for the disk, and publishes nothing until then
	}
	h.pending = nil
	w.overruled(i, v)
	if !w.permits(i, v) {
		return
	}
	switch v.Action {
	case state.EtcdWriteRecord:
		w.writeRecord(i, *v.Record)
	case state.EtcdStart:
		switch {
		case v.Record != nil:
			w.writeRecord(i, *v.Record)
		case h.disk.copy == state.CopyNone: // lost since the snapshot
			return
		}
		w.start(i)
	case state.EtcdStop:
		w.stop(i)
	case state.EtcdStartStandIn:
		w.startStandIn(i, v.Member)
	case state.EtcdStopStandIn:
		h.standIn = 0
	case state.EtcdRemove, state.EtcdAddLearner, state.EtcdPromote:
		w.changeMembers(i, v)
	case state.EtcdMark:
		w.mark(i, v)
	case state.EtcdMoveLeader:
		w.moveLeader(i, v.Member)
	case state.EtcdEmpty:
		w.empty(i)
	case state.EtcdGrantQuorum:
		h.inert = false
		w.checkGrant(i)
		if w.hosts[1-i].disk.record.Forced.Who != "" {
			w.ignored = true
		}
		w.trace(i, "is granted quorum")
	case state.EtcdAskFence:
		if !h.fence.active && !h.fencedSince() && h.decidedIn == h.ring { // not by a decision from another membership
			h.fence = fence{active: true, ready: w.now, beside: h.contact}
		}
	case state.EtcdIdle, state.EtcdWait, state.EtcdAskHuman:
	}
}

func (w *world) writeRecord(i int, r state.EtcdRecord) {
	h := &w.hosts[i]
	if h.disk.record.Seq >= r.Seq && h.disk.record.State != state.EtcdNone {
		w.fail("record", "host %d would write record %d over %d", i, r.Seq, h.disk.record.Seq)
	}
	if r.Forced.Who != "" && h.disk.record.Forced.Who == "" {
		w.acceptLoss(i)
	}
	h.disk.record = r
	w.trace(i, "writes %s, member %s, seq %d %s", r.State, r.Member, r.Seq, r.Proof.Kind)
	w.strike(i)
}

// acceptLoss cuts the committed history to the entries of a forced data
// directory.
func (w *world) acceptLoss(i int) {
	w.forced++
	w.ignored = w.forced > 1 // administrators decided for both hosts: no rule can join the two histories
	d := &w.hosts[i].disk
	n := 0
	for n < len(w.global) && n < len(d.log) && d.log[n] == w.global[n] {
		n++
	}
	w.global = w.global[:n]
}

func (w *world) startStandIn(i int, id state.MemberID) {
	h, p := &w.hosts[i], &w.hosts[1-i]
	if !h.running {
		return
	}
	if !w.lying && p.power && p.running && p.disk.id == id {
		w.fail("I3", "host %d lets a stand-in vote for member %s, which runs", i, id)
	}
	if w.opt.Bug != nil && w.opt.Bug.forceNew {
		w.forceNew(i, id)
		return
	}
	h.standIn = id
	w.trace(i, "stand-in speaks for member %s", id)
}

func (w *world) changeMembers(i int, v state.EtcdVerdict) {
	h := &w.hosts[i]
	if !h.running || h.role != leader || h.changing() {
		return
	}
	switch v.Action {
	case state.EtcdRemove:
		if _, ok := h.find(v.Member); ok {
			w.propose(i, entry{kind: remove, id: v.Member})
		}
	case state.EtcdAddLearner:
		if _, lists := h.other(); len(h.members) == 1 || w.trio != nil && !lists && !h.hasLearner() {
			w.propose(i, entry{kind: addLearner, id: w.nextID, arg: uint64(1 - i)})
			w.nextID++
		}
	case state.EtcdPromote:
		if f, known := h.followed(v.Member); known && f.match*10 >= h.commit*9 {
			w.propose(i, entry{kind: promote, id: v.Member})
		}
	default:
	}
	w.trace(i, "proposes %s of member %s", v.Action, v.Member)
	if v.Action == state.EtcdPromote && w.rng.IntN(2) == 0 { // several in the same batch
		w.client(i)
		w.client(i)
		w.sync(i)
		w.strike(i)
	}
}

// changing reports whether a membership change is not yet committed.
func (h *host) changing() bool { return h.changed > h.commit }

func (w *world) mark(i int, v state.EtcdVerdict) {
	h := &w.hosts[i]
	if !h.running || h.role != leader {
		return
	}
	for _, e := range h.disk.log[h.commit:] {
		if e.kind == marker && e.id == v.Member && e.arg == v.Seq {
			return
		}
	}
	w.propose(i, entry{kind: marker, id: v.Member, arg: v.Seq})
	w.trace(i, "marks member %s as of record %d", v.Member, v.Seq)
}

func (w *world) moveLeader(i int, to state.MemberID) {
	h := &w.hosts[i]
	o, listed := h.find(to)
	if h.running && h.role == leader && listed && h.matchOf(to) >= h.last() {
		w.send(msg{kind: msgTimeoutNow, from: i, to: w.placeOf(i, o), fromID: h.disk.id, toID: to, term: h.disk.term})
	}
}

// empty takes two steps, with a damaged data directory in between.
func (w *world) empty(i int) {
	d := &w.hosts[i].disk
	if w.hosts[i].hung {
		return
	}
	if w.hosts[i].running {
		w.fail("I6", "host %d would empty the copy of a running etcd", i)
	}
	switch d.copy {
	case state.CopyWhole:
		if !w.holds(1-i) && w.forced == 0 && !w.lost {
			w.fail("I6", "host %d empties its copy while host %d does not hold the whole history", i, 1-i)
		}
		d.copy = state.CopyDamaged
	case state.CopyDamaged:
		w.forget(i)
	case state.CopyNone:
	}
	w.trace(i, "empties its copy (%s now)", d.copy)
}

// forceNew restarts etcd with force-new-cluster, as other projects do: it drops
// the entries above the stored commit index, and removes the peer without a
// vote.
func (w *world) forceNew(i int, id state.MemberID) {
	w.crash(i)
	d := &w.hosts[i].disk
	d.log = append(d.log[:d.commit:d.commit], entry{term: d.term, kind: remove, id: id})
	d.synced, d.commit = len(d.log), len(d.log)
	w.committed(i, len(d.log), d.log[len(d.log)-1])
	w.trace(i, "forces a new cluster")
	w.start(i)
}
