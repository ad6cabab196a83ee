package sim

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A disk that is full has room for the record and for nothing else. A running
// etcd works on for a while, since its log was made in advance; then it ends,
// and each one that is started ends too. Empty data leave enough room for those
// of a learner.
type space struct {
	full   bool
	starts etcdhealth.Starts // as the etcd keeper counts them, since its host's boot
	endsAt time.Duration     // when a running etcd finds no room
}

// fullTurns is the number of faults of which one is a full disk.
const fullTurns = 18

// fills reports whether the next fault is a full disk, and makes it.
func (w *world) fills(i int) bool {
	h := &w.hosts[i]
	if !w.crowding || w.rooms.IntN(fullTurns) != 0 {
		return false
	}
	if h.power && !h.space.full {
		h.space.full, h.space.endsAt = true, w.now+w.upTo(20*time.Second)
		w.trace(i, "FAULT its disk is full")
	}
	return true
}

// upTo draws a duration for a full disk.
func (w *world) upTo(most time.Duration) time.Duration {
	return time.Duration(w.rooms.IntN(int(most)))
}

// crowd ends an etcd that finds no room, and at times somebody makes room.
func (w *world) crowd(i int) {
	h := &w.hosts[i]
	if !h.space.full {
		return
	}
	if h.running && !h.hung && w.now >= h.space.endsAt {
		w.trace(i, "etcd ends: no space left on its disk")
		w.crash(i)
	}
	if w.rooms.IntN(1500) == 0 {
		w.makeRoom(i)
	}
}

func (w *world) makeRoom(i int) {
	h := &w.hosts[i]
	if h.space.full {
		h.space.full = false
		w.trace(i, "its disk has room again")
	}
}

// crowdedLimit bounds the time for which one host's full disk may keep etcd from
// running there, beyond MaxStarts failed starts, before the pair ends.
const crowdedLimit = 30 * time.Second

// checkFull fails if a full disk is the only fault, etcd ends there again and
// again, and both hosts stay a pair for too long. The rule of a stall does not see
// it: an election now and then commits an entry.
func (w *world) checkFull() {
	crowded := false
	for i := range w.hosts {
		h := &w.hosts[i]
		crowded = crowded || h.space.full && h.space.starts.Failed > etcdhealth.MaxStarts && h.disk.record.State == state.EtcdPair
	}
	if !crowded || !w.oneFault() {
		w.crowdedAt = w.now
		return
	}
	if w.now-w.crowdedAt > crowdedLimit {
		w.fail("I8", "a full disk alone holds up the pair for %s (%s; %s)", w.now-w.crowdedAt, w.hosts[0].verdict.Rule, w.hosts[1].verdict.Rule)
	}
}

// free returns the space on a host's disk, in bytes.
func (h *host) free() uint64 {
	if h.space.full {
		return etcdhealth.LeastSpace - 1
	}
	return etcdhealth.LeastSpace
}

// countStart counts a start of etcd as the etcd keeper does, and draws how long
// it lasts on a full disk.
func (w *world) countStart(i int) {
	h := &w.hosts[i]
	h.space.starts = h.space.starts.Next(w.uptime(i), h.free())
	if h.space.full {
		h.space.endsAt = w.now + w.upTo(time.Second)
	}
}

// judge says of data that look whole what the starts say of them.
func (w *world) judge(i int, d *state.EtcdData) {
	h := &w.hosts[i]
	if h.running || d.Copy != state.CopyWhole {
		return
	}
	d.NoSpace = h.space.starts.Crowded(h.free())
	if h.space.starts.Hopeless(w.uptime(i), h.free()) {
		d.Copy = state.CopyDamaged
	}
}
