package sim

import (
	"math"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/fencerace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The length of a schedule, in steps.
const (
	stormSteps = 1500 // while faults come
	calmSteps  = 9000 // at most, until two voters are back
)

// Run plays the schedule of a seed.
func Run(seed uint64, opt Options) Result {
	if opt.Thirds || opt.Bug != nil && opt.Bug.thirds {
		return runTrio(seed, opt)
	}
	if opt.Sites || opt.Bug != nil && opt.Bug.sites {
		return runSite(seed, opt)
	}
	w := newWorld(seed, opt)
	limit := opt.Faults
	if limit == 0 {
		limit = 8
	}
	limit = w.rng.IntN(limit + 1)
	storm := 100 + w.rng.IntN(stormSteps)
	if w.rng.IntN(4) == 0 { // enough time between two faults for a host to come back
		storm, limit = storm*4, limit+4
	}
	w.limit = limit
	for w.step = 0; w.step < storm && w.failure == nil && !w.ignored; w.step++ {
		w.tick()
		if w.faults < limit && w.rng.IntN(storm/(limit+1)+1) == 0 {
			w.faults++
			w.fault()
		}
	}
	return w.finish(seed)
}

// finish mends everything and waits for two voters, or for a state that only an
// administrator can end.
func (w *world) finish(seed uint64) Result {
	w.mend()
	r := Result{Seed: seed, Faults: w.faults}
	for end := w.step + calmSteps; w.step < end && w.failure == nil && !r.Converged && !w.ignored; w.step++ {
		w.tick()
		r.Converged = w.goal()
	}
	if w.failure == nil && !r.Converged {
		r.Human = w.asksHuman() || w.ignored
		if !r.Human || !w.lost && w.forced < 2 && !w.unusable() && !w.ignored {
			w.fail("I7", "both hosts are up, the network is whole, and two voters do not come back (%s; %s)", w.hosts[0].verdict.Rule, w.hosts[1].verdict.Rule)
		}
	}
	for i := range w.hosts {
		r.TakeOvers += w.hosts[i].disk.record.TakeOver.Counter
	}
	r.Steps, r.Writes, r.Violation, r.Trace = w.step, w.writes, w.failure, w.log
	if w.opt.Trace {
		r.Trace = append(r.Trace, w.String())
	}
	return r
}

func (w *world) asksHuman() bool {
	return w.hosts[0].verdict.Action == state.EtcdAskHuman || w.hosts[1].verdict.Action == state.EtcdAskHuman
}

// unusable reports whether a data directory was destroyed in the very moment in
// which its host's record, or the peer's, changed. Nobody can then be sure that
// the other data directory holds everything. The same holds if an administrator
// forced a host whose log ended with its own removal.
func (w *world) unusable() bool {
	for i := range w.hosts {
		if w.forced > 0 && w.hosts[i].verdict.Rule == "lead.removed" {
			return true
		}
	}
	racing := []string{"equal.unusable", "equal.no-record", "equal.peer-lost", "lead.no-copy"}
	return w.destroyed && (slices.Contains(racing, w.hosts[0].verdict.Rule) || slices.Contains(racing, w.hosts[1].verdict.Rule))
}

// strike lets a fault happen right at a critical step.
func (w *world) strike(i int) {
	if w.calm || w.faults >= w.limit || w.rng.IntN(12) != 0 {
		return
	}
	w.faults++
	w.fences = 0
	switch w.rng.IntN(5) {
	case 0:
		w.trace(i, "FAULT power cut, right now")
		w.powerOff(i)
	case 1:
		w.trace(1-i, "FAULT power cut, right now")
		w.powerOff(1 - i)
	case 2:
		w.trace(i, "FAULT etcd is killed, right now")
		w.crash(i)
	case 3:
		w.trace(-1, "FAULT the network is cut, right now")
		w.cut = apart
	case 4:
		w.damage(i)
	}
}

func (w *world) mend() {
	w.calm = true
	w.trace(-1, "---- faults end, everything is mended")
	w.cut, w.filtered = paths{}, paths{}
	for i := range w.hosts {
		h := &w.hosts[i]
		h.bmc, h.sticks, h.leaving, h.frozen = bmcWell, 0, false, 0
		h.hung, h.lies = false, honest
		w.makeRoom(i)
	}
	w.mendSite()
}

// tick takes one step: time passes, and one event happens.
func (w *world) tick() {
	dt := time.Duration(w.rng.ExpFloat64() * float64(60*time.Millisecond))
	if w.rng.IntN(100) == 0 {
		dt += time.Duration(w.rng.IntN(int(8 * time.Second)))
	}
	w.now += min(dt, time.Minute)
	switch n := w.rng.IntN(100); {
	case n < 52:
		w.raft(w.rng.IntN(w.machines()))
	case n < 82:
		w.agent(w.rng.IntN(2))
	case n < 90:
		w.attribute()
	default:
		w.environment(w.rng.IntN(2))
	}
	w.check()
}

func (w *world) raft(i int) {
	h := w.at(i)
	if i < third {
		w.crowd(i)
	}
	if len(w.msgs) > 0 && w.rng.IntN(2) == 0 {
		k := 0
		if w.rng.IntN(4) == 0 {
			k = w.rng.IntN(len(w.msgs))
		}
		m := w.msgs[k]
		w.msgs = append(w.msgs[:k], w.msgs[k+1:]...)
		if w.rng.IntN(32) != 0 {
			w.deliver(m)
		}
		return
	}
	if !h.running || h.frozen > w.now || h.hung {
		return
	}
	switch n := w.rng.IntN(10); {
	case n < 2 && h.role == leader:
		w.client(i)
	case n < 5:
		w.sync(i)
	case n < 8:
		w.replicate(i)
	case n < 9:
		if i < third {
			w.standInAnswers(i)
		}
		w.tellName(i)
	default:
		w.timeOut(i)
	}
}

// mostEntries bounds the log of a schedule.
const mostEntries = 400

func (w *world) client(i int) {
	if w.at(i).last() < mostEntries {
		w.writes++
		w.propose(i, entry{kind: write, arg: w.writes})
	}
}

// timeOut is the election timer of a follower. For a leader it checks that a
// quorum still answers.
func (w *world) timeOut(i int) {
	h := w.at(i)
	if w.now-h.lastHeard < electionTimeout {
		return
	}
	o, two := h.other()
	switch {
	case h.role == leader && two && !o.learner && h.standIn != o.id:
		h.role, h.leaderID, h.since = follower, 0, w.now
		w.trace(i, "steps down: no quorum answers")
	case h.role == leader:
	case h.leaderID != 0:
		h.leaderID, h.since = 0, w.now
	case h.isVoter():
		w.campaign(i)
	}
}

func (w *world) agent(i int) {
	h := &w.hosts[i]
	switch {
	case !h.power || !w.keeps(i):
	case h.pending == nil:
		w.observe(i)
		if w.rng.IntN(64) == 0 && !w.calm { // the etcd keeper hangs before its step
			h.blockedUntil = w.now + time.Duration(w.rng.IntN(int(40*time.Second)))
		}
	case h.blockedUntil > w.now:
	case w.rng.IntN(64) == 0 && !w.calm: // the etcd keeper is killed between its decision and its step
		h.pending = nil
	default:
		w.act(i)
	}
}

func (w *world) attribute() {
	if len(w.attrs) == 0 {
		return
	}
	k := w.rng.IntN(len(w.attrs))
	a := w.attrs[k]
	w.attrs = append(w.attrs[:k], w.attrs[k+1:]...)
	if w.rng.IntN(16) != 0 {
		w.receive(a)
	}
}

// environment plays what happens by itself: Corosync, Pacemaker,
// administrators.
func (w *world) environment(i int) {
	h := &w.hosts[i]
	switch w.rng.IntN(6) {
	case 0:
		w.corosync(i)
	case 1, 2:
		w.fenceStep(i)
	case 3:
		if !h.power && !w.hosts[1-i].fence.sent && w.boots(i) && (w.calm || w.rng.IntN(6) == 0) {
			w.powerOn(i)
		}
		if h.leaving && !h.running && w.now-h.leavingAt > staysFor(h.leavingAt) {
			h.leaving = false
		}
	case 4:
		w.person(i)
	case 5:
		if !w.linked() && w.rng.IntN(24) == 0 {
			w.cut = paths{}
			w.trace(-1, "the network is whole again")
		}
	}
}

// corosync forms a membership, or notices that the peer is gone. Each host
// notices at its own time.
func (w *world) corosync(i int) {
	h, p := &w.hosts[i], &w.hosts[1-i]
	w.strays(i)
	whole := h.power && p.power && w.linked() && w.meets()
	switch {
	case !h.power:
	case h.contact && (!whole || h.ring != p.ring && h.pendingRing == 0 && p.pendingRing == 0):
		w.rings++
		h.contact, h.ring = false, w.rings
		h.inbox = state.Fact[state.EtcdStatement]{}
		w.trace(i, "corosync loses the peer")
	case h.pendingRing != 0 && (!whole || p.pendingRing != h.pendingRing && p.ring != h.pendingRing):
		h.pendingRing = 0 // the other side is gone before this one noticed it
	case whole && h.pendingRing != 0:
		h.contact, h.ring, h.pendingRing, h.inert, h.joined = true, h.pendingRing, 0, false, w.uptime(i)
		h.met, h.unseen, h.strayAt, h.strayed = h.joined, false, 0, false
		h.inbox, h.inboxAt = p.published, w.now // the statement that the attribute daemon still has
		h.fence.active = h.fence.active && h.fence.beside
		w.syncTrio()
		if p.ring == h.ring {
			w.fences, w.slowFence = 0, false
		}
		w.trace(i, "corosync sees the peer (ring %d)", h.ring)
	case whole && !h.contact && p.pendingRing == 0:
		w.rings++
		h.pendingRing, p.pendingRing = w.rings, w.rings
	}
}

// strays forms memberships of one host while it receives packets of a peer that
// does not receive its own. Some follow each other so fast that the etcd keeper
// misses some, and it sees all of them late: the peer may then have been in
// one.
func (w *world) strays(i int) {
	h, p := &w.hosts[i], &w.hosts[1-i]
	switch {
	case !h.power || h.contact || h.pendingRing != 0:
		h.strayAt = 0
	case h.strayAt != 0 && w.now >= h.strayAt:
		w.rings++
		h.ring, h.joined, h.unseen, h.strayAt, h.strayed = w.rings, w.uptime(i), true, 0, true
		w.slowFence = true // the fence may be requested once more
		w.trace(i, "a membership was not seen: the peer may have joined")
	case h.strayAt == 0 && !h.strayed && p.power && w.cut[i][1-i] && !w.cut[1-i][i] && w.stray.IntN(4) == 0:
		h.strayAt = w.now + time.Duration(w.stray.IntN(int(3*time.Second)))
	}
}

// fenceStep advances Pacemaker's fencing of the peer.
func (w *world) fenceStep(i int) {
	h, p := &w.hosts[i], &w.hosts[1-i]
	if !h.power || h.inert && !h.fence.active || !w.mayFence(i) {
		return
	}
	f := &h.fence
	if !f.active {
		if !h.contact && !h.held() {
			*f = fence{active: true, ready: w.now + w.fenceHold(i)}
		}
		return
	}
	if h.contact && !f.beside || w.now < f.ready {
		return
	}
	w.fenceNow(i, h, p, f)
}

// fenceHold returns the time that a host waits before it fences, as in
// decide/fencerace with true evidence of reach.
func (w *world) fenceHold(i int) time.Duration {
	order := time.Duration(i) * 20 * time.Second
	switch {
	case w.loser == i:
		return fencerace.Keep + order
	case w.loser == 1-i && w.told:
		return 0
	}
	return order
}

// held reports whether Pacemaker considers the peer fenced.
func (h *host) held() bool { return h.fenced.Known && h.fenced.Value.At > h.met }

// fencedSince reports whether the etcd keeper does, too: the peer may have
// joined unseen.
func (h *host) fencedSince() bool { return h.fenced.Known && h.fenced.Value.At > h.joined }

func (w *world) fenceNow(i int, h, p *host, f *fence) {
	says := w.powerOfPeer(i)
	trusting := w.opt.Bug != nil && w.opt.Bug.trustsRequest
	switch {
	case says.Known && says.Value == state.PowerOff, trusting && f.sent:
		h.fenced = state.Known(state.EtcdFenced{Target: w.peerName(i), State: state.PowerOff, Boot: h.bootName(), At: w.uptime(i)})
		*f = fence{}
		w.trace(i, "fenced the peer, its BMC says Off")
	case w.site.aims(h, p): // at another machine than the peer
		w.strikeShelf()
		f.sent = true
	case h.inert && p.power: // a host that wants to start alone only asks for a confirmation
		*f = fence{}
	case p.bmc == bmcMute:
	case !f.sent && p.bmc == bmcSlow:
		f.ready, f.sent, w.slowFence = w.now+time.Duration(w.rng.IntN(int(30*time.Second))), true, true
	case p.bmc == bmcNothing:
		f.sent = true
	case p.power:
		if p.bmc == bmcSticks {
			p.sticks, w.slowFence = w.now+15*time.Second, true
		}
		f.sent = true
		w.fences++
		w.trace(i, "fences the peer")
		w.powerOff(1 - i)
	}
}

// person plays the administrator, who confirms only the truth: that the peer is
// off.
func (w *world) person(i int) {
	h, p := &w.hosts[i], &w.hosts[1-i]
	if w.site != nil || w.trio != nil {
		w.confirm(i)
		return
	}
	if !w.humans || w.calm || !h.power || h.contact || h.verdict.Action != state.EtcdAskHuman || h.verdict.Next != etcdmember.Confirm || p.power || w.rng.IntN(12) != 0 {
		return
	}
	h.human = state.Known(state.Confirmation{Who: "operator", Why: "the peer is off", Boot: h.bootName(), At: w.uptime(i), Force: true})
	w.trace(i, "a person confirms that the peer is off and forces this host")
}

// fault breaks one thing.
func (w *world) fault() {
	i := w.rng.IntN(2)
	h := &w.hosts[i]
	w.fences = 0 // each fault may cost one fence
	w.loser, w.told = w.rng.IntN(3), w.rng.IntN(2) == 0
	if w.fills(i) {
		return
	}
	switch w.rng.IntN(18) {
	case 0, 1:
		w.trace(i, "FAULT power cut")
		w.powerOff(i)
	case 2:
		w.trace(-1, "FAULT power cut of both")
		w.powerOff(0)
		w.powerOff(1)
	case 3, 4:
		w.trace(i, "FAULT etcd is killed")
		w.crash(i)
	case 5, 6:
		w.cut = apart
		w.trace(-1, "FAULT the network is cut")
	case 7:
		w.cut[i][1-i] = true
		w.trace(i, "FAULT nothing gets from here to the peer")
	case 8:
		h.frozen = w.now + time.Duration(w.rng.IntN(int(40*time.Second)))
		w.trace(i, "FAULT etcd hangs")
	case 9, 10:
		if w.mayLeaveTrio() {
			w.leave(i)
		}
	case 11:
		w.breakBMC(i)
	case 12:
		h.wall = time.Duration(w.rng.IntN(int(math.MaxInt32)))*time.Second - 24*365*30*time.Hour
		w.trace(i, "FAULT the clock jumps")
	case 13:
		w.damage(i)
	case 14, 15:
		h.hung = h.power
		w.trace(i, "FAULT its disk hangs")
	case 16:
		w.filtered[i][1-i], w.filtered[1-i][i] = true, w.rng.IntN(2) == 0
		w.trace(i, "FAULT nothing of etcd's own gets from here to the peer (or back: %t)", w.filtered[1-i][i])
	case 17:
		h.lies = lie(1 + w.rng.IntN(2))
		w.trace(i, "FAULT its own tests lie (%d)", h.lies)
	}
}

func (w *world) breakBMC(i int) {
	h := &w.hosts[i]
	modes := []bmc{bmcSlow, bmcMute, bmcNothing, bmcSticks}
	h.bmc = modes[w.rng.IntN(len(modes))]
	if w.opt.Bug != nil && w.opt.Bug.liar {
		h.bmc, w.lying = bmcLies, true
	}
	w.trace(i, "FAULT its BMC misbehaves (%d)", h.bmc)
}

// damage destroys a data directory, or a whole disk with the record on it.
func (w *world) damage(i int) {
	h := &w.hosts[i]
	if !w.spares(i) || w.destroyed && !w.rejoins(i) || w.forced > 0 || h.disk.copy != state.CopyWhole { // if a forced data directory is destroyed, the history that it replaced is left
		return
	}
	w.destroyed, h.hung = true, false // a destroyed disk no longer hangs
	other := w.hosts[1-i].disk.record.State
	w.lost = w.lost || !w.holds(1-i) || h.disk.record.State.Leads() || !other.Leads() && other != state.EtcdPair
	if n := w.rng.IntN(3); n > 0 || w.site != nil || w.trio != nil { // a whole machine is lost in another way there
		w.loseCopy(i, n > 1)
		return
	}
	w.trace(i, "FAULT its disk is replaced")
	w.lost = w.lost || !other.Leads() // the other cannot know that this was not the survivor
	w.powerOff(i)
	h.disk = disk{record: state.EtcdRecord{State: state.EtcdNone}, copy: state.CopyNone}
	w.makeRoom(i)
}
