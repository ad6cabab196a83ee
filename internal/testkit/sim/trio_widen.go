package sim

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
)

// carryWide is half a turn of the agent of a host: it looks and decides, or it does one act. It may be
// killed in between, and its host may lose power.
func (w *world) carryWide(i int) {
	t := w.trio
	h, m := &w.hosts[i], &t.mates[i]
	switch {
	case !h.power || h.hung:
		m.next = nil
		return
	case m.next != nil && !w.calm && t.rng.IntN(24) == 0:
		m.next = nil
		return
	case m.next != nil:
		d := *m.next
		m.next = nil
		w.doWide(i, d)
		return
	case m.wish == nil && (m.wide == nil || m.wide.Stage.Over()) && t.lock.ID == "" && m.word == (state.EtcdThirdWord{}):
		return // nobody has heard of a plan
	}
	f := w.wideFacts(i)
	d := widen.Decide(f)
	if b := w.opt.Bug; b != nil && b.wideNext != nil {
		b.wideNext(w, i, f, &d)
	}
	if d.Rule != m.rule {
		w.trace(i, "plan: %s: %s (%s)", d.Rule, d.Act, d.Words)
	}
	m.rule = d.Rule
	switch d.Act {
	case widen.Wait:
	case widen.Idle:
		m.wish = nil
	default:
		m.next = &d
	}
}

// wideFacts is what the agent of a host sees.
func (w *world) wideFacts(i int) widen.Facts {
	t := w.trio
	m := &t.mates[i]
	f := widen.Facts{
		Now: w.clock(i), Host: names[i], Plan: m.wide, Wish: m.wish, ControlPlanes: 2, Asks: m.asks, AskedAt: m.at, Arch: state.Known(true),
		Target: state.Known(true), Room: state.Known(true), Ships: state.Known(true), Dressed: state.Known(m.dressed),
	}
	if m.dressed {
		f.ControlPlanes = 3
	}
	w.wideKeeper(i, &f)
	w.wideHands(i, &f)
	if p := f.Plan; p != nil && (p.Stage == widen.LettingIn || p.Stage == widen.Handing || p.Stage == widen.TakingBack && p.Gone) {
		f.PeerServes, f.ThirdServes = state.Known(w.votes(i, 1-i)), state.Known(w.votes(i, third))
		f.Silent = time.Hour
	}
	if !state.Is(f.Halted, true) || state.Is(f.Kubelets, true) {
		w.wideCluster(i, &f)
	}
	w.wideBlur(&f)
	if b := w.opt.Bug; b != nil && b.wide != nil {
		b.wide(w, i, &f)
	}
	return f
}

// wideKeeper has the facts of the etcd keeper's report, or of etcd itself while kubelet runs it.
func (w *world) wideKeeper(i int, f *widen.Facts) {
	h, m := &w.hosts[i], &w.trio.mates[i]
	f.Kubelets, f.Word = state.Known(h.seat.static), state.Known(m.word)
	answers := h.running && h.frozen <= w.now && !h.hung
	switch {
	case h.seat.static:
		f.Record, f.StandIn = state.Known(h.disk.record.State), state.Known(false)
	case !h.seat.told:
		f.Word = state.Fact[state.EtcdThirdWord]{}
		return
	default:
		f.Peer, f.Record, f.StandIn = names[1-i], state.Known(h.disk.record.State), state.Known(h.standIn != 0)
		if h.seat.runs {
			f.Contact = state.Known(h.contact)
		}
		if s := h.inbox; s.Known && h.contact && s.Value.Ring == h.ring {
			f.PeerRecord = state.Known(s.Value.Record.State)
		}
		f.Behind = w.behind(i, m.word.Member)
		if p := f.Plan; p != nil && p.Stage == widen.Coming && p.Third != 0 {
			f.Behind = w.behind(i, p.Third)
		}
		if !h.running {
			f.Serves = state.Known(false)
		}
	}
	if !answers {
		return
	}
	f.Serves = state.Known(h.leaderID != 0)
	f.Voters, f.Learner = state.Known(voters(h.members)), state.Known(state.MemberID(0))
	for _, l := range h.members {
		if !l.learner {
			continue
		}
		f.Learner, f.LearnerName = state.Known(l.id), ""
		if l.named {
			f.LearnerName = w.memberName(l)
		}
	}
}

// wideHands has what only the steps need by which etcd goes to kubelet.
func (w *world) wideHands(i int, f *widen.Facts) {
	if p := f.Plan; p == nil || p.Stage != widen.Handing && p.Stage != widen.Ending && p.Stage != widen.Dressing {
		return
	}
	h, m := &w.hosts[i], &w.trio.mates[i]
	f.Podmans, f.Pod, f.Boots = state.Known(h.running && h.seat.podman), state.Known(h.seat.static || h.seat.pod), state.Known(h.seat.kubelet)
	f.Runs = state.Known(h.seat.conf || h.seat.ringBoots || h.seat.runs)
	f.Paired = state.Known(h.seat.told || h.disk.record.State != state.EtcdNone || m.word != (state.EtcdThirdWord{}))
	if h.seat.runs {
		f.Maintained = state.Known(m.cib.maintained)
		f.Halted = state.Known(m.cib.maintained && m.asked == state.EtcdStopped)
	}
}

func (w *world) wideCluster(i int, f *widen.Facts) {
	t := w.trio
	if !w.api(i) {
		return
	}
	f.Lock, f.Told, f.Work, f.Moves = state.Known(t.lock), state.Known(t.told), state.Known(""), state.Known("")
	if t.narrowLock.ID != "" {
		f.Lock, f.Told = state.Known(widen.Copy{ID: t.narrowLock.ID}), state.Known(widen.Progress{})
	}
	f.Given, f.Node = state.Known(!t.grave), state.Known(t.node)
	n := &t.machine
	f.Ready = state.Known(t.node && n.power && n.running && n.isVoter() && n.leaderID != 0)
}

// wideBlur makes facts unknown.
func (w *world) wideBlur(f *widen.Facts) {
	r := w.trio.rng
	if w.calm || r.IntN(6) != 0 {
		return
	}
	switch r.IntN(10) {
	case 0:
		f.Record, f.PeerRecord = state.Fact[state.EtcdState]{}, state.Fact[state.EtcdState]{}
	case 1:
		f.Contact, f.StandIn = state.Fact[bool]{}, state.Fact[bool]{}
	case 2:
		f.Voters, f.Learner, f.LearnerName = state.Fact[int]{}, state.Fact[state.MemberID]{}, ""
	case 3:
		f.Lock, f.Told, f.Given, f.Node, f.Ready = state.Fact[widen.Copy]{}, state.Fact[widen.Progress]{}, state.Fact[bool]{}, state.Fact[bool]{}, state.Fact[bool]{}
	case 4:
		f.Kubelets, f.Podmans = state.Fact[bool]{}, state.Fact[bool]{}
	case 5:
		f.Halted, f.Maintained = state.Fact[bool]{}, state.Fact[bool]{}
	case 6:
		f.Boots, f.Runs, f.Paired, f.Pod = state.Fact[bool]{}, state.Fact[bool]{}, state.Fact[bool]{}, state.Fact[bool]{}
	case 7:
		f.PeerServes, f.ThirdServes, f.Behind = state.Fact[bool]{}, state.Fact[bool]{}, state.Fact[uint64]{}
	case 8:
		f.Word = state.Fact[state.EtcdThirdWord]{}
	case 9:
		f.Told = state.Fact[widen.Progress]{}
	}
}

// doWide does one act. One of several parts may be cut off in between.
func (w *world) doWide(i int, d widen.Decision) {
	t := w.trio
	m := &t.mates[i]
	p := m.wide
	switch d.Act {
	case widen.WritePlan:
		m.wide = d.Plan
		w.trace(i, "writes the plan: %s", d.Plan.Stage)
		w.strikeTrio(i)
	case widen.PutWord:
		m.word = p.Word()
		w.strikeTrio(i)
	case widen.DropWord:
		m.word = state.EtcdThirdWord{}
		w.strikeTrio(i)
	case widen.AddLearner:
		if k := w.leaderOf(i); k >= 0 && len(w.at(k).members) == 2 && !w.at(k).hasLearner() {
			w.propose(k, entry{kind: addLearner, id: w.nextID, arg: third})
			w.nextID++
			w.trace(i, "the plan adds a learner")
		}
	case widen.DropLearner:
		w.dropLearner(i)
	case widen.DropVoter:
		w.dropVoter(i)
	default:
		if !w.wideInCluster(i, d.Act) {
			w.becomesThree(i, d.Act)
		}
	}
}

// leaderOf returns the place of the leader to which etcd of a host passes a request on; -1 for none, or
// while another change of the members is not committed.
func (w *world) leaderOf(i int) int {
	h := &w.hosts[i]
	if !w.hears(i, i) {
		return -1
	}
	o, _ := h.find(h.leaderID)
	if o.id == 0 || !w.hears(i, o.at) || w.at(o.at).role != leader || w.at(o.at).changing() {
		return -1
	}
	return o.at
}

func (w *world) dropLearner(i int) {
	k, p := w.leaderOf(i), w.trio.mates[i].wide
	if k < 0 {
		return
	}
	for _, l := range w.at(k).members {
		name := ""
		if l.named {
			name = w.memberName(l)
		}
		if l.learner && p.Drops(l.id, name) {
			w.propose(k, entry{kind: remove, id: l.id})
			w.trace(i, "the plan removes learner %s", l.id)
			return
		}
	}
}

// dropVoter removes the third machine's member, if the other host serves in this moment.
func (w *world) dropVoter(i int) {
	k, p := w.leaderOf(i), w.trio.mates[i].wide
	if k < 0 || !w.votes(i, 1-i) || !slices.ContainsFunc(w.at(k).members, func(m member) bool { return m.id == p.Third && !m.learner }) {
		return
	}
	w.propose(k, entry{kind: remove, id: p.Third})
	w.trace(i, "the plan removes voter %s", p.Third)
}

// wideInCluster does the acts that need the API, and reports whether the act is one of them.
func (w *world) wideInCluster(i int, act widen.Act) bool {
	t := w.trio
	p := t.mates[i].wide
	mine := t.lock.ID == p.ID
	objects := map[widen.Act]func(){ //nolint:exhaustive // the others need no API
		widen.CopyPlan: func() {
			if t.narrowLock.ID == "" && (mine || t.lock.ID == "") {
				t.lock = widen.Copy{ID: p.ID, Plan: *p}
			}
		},
		widen.DropLock: func() {
			if mine {
				t.lock, t.told = widen.Copy{}, widen.Progress{}
			}
		},
		widen.Tell: func() {
			if mine {
				t.told = w.wideFacts(i).Progress()
			}
		},
		widen.GiveName: func() { t.grave = false },
		widen.DropNew: func() {
			t.grave = true
			if !w.trioCut() {
				t.node = false
			}
		},
	}
	do := objects[act]
	if do != nil && w.api(i) {
		do()
	}
	return do != nil
}

// trioCut reports whether an act of several parts is cut off here.
func (w *world) trioCut() bool { return !w.calm && w.trio.rng.IntN(6) == 0 }

// becomesThree does the acts by which a host of two becomes one of three.
func (w *world) becomesThree(i int, act widen.Act) {
	t := w.trio
	h, m := &w.hosts[i], &t.mates[i]
	switch act { //nolint:exhaustive // the others are no acts of this place
	case widen.KubeletBoot:
		h.seat.kubelet = true
	case widen.Maintain:
		if h.seat.runs {
			w.changeCIB(i, func(c *cib) { c.maintained = true })
			w.trace(i, "Pacemaker is in maintenance")
		}
	case widen.PutPod:
		h.seat.pod = true
	case widen.StopEtcd:
		w.stopForKubelet(i)
	case widen.GivePod:
		h.seat.static, h.seat.pod = true, false
		w.trace(i, "kubelet gets etcd")
		w.strikeTrio(i)
	case widen.EndRing:
		w.endRingOfThree(i)
	case widen.EndPair:
		w.endPairOfThree(i)
	case widen.Dress:
		if i == t.carrier {
			if !w.api(i) {
				return
			}
			t.objects = 3
		}
		m.dressed = !w.trioCut()
	}
}

// endRingOfThree ends Pacemaker and Corosync of a host for good.
func (w *world) endRingOfThree(i int) {
	h, m := &w.hosts[i], &w.trio.mates[i]
	h.seat.ringBoots = false
	if w.trioCut() {
		return
	}
	h.seat.runs, h.seat.conf, h.seat.lists, m.cib = false, false, false, cib{}
	h.inert, h.contact, h.ring, h.pendingRing, h.fence = false, false, 0, 0, fence{}
	h.inbox = state.Fact[state.EtcdStatement]{}
	w.trace(i, "Corosync and Pacemaker have ended")
}

// endPairOfThree ends the etcd keeper of a host and removes its files, the record last.
func (w *world) endPairOfThree(i int) {
	h, m := &w.hosts[i], &w.trio.mates[i]
	h.seat.told, h.pending, h.verdict, h.standIn = false, nil, state.EtcdVerdict{}, 0
	if w.trioCut() {
		return
	}
	m.word, m.prepared, m.asked = state.EtcdThirdWord{}, false, state.EtcdNotAsked
	if w.trioCut() {
		return
	}
	h.disk.record = state.EtcdRecord{State: state.EtcdNone}
	w.trace(i, "its record is removed")
}

// stopForKubelet has the etcd keeper stop etcd, if the two others serve in this moment, or the peer does
// and the plan says that the third machine is gone. A leader gives its lead away before.
func (w *world) stopForKubelet(i int) {
	h, m := &w.hosts[i], &w.trio.mates[i]
	blind := w.opt.Bug != nil && w.opt.Bug.blind
	gone := m.wide.Gone
	if m.asked != state.EtcdStopped && !blind && (!w.votes(i, 1-i) || !gone && !w.votes(i, third)) {
		return
	}
	if h.running && h.role == leader {
		for _, o := range w.others(i) {
			if !o.learner && (o.at != third || !gone) {
				w.moveLeader(i, o.id)
				break
			}
		}
	}
	if w.trioCut() {
		return
	}
	m.asked = state.EtcdStopped
	w.trace(i, "the plan has the etcd keeper stop etcd")
	w.strikeTrio(i)
}

// typeWide types the command, or types it again.
func (w *world) typeWide(i int, id string) {
	w.trio.mates[i].wish = &widen.Wish{ID: id, New: replace.New{Name: placeNames[third], Address: addressOfThird}, By: "ada", NoBackup: true, At: w.clock(i)}
}
