package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
)

// raftsMore is how many steps etcd takes besides: three have more to say to each other than two, and a
// plan only goes on while nothing stalls.
const raftsMore = 3

// trioStep plays, beside each step of the hosts, what belongs to a plan.
func (w *world) trioStep() {
	t := w.trio
	for range raftsMore {
		w.raft(w.rng.IntN(places))
	}
	switch n := t.rng.IntN(20); {
	case n < 8:
		w.carryWide(t.rng.IntN(2))
		w.carryNarrow(t.rng.IntN(2))
	case n < 11:
		w.kubeletOf(t.rng.IntN(2))
	case n < 14:
		w.pacemakers(t.rng.IntN(2))
	case n < 16:
		w.thirdMachine()
	case n < 17:
		w.administrator()
	}
}

// administrator plays the person who changes the site.
func (w *world) administrator() {
	t := w.trio
	switch {
	case t.busy && t.doing == narrows:
		w.pursueNarrow()
	case t.busy:
		w.pursueWide()
	case len(t.script) == 0 || t.anyBurnt() || !w.trioSettled():
		t.since = w.now
	case w.now-t.since > 5*time.Second:
		w.beginTrio()
	}
}

// beginTrio has the person type the next command.
func (w *world) beginTrio() {
	t := w.trio
	t.doing, t.script = t.script[0], t.script[1:]
	t.busy, t.carrier, t.plans = true, t.rng.IntN(2), t.plans+1
	t.retake, t.leaves, t.emptied = t.rng.IntN(4) == 0, false, false
	if t.doing == narrows && t.objects == 3 {
		w.trace(t.carrier, "---- one of three control planes goes")
		w.typeNarrow(t.carrier, t.planID())
		return
	}
	t.doing = widens
	w.trace(t.carrier, "---- the site gets a third control plane")
	if t.away {
		t.newMachine(t.machine.machine + 1)
	}
	w.typeWide(t.carrier, t.planID())
}

func (t *trio) planID() string { return fmt.Sprintf("p%d", t.plans) }

// trioSettled reports whether the site is whole: one of two, or one of three.
func (w *world) trioSettled() bool {
	for i := range w.trio.mates {
		if m := &w.trio.mates[i]; m.wide != nil && !m.wide.Stage.Over() || m.narrow != nil && !m.narrow.Stage.Over() {
			return false
		}
	}
	return w.trio.lock.ID == "" && w.trio.narrowLock.ID == "" && (w.trio.objects == 2 && w.goal() && w.ofTwo() || w.trio.objects == 3 && w.ofThree())
}

// ofTwo reports whether both hosts are set up as two.
func (w *world) ofTwo() bool {
	for i := range w.hosts {
		h, m := &w.hosts[i], &w.trio.mates[i]
		if h.seat.static || h.seat.kubelet || !w.manages(i) || !h.seat.ringBoots || !h.seat.told || m.word.Plan != "" || m.dressed {
			return false
		}
	}
	return true
}

// ofThree reports whether all three run under kubelet, vote and hold everything, and nothing of two is
// left.
func (w *world) ofThree() bool {
	for place := range places {
		h := w.at(place)
		if !h.power || !h.running || h.leaderID == 0 || !h.isVoter() || voters(h.members) != places || len(h.members) != places || !w.holds(place) {
			return false
		}
	}
	for i := range w.hosts {
		h, m := &w.hosts[i], &w.trio.mates[i]
		if !h.seat.static || !h.seat.kubelet || h.seat.runs || h.seat.ringBoots || h.seat.told || h.disk.record.State != state.EtcdNone || m.word.Plan != "" || !m.dressed {
			return false
		}
	}
	return true
}

// pursueWide types the command again until its plan is over.
func (w *world) pursueWide() {
	t := w.trio
	m := &t.mates[t.carrier]
	p := m.wide
	mine := p != nil && p.ID == t.planID()
	switch {
	case t.burnt[t.carrier]: // the other host takes the plan back, or goes on
		o := t.mates[1-t.carrier].wide
		t.busy = t.lock.ID != "" || o != nil && !o.Stage.Over()
	case !w.hosts[t.carrier].power:
	case mine && p.Stage.Over() && t.lock.ID == "":
		w.trace(-1, "---- the plan is over: %s %s", p.Stage, p.Ended)
		t.busy, t.since, m.wish = false, w.now, nil
		w.again(p)
	case mine && !p.Stage.Over():
		w.perhapsBack(p)
	case mine:
	case w.calm: // it had not begun
		t.busy, m.wish, m.next = false, nil, nil
	case m.wish == nil || w.clock(t.carrier).Sub(m.wish.At).Abs() > wishLife:
		w.typeWide(t.carrier, t.planID())
	}
}

// again has the person begin once more with a machine that is installed anew, after a plan was taken
// back.
func (w *world) again(p *widen.Plan) {
	t := w.trio
	if p.Stage != widen.Aborted || t.taken == 0 || t.anyBurnt() || w.calm {
		return
	}
	t.taken--
	t.script = append(t.script, widens)
	number := t.machine.machine
	if t.rng.IntN(2) == 0 {
		number++
	}
	w.trace(third, "---- machine %d is installed anew", number)
	w.crash(third)
	t.newMachine(number)
}

// perhapsBack has the person take the plan back: because of another wish, or since its machine does not
// come. One that only goes forward goes on without a machine that is lost.
func (w *world) perhapsBack(p *widen.Plan) {
	t := w.trio
	m := &t.mates[t.carrier]
	lost := t.burnt[third] && (w.calm || t.rng.IntN(20) == 0)
	if lost && p.Stage == widen.Handing && !p.Gone && (m.wish == nil || m.wish.Abort || !m.wish.Gone) {
		w.trace(t.carrier, "---- the person says that the third machine is gone")
		m.wish = &widen.Wish{ID: p.ID, Gone: true, At: w.clock(t.carrier)}
		return
	}
	stuck := w.calm && (p.Stage == widen.Coming || p.Stage == widen.LettingIn) && w.now-t.since > patience && t.rng.IntN(20) == 0
	if m.wish != nil && m.wish.Abort && (m.wish.Gone || !lost) || !widen.Handing.After(p.Stage) {
		return
	}
	if lost || stuck || t.retake && !w.calm && t.rng.IntN(60) == 0 {
		w.trace(t.carrier, "---- the person takes the plan back")
		m.wish = &widen.Wish{ID: p.ID, Abort: true, Gone: lost, At: w.clock(t.carrier)}
	}
}

// patience is the time after which a person takes a plan back whose machine does not come.
const patience = 300 * time.Second

// faultTrio breaks something that only a site of three has: most of the third machine, its paths, or a
// host for good. It reports whether it did.
func (w *world) faultTrio() bool {
	t := w.trio
	n := t.rng.IntN(24)
	h := &t.machine
	switch {
	case n < 3:
		w.trace(third, "FAULT power cut of the third machine")
		w.powerOff(third)
	case n < 4:
		w.trace(third, "FAULT etcd of the third machine is killed")
		w.crash(third)
	case n < 6:
		i := t.rng.IntN(2)
		w.cut[i][third], w.cut[third][i] = true, t.rng.IntN(2) == 0
		w.trace(i, "FAULT nothing gets from here to the third machine (or back: %t)", w.cut[third][i])
	case n < 7:
		w.cut[0][third], w.cut[third][0], w.cut[1][third], w.cut[third][1] = true, true, true, true
		w.trace(third, "FAULT the third machine is cut off")
	case n < 8:
		h.frozen = w.now + time.Duration(t.rng.IntN(int(40*time.Second)))
		w.trace(third, "FAULT etcd of the third machine hangs")
	case n < 9:
		w.emptyThird()
	case n < 10:
		w.burn(t.rng.IntN(places))
	case n < 11:
		w.emptyThird()
	case n < 12:
		w.damage(t.rng.IntN(third))
	default:
		return false
	}
	return true
}

// emptyThird replaces the disk of the third machine, which is installed once more.
func (w *world) emptyThird() {
	t := w.trio
	if t.comes.empties == 0 || t.anyBurnt() || w.destroyed {
		return
	}
	t.comes.empties--
	w.destroyed = true
	w.trace(third, "FAULT the disk of the third machine is replaced, and it is installed anew")
	w.powerOff(third)
	t.newMachine(t.machine.machine)
	t.machine.power = false
}

// burn loses a machine for good: only one in a schedule in which no data were lost.
func (w *world) burn(place int) {
	t := w.trio
	if w.destroyed || t.anyBurnt() {
		return
	}
	h := w.at(place)
	w.trace(place, "FAULT the machine is lost for good")
	t.burnt[place] = true
	w.powerOff(place)
	if place == third {
		return
	}
	if h.silent = t.rng.IntN(3) == 0; h.silent {
		h.bmc = bmcMute
	}
	o := w.hosts[1-place].disk.record.State
	w.lost = w.lost || !o.Leads() && (o != state.EtcdPair || !w.holds(1-place))
}

// strikeTrio lets a fault happen right at a step of a plan.
func (w *world) strikeTrio(i int) {
	t := w.trio
	if w.calm || w.faults >= w.limit || t.rng.IntN(10) != 0 {
		return
	}
	w.faults++
	w.fences = 0
	switch t.rng.IntN(8) {
	case 0, 1:
		w.trace(i, "FAULT power cut, right now")
		w.powerOff(i)
	case 2:
		w.trace(1-i, "FAULT power cut, right now")
		w.powerOff(1 - i)
	case 3:
		w.trace(third, "FAULT power cut, right now")
		w.powerOff(third)
	case 4:
		w.trace(-1, "FAULT the network is cut, right now")
		w.cut = apart
	case 5:
		w.burn(t.rng.IntN(places))
	case 6, 7:
		w.emptyThird()
	}
}

// checkTrio checks what must hold while a third control plane comes.
func (w *world) checkTrio() {
	t := w.trio
	three := w.threeVote()
	for i := range w.hosts {
		h, m := &w.hosts[i], &t.mates[i]
		r := h.disk.record.State
		switch {
		case three && (r == state.EtcdPair || r.Leads() || h.standIn != 0):
			w.fail("I10", "three vote, and host %d has the rights of one of two: %s, stand-in %s", i, r, h.standIn)
		case h.seat.static && w.manages(i):
			w.fail("I10", "kubelet of host %d has etcd, and Pacemaker may act on it", i)
		case !h.seat.kubelet && (h.seat.static || m.cib.maintained) || !h.seat.static && !h.seat.ringBoots:
			w.fail("I10", "nobody starts etcd of host %d at boot", i)
		case m.dressed && (h.seat.told || h.seat.runs):
			w.fail("I10", "host %d is one of three in its files, and one of two", i)
		}
	}
	if w.handing(0) && w.handing(1) {
		w.fail("I10", "both hosts have no etcd at once, by the plan")
	}
	for a := range places {
		for b := range a {
			if x, y := w.at(a), w.at(b); x.running && y.running && x.disk.id == y.disk.id {
				w.fail("I1", "machines %d and %d run member %s", b, a, x.disk.id)
			}
		}
	}
	w.checkPlanOver(three)
	w.checkIdle()
}

// handing reports whether the plan has stopped etcd of a host, and kubelet has not got it yet.
func (w *world) handing(i int) bool {
	h, m := &w.hosts[i], &w.trio.mates[i]
	return h.power && m.asked == state.EtcdStopped && m.cib.maintained && !h.running && !h.seat.static && !h.leaving
}

// checkPlanOver fails if a plan is over and the members of etcd are others than it says.
func (w *world) checkPlanOver(three bool) {
	m := &w.trio.mates[w.trio.carrier]
	wide, goes := m.wide, m.narrow
	is := func(id string) bool { return w.trio.busy && id == w.trio.planID() }
	switch {
	case wide != nil && is(wide.ID) && (wide.Stage == widen.Aborted && three || wide.Stage == widen.Whole && !three):
		w.fail("I10", "the plan for a third control plane is %s, and three vote: %t", wide.Stage, three)
	case goes != nil && is(goes.ID) && (goes.Stage == narrow.Aborted && !three || goes.Stage == narrow.Whole && three):
		w.fail("I10", "the plan for two control planes is %s, and three vote: %t", goes.Stage, three)
	}
}

// idleLimit bounds the time without a commit while nothing is broken: a plan stops one etcd at a time.
// An etcd keeper or an agent may hang meanwhile.
const idleLimit = 120 * time.Second

// checkIdle fails if nothing is broken, and nothing is committed for too long.
func (w *world) checkIdle() {
	t := w.trio
	off := !w.hosts[0].power || !w.hosts[1].power || !t.machine.power && !t.away // somebody switches it on, some time
	if w.faults > 0 || w.calm || off || len(w.global) != t.idleLen || w.at(third).last() >= mostEntries || w.hosts[0].last() >= mostEntries || w.hosts[1].last() >= mostEntries {
		t.idleAt, t.idleLen = w.now, len(w.global)
		return
	}
	if w.now-t.idleAt > idleLimit {
		w.fail("I8", "nothing is broken, and nothing was committed for %s (%s; %s)", w.now-t.idleAt, t.mates[0].rule, t.mates[1].rule)
	}
}

// runTrio plays the schedule of a seed with a third control plane.
func runTrio(seed uint64, opt Options) Result {
	w := newTrio(seed, opt)
	limit := opt.Faults
	if limit == 0 {
		limit = 6
	}
	limit = w.rng.IntN(limit + 1)
	storm := 600 + w.rng.IntN(2*stormSteps)
	w.limit = limit
	for w.step = 0; w.step < storm && w.failure == nil && !w.ignored; w.step++ {
		w.tick()
		w.trioStep()
		if w.faults < limit && w.rng.IntN(storm/(limit+1)+1) == 0 {
			w.faults++
			if !w.faultTrio() {
				w.fault()
			}
		}
	}
	w.mend()
	w.trio.since = w.now
	r := Result{Seed: seed, Faults: w.faults}
	for end := w.step + calmSteps; w.step < end && w.failure == nil && !r.Converged && !w.ignored; w.step++ {
		w.tick()
		w.trioStep()
		r.Converged = w.trioWhole()
		if !r.Converged && w.step%64 == 0 && w.trioSays() {
			break
		}
	}
	if w.failure == nil && !r.Converged {
		if r.Human = w.ignored || w.trioSays(); !r.Human {
			w.fail("I7", "the site is neither whole nor serves and says what is missing (%s; %s; plan %s; %s)", w.hosts[0].verdict.Rule, w.hosts[1].verdict.Rule, w.trio.mates[0].rule, w.trio.mates[1].rule)
		}
	}
	for i := range w.hosts {
		r.TakeOvers += w.hosts[i].disk.record.TakeOver.Counter
	}
	r.Steps, r.Writes, r.Violation, r.Trace = w.step, w.writes, w.failure, w.log
	if w.opt.Trace {
		r.Trace = append(r.Trace, w.String(), w.trio.String())
	}
	return r
}

// trioWhole reports whether no plan is under way, and the site is one of three, one of two, or one
// whose lost host a survivor went on without.
func (w *world) trioWhole() bool {
	t := w.trio
	if t.busy || t.lock.ID != "" || t.narrowLock.ID != "" {
		return false
	}
	for i := range t.mates {
		m := &t.mates[i]
		over := (m.wide == nil || m.wide.Stage.Over()) && (m.narrow == nil || m.narrow.Stage.Over())
		if !t.burnt[i] && (!over || m.word.Plan != "" || m.wish != nil || m.narrowWish != nil) {
			return false
		}
		if t.burnt[1-i] && w.hosts[i].disk.record.State == state.EtcdSole {
			return w.answers(i) && !w.threeVote() && !slices.ContainsFunc(w.hosts[i].members, func(m member) bool { return m.at == third })
		}
	}
	if t.burnt[third] && t.objects == 3 {
		return w.answers(0) && w.answers(1)
	}
	return w.trioSettled()
}

// knowsThree reports whether an etcd that runs knows that three vote. In the moment of the vote the one
// that knew it may be the one that is lost: then the others wait for it.
func (w *world) knowsThree() bool {
	for place := range places {
		if h := w.at(place); h.running && voters(h.members) == places {
			return true
		}
	}
	return false
}

// trioSays reports whether the site serves, or asks a person, and waits for what was lost for good.
func (w *world) trioSays() bool {
	t := w.trio
	a, b := &w.hosts[0], &w.hosts[1]
	majority := a.disk.record.State == state.EtcdMajority || b.disk.record.State == state.EtcdMajority
	p := t.mates[t.carrier].wide
	switch {
	case t.burnt[third] && t.doing == widens && p != nil && (p.Stage == widen.LettingIn || p.Stage.After(widen.TakingBack) && !p.Stage.Over()) && w.answers(0) && w.answers(1):
		return false // the person says so, and the plan is taken back, or goes on
	case w.threeVote() && w.knowsThree() && (t.anyBurnt() || w.destroyed):
		return w.answers(0) || w.answers(1) // a plan goes on once the lost one is replaced
	case w.lost || w.destroyed && w.unusable():
		return w.asksHuman() || majority
	case t.burnt[0] || t.burnt[1]:
		return w.asksHuman() || majority // for a word that its peer is off, or, in majority, for a backup
	}
	return false
}
