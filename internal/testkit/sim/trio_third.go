package sim

import (
	"slices"
	"strconv"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// thirdMachine plays the third machine: it is switched on, asks to enter, and its kubelet runs etcd.
func (w *world) thirdMachine() {
	t := w.trio
	h := &t.machine
	switch {
	case t.burnt[third] || t.away:
	case !h.power:
		if w.calm || t.rng.IntN(6) == 0 {
			w.powerOn(third)
		}
	case !t.comes.filed:
		w.knocks()
	case !h.running:
		w.startThird()
	case h.isVoter() && h.leaderID != 0 && !t.grave && w.answers(third):
		t.node, t.emptied = true, t.leaves
	}
}

// knocks has the third machine ask at the door of one host, which passes it on to the one that carries
// the plan.
func (w *world) knocks() {
	t := w.trio
	i := t.rng.IntN(2)
	p := t.mates[i].wide
	if !w.reaches(third, i) || p == nil || p.Stage.Over() || p.Refuses(placeNames[third]) != "" {
		return
	}
	carrier := slices.Index(names[:], p.Survivor)
	m := &t.mates[carrier]
	if carrier != i && !w.reaches(i, carrier) || m.wide == nil || m.wide.Stage.Over() || m.wide.Refuses(placeNames[third]) != "" {
		return
	}
	m.asks, m.at = replace.Newcomer{Machine: machineOf(t.machine.machine), Address: addressOfThird, Installation: strconv.Itoa(t.installed)}, w.clock(carrier)
	reopens := w.opt.Bug != nil && w.opt.Bug.reopens && m.wide.Third != 0 && m.wide.Newcomer.Machine == m.asks.Machine
	if m.wide.Opens(m.asks) || reopens {
		t.comes.filed = true
		w.trace(third, "gets the file of etcd")
	}
}

// reaches reports whether packets go both ways between two machines that have power.
func (w *world) reaches(i, k int) bool {
	return w.at(i).power && w.at(k).power && !w.cut[i][k] && !w.cut[k][i]
}

// startThird starts the third etcd. Without data it begins as the member that a running etcd has for
// its address.
func (w *world) startThird() {
	t := w.trio
	h := &t.machine
	d := &h.disk
	if t.comes.removed || h.hung {
		return
	}
	if d.copy == state.CopyNone {
		id := w.listedThird()
		if id == 0 {
			return
		}
		// A host may be late and list one that was removed: nobody tells that of a commit. Of a voter more than
		// that goes wrong: I1.
		if id == t.ran && slices.ContainsFunc(w.committedMembers(), func(m member) bool { return m.id == id && m.learner }) {
			w.fail("I10", "the third etcd starts from nothing as learner %s, which ran before: it ends at the first commit that it is told of", id)
			return
		}
		t.ran = id
		d.copy, d.cluster, d.id = state.CopyWhole, 0xc1, id
		d.log, d.synced, d.commit, d.term, d.vote = nil, 0, 0, 0, 0
	}
	h.process = process{running: true, commit: min(d.commit, len(d.log)), since: w.now, progress: w.now}
	h.members = w.confAt(d.log, h.commit)
	w.trace(third, "etcd runs as member %s, %d entries, %d committed, term %d", d.id, len(d.log), h.commit, d.term)
}

// listedThird returns the third host's member as a running etcd has it.
func (w *world) listedThird() state.MemberID {
	for i := range w.hosts {
		h := &w.hosts[i]
		if !w.hears(third, i) || h.leaderID == 0 {
			continue
		}
		for _, m := range h.members {
			if m.at == third {
				return m.id
			}
		}
	}
	return 0
}

// expelled reports whether a message comes from a member that the receiver knows to be removed: etcd
// refuses it.
func (w *world) expelled(m msg) bool {
	if w.trio == nil || m.from != third {
		return false
	}
	h := w.at(m.to)
	if _, listed := h.find(m.fromID); listed {
		return false
	}
	return slices.ContainsFunc(h.disk.log[:min(h.commit, h.last())], func(e entry) bool { return e.kind == remove && e.id == m.fromID })
}

// leftBehind ends the third etcd once it has read its own removal.
func (w *world) leftBehind(place int) {
	if place != third {
		return
	}
	h := &w.trio.machine
	d := &h.disk
	if _, listed := h.find(d.id); listed {
		return
	}
	gone := slices.ContainsFunc(d.log[:h.commit], func(e entry) bool { return e.kind == remove && e.id == d.id })
	if gone {
		w.trio.comes.removed = true
		w.trace(third, "etcd ends: it was removed")
		w.crash(third)
	}
}

// panics reports whether a member that is told of a commit beyond its log is a learner that lost its
// data: it ends, and no promise of it counted.
func (w *world) panics(place int) bool {
	if place != third {
		return false
	}
	for _, m := range w.committedMembers() {
		if m.at == third && !m.learner {
			return false
		}
	}
	w.trace(third, "etcd ends: it is told of a commit that it does not have")
	w.crash(third)
	return true
}
