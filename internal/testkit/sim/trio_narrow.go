package sim

import (
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Three control planes become two (docs/adr/0102): the way of trio_widen.go backwards, decided by
// decide/narrow. No agent carries it out yet; the acts are those that its exploration has.

// carryNarrow is half a turn of the agent of a host, as carryWide.
func (w *world) carryNarrow(i int) {
	t := w.trio
	h, m := &w.hosts[i], &t.mates[i]
	switch {
	case !h.power || h.hung:
		m.narrowNext = nil
		return
	case m.narrowNext != nil && !w.calm && t.rng.IntN(24) == 0:
		m.narrowNext = nil
		return
	case m.narrowNext != nil:
		d := *m.narrowNext
		m.narrowNext = nil
		w.doNarrow(i, d)
		return
	case m.narrowWish == nil && (m.narrow == nil || m.narrow.Stage.Over()) && t.narrowLock.ID == "":
		return // nobody has heard of a plan
	}
	f := w.narrowFacts(i)
	d := narrow.Decide(f)
	if b := w.opt.Bug; b != nil && b.narrowNext != nil {
		b.narrowNext(w, i, f, &d)
	}
	if d.Rule != m.narrowRule {
		w.trace(i, "plan: %s: %s (%s)", d.Rule, d.Act, d.Words)
	}
	m.narrowRule = d.Rule
	switch d.Act {
	case narrow.Wait:
	case narrow.Idle:
		m.narrowWish = nil
	default:
		m.narrowNext = &d
	}
}

// narrowFacts is what the agent of a host sees.
func (w *world) narrowFacts(i int) narrow.Facts {
	t := w.trio
	h, m := &w.hosts[i], &t.mates[i]
	two := func(mine bool, objects int) bool { return mine && (i != t.carrier || t.objects == objects) }
	f := narrow.Facts{
		Now: w.clock(i), Host: names[i], Plan: m.narrow, Wish: m.narrowWish, Peer: names[1-i], ControlPlanes: 2,
		Record: state.Known(h.disk.record.State), Word: state.Known(m.word), Asked: state.Known(m.asked == state.EtcdStarted), StandIn: state.Known(h.standIn != 0),
		PeerHere: state.Known(w.votes(i, 1-i)), ThirdHere: state.Known(w.votes(i, third)),
		Kubelets: state.Known(h.seat.static), Podmans: state.Known(h.running && h.seat.podman), Boots: state.Known(h.seat.kubelet),
		Runs:   state.Known(h.seat.conf || h.seat.ringBoots || h.seat.runs),
		Paired: state.Known(h.seat.told || m.prepared || h.disk.record.State != state.EtcdNone || m.word != (state.EtcdThirdWord{})),
		Room:   state.Known(true), Ships: state.Known(true), Target: state.Known(true), Prepared: state.Known(m.prepared), Tested: state.Known(w.bothAnswer(i)),
		Dressed: state.Known(two(!m.dressed, 2)), Plain: state.Known(two(m.dressed, 3)),
		Ring: state.Known(h.seat.runs && h.seat.ringBoots), Answers: state.Known(w.reaches(i, third) && t.machine.running),
	}
	if m.dressed {
		f.ControlPlanes = 3
	}
	if h.seat.runs {
		f.Contact, f.SetUp, f.Maintained = state.Known(h.contact), state.Known(m.cib.etcd), state.Known(m.cib.maintained)
	}
	if w.hears(i, i) {
		f.Serves, f.Voters, f.Listed, f.Learner = state.Known(h.leaderID != 0), state.Known(voters(h.members)), state.Known(false), state.Known(state.MemberID(0))
		for _, o := range h.members {
			if o.learner {
				f.Learner = state.Known(o.id)
			}
			if o.at == third {
				f.Listed = state.Known(true)
			}
		}
	} else if !h.running {
		f.Serves = state.Known(false)
	}
	w.narrowCluster(i, &f)
	w.narrowBlur(&f)
	if b := w.opt.Bug; b != nil && b.narrow != nil {
		b.narrow(w, i, &f)
	}
	return f
}

// bothAnswer reports whether the BMCs of both hosts answer a host, which has their accounts.
func (w *world) bothAnswer(i int) bool {
	m := &w.trio.mates[i]
	known := m.prepared || m.narrow == nil || m.narrow.Stage == narrow.Planned || m.narrow.Stage.Over() // the command has the accounts, too
	return known && w.hosts[0].bmc == bmcWell && w.hosts[1].bmc == bmcWell
}

func (w *world) narrowCluster(i int, f *narrow.Facts) {
	t := w.trio
	if !w.api(i) {
		return
	}
	f.Lock, f.Told, f.Work, f.Moves = state.Known(t.narrowLock), state.Known(t.narrowTold), state.Known(""), state.Known("")
	if t.lock.ID != "" {
		f.Lock, f.Told = state.Known(narrow.Copy{ID: t.lock.ID}), state.Known(narrow.Progress{})
	}
	f.Left = state.Known(f.Plan != nil && t.narrowAccounts == f.Plan.ID)
	f.Node, f.Leaves, f.Empty, f.Volumes = state.Known(t.node || !t.grave), state.Known(t.leaves), state.Known(t.emptied), state.Known[[]string](nil)
}

// narrowBlur makes facts unknown.
func (w *world) narrowBlur(f *narrow.Facts) {
	r := w.trio.rng
	if w.calm || r.IntN(6) != 0 {
		return
	}
	none := state.Fact[bool]{}
	switch r.IntN(9) {
	case 0:
		f.Record = state.Fact[state.EtcdState]{}
	case 1:
		f.Contact, f.StandIn = none, none
	case 2:
		f.Voters, f.Listed, f.Learner, f.Serves = state.Fact[int]{}, none, state.Fact[state.MemberID]{}, none
	case 3:
		f.Lock, f.Told, f.Node, f.Leaves, f.Empty, f.Left = state.Fact[narrow.Copy]{}, state.Fact[narrow.Progress]{}, none, none, none, none
	case 4:
		f.Kubelets, f.Podmans = none, none
	case 5:
		f.SetUp, f.Maintained, f.Ring = none, none, none
	case 6:
		f.Boots, f.Runs, f.Paired = none, none, none
	case 7:
		f.PeerHere, f.ThirdHere, f.Answers = none, none, none
	case 8:
		f.Word, f.Asked, f.Tested, f.Prepared = state.Fact[state.EtcdThirdWord]{}, none, none, none
	}
}

// doNarrow does one act. One of several parts may be cut off in between.
func (w *world) doNarrow(i int, d narrow.Decision) {
	m := &w.trio.mates[i]
	p := m.narrow
	switch d.Act {
	case narrow.WritePlan:
		m.narrow = d.Plan
		w.trace(i, "writes the plan: %s", d.Plan.Stage)
		w.strikeTrio(i)
	case narrow.PutWord:
		m.word = p.Word()
		w.strikeTrio(i)
	case narrow.DropWord:
		m.word = state.EtcdThirdWord{}
		w.strikeTrio(i)
	case narrow.Prepare:
		m.prepared = true
	case narrow.AskStart:
		m.asked = state.EtcdStarted
	case narrow.Leave:
		w.leaveThird(i)
	default:
		if !w.narrowInCluster(i, d.Act) {
			w.becomesTwo(i, d.Act)
		}
	}
}

// leaveThird removes the member of the host that goes.
func (w *world) leaveThird(i int) {
	k := w.leaderOf(i)
	if k < 0 {
		return
	}
	for _, o := range w.at(k).members {
		if o.id == w.trio.mates[i].narrow.Third {
			w.propose(k, entry{kind: remove, id: o.id})
			w.trace(i, "the plan removes member %s", o.id)
			w.strikeTrio(i)
			return
		}
	}
}

// narrowInCluster does the acts that need the API, and reports whether the act is one of them.
func (w *world) narrowInCluster(i int, act narrow.Act) bool {
	t := w.trio
	p := t.mates[i].narrow
	mine := t.narrowLock.ID == p.ID
	objects := map[narrow.Act]func(){ //nolint:exhaustive // the others need no API
		narrow.CopyPlan: func() {
			if t.lock.ID == "" && (mine || t.narrowLock.ID == "") {
				t.narrowLock = narrow.Copy{ID: p.ID, Plan: *p}
				if p.Stage == narrow.Preparing {
					t.narrowAccounts = p.ID
				}
			}
		},
		narrow.DropLock: func() {
			if t.narrowAccounts == p.ID {
				t.narrowAccounts = ""
			}
			if mine {
				t.narrowLock, t.narrowTold = narrow.Copy{}, narrow.Progress{}
			}
		},
		narrow.Tell: func() {
			if mine {
				t.narrowTold = w.narrowFacts(i).Progress()
			}
		},
		narrow.AskEmpty: func() { t.leaves = true },
		narrow.DropOld: func() {
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

// becomesTwo does the acts by which a host of three becomes one of two, and the way back.
func (w *world) becomesTwo(i int, act narrow.Act) {
	h := &w.hosts[i]
	switch act { //nolint:exhaustive // the others are no acts of this place
	case narrow.Dress, narrow.Undress:
		w.dresses(i, act == narrow.Undress)
	case narrow.EnterRing:
		h.seat.told, h.seat.conf = true, true
		if w.trioCut() {
			return
		}
		h.seat.ringBoots = true
		if w.trioCut() || h.seat.runs {
			return
		}
		h.seat.lists = true
		h.seat.startRing()
		h.inert, h.joined, h.met, h.heard = true, 0, 0, ""
		w.trace(i, "Corosync, Pacemaker and the etcd keeper begin")
		w.strikeTrio(i)
	case narrow.SetUp:
		if h.seat.runs && h.contact {
			w.changeCIB(i, func(c *cib) { c.etcd, c.maintained = true, true })
			w.trace(i, "Pacemaker has its configuration, in maintenance")
		}
	case narrow.Maintain:
		if h.seat.runs {
			w.changeCIB(i, func(c *cib) { c.maintained = true })
			w.trace(i, "Pacemaker is in maintenance again")
		}
	case narrow.TakeEtcd:
		w.takesEtcd(i)
	case narrow.Manage:
		if h.seat.runs {
			w.changeCIB(i, func(c *cib) { c.maintained = false })
			w.trace(i, "Pacemaker's maintenance ends")
			w.strikeTrio(i)
		}
	case narrow.Order:
		h.seat.kubelet = false
	case narrow.EndRing:
		w.endRingOfThree(i)
	case narrow.EndPair:
		w.endPairOfThree(i)
	}
}

// dresses gives a host, and from the carrier the cluster, the files and objects of two, or of three.
func (w *world) dresses(i int, three bool) {
	t := w.trio
	if i == t.carrier {
		if !w.api(i) {
			return
		}
		t.objects = 2
		if three {
			t.objects = 3
		}
	}
	if !w.trioCut() {
		t.mates[i].dressed = three
	}
}

// takesEtcd takes kubelet's file of etcd out of its folder: kubelet ends etcd, and the etcd keeper
// starts it.
func (w *world) takesEtcd(i int) {
	o := &w.hosts[1-i]
	gone := w.trio.mates[i].narrow.Accepts.Gone
	if !gone && o.power && !o.seat.static && !o.running && w.trio.mates[1-i].cib.maintained && o.disk.copy == state.CopyWhole {
		w.fail("I10", "both hosts have no etcd at once, by the plan")
	}
	w.hosts[i].seat.static = false
	w.trace(i, "the etcd keeper gets etcd")
	w.strikeTrio(i)
}

func (w *world) typeNarrow(i int, id string) {
	m := &w.trio.mates[i]
	m.narrowWish = &narrow.Wish{ID: id, Old: replace.Old{Name: placeNames[third], Address: addressOfThird}, By: "ada", Accepts: narrow.Accepts{NoBackup: true}, At: w.clock(i)}
	for _, o := range w.committedMembers() {
		if o.at == third {
			m.narrowWish.Third = o.id
		}
	}
}

// pursueNarrow types the command again until its plan is over.
func (w *world) pursueNarrow() {
	t := w.trio
	m := &t.mates[t.carrier]
	p := m.narrow
	mine := p != nil && p.ID == t.planID()
	switch {
	case t.burnt[t.carrier]: // the other host takes the plan back, or goes on
		o := t.mates[1-t.carrier].narrow
		t.busy = t.narrowLock.ID != "" || o != nil && !o.Stage.Over()
	case !w.hosts[t.carrier].power:
	case mine && p.Stage.Over() && t.narrowLock.ID == "":
		w.trace(-1, "---- the plan is over: %s %s", p.Stage, p.Ended)
		t.busy, t.since, m.narrowWish = false, w.now, nil
		if p.Stage == narrow.Whole {
			t.away = true
			w.powerOff(third)
		}
	case mine && !p.Stage.Over():
		w.helpNarrow(p)
	case mine:
	case w.calm: // it had not begun
		t.busy, m.narrowWish, m.narrowNext = false, nil, nil
	case m.narrowWish == nil || w.clock(t.carrier).Sub(m.narrowWish.At).Abs() > wishLife:
		w.typeNarrow(t.carrier, t.planID())
	}
}

// helpNarrow plays what a person does meanwhile: takes the plan back, says that the host that goes is
// gone, or switches it off as the plan asks.
func (w *world) helpNarrow(p *narrow.Plan) {
	t := w.trio
	m := &t.mates[t.carrier]
	wishes := m.narrowWish != nil && (m.narrowWish.Abort || m.narrowWish.Accepts.Gone)
	switch {
	case m.narrowRule == "forget.quiet" && !t.away:
		w.trace(third, "a person switches it off, as the plan asks")
		t.away = true
		w.powerOff(third)
	case wishes:
	case t.burnt[third] && !p.Accepts.Gone && p.Stage.After(narrow.Dressing):
		w.trace(t.carrier, "---- the person says that the host that goes is gone")
		m.narrowWish = &narrow.Wish{ID: p.ID, Accepts: narrow.Accepts{NoBackup: true, Gone: true}, At: w.clock(t.carrier)}
	case narrow.TakingBack.After(p.Stage) && t.retake && !w.calm && t.rng.IntN(60) == 0:
		w.trace(t.carrier, "---- the person takes the plan back")
		m.narrowWish = &narrow.Wish{ID: p.ID, Abort: true, At: w.clock(t.carrier)}
	}
}
