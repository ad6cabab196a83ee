package sim

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// siteStep plays, beside each step of the hosts, what belongs to a change of the site.
func (w *world) siteStep() {
	s := w.site
	switch n := s.rng.IntN(20); {
	case n < 5:
		w.planner()
	case n < 7:
		w.kubelets(s.stay)
	case n < 9:
		w.newcomer()
	case n < 10:
		w.operator()
	case n < 11:
		w.oldMachine()
	}
}

// operator plays the person who changes the site.
func (w *world) operator() {
	s := w.site
	switch {
	case s.busy:
		w.pursue()
	case len(s.script) == 0 || !w.settled():
		s.since = w.now
	case w.now-s.since > 5*time.Second:
		w.begin(s.script[0])
		s.script = s.script[1:]
	}
}

// settled reports whether the site is whole: two voters, or a lone host that serves.
func (w *world) settled() bool {
	if w.site.planes == 2 {
		return w.goal()
	}
	return w.serves()
}

// begin begins a change of the site. The host that goes is switched off, or is lost.
func (w *world) begin(o order) {
	s := w.site
	s.doing, s.busy, s.pending, s.rule = o, true, nil, ""
	s.held, s.entered, s.verified, s.account = false, false, false, false
	s.asks, s.askedAt = replace.Newcomer{}, time.Time{}
	s.comes, s.earlier, s.otherName = o != shrinks && s.rng.IntN(8) != 0, s.rng.IntN(3) == 0, o == replaces && s.rng.IntN(4) == 0
	if o == grows {
		w.trace(-1, "---- the site grows")
		s.planes = 2
		w.clear()
		return
	}
	s.shelf, s.clash = nil, false // of an earlier change nothing is left but the cluster's objects
	s.stay = s.rng.IntN(2)
	s.old = w.hosts[s.going()].machine
	s.node, s.nodeName, s.pods = s.old, w.hosts[s.going()].seat.name, true
	s.leftover = s.otherName || o == shrinks
	for i := range w.hosts {
		w.hosts[i].seat.plan = nil
	}
	s.life = []life{shelved, burnt, burntBMC}[s.rng.IntN(3)]
	why := "gets another machine"
	if o == shrinks {
		why = "shrinks"
	}
	w.trace(s.going(), "---- is to go for good (%d; the site %s)", s.life, why)
	w.powerOff(s.going())
}

// clear puts the machine that went, if it is still in its place, onto the shelf.
func (w *world) clear() {
	s := w.site
	i := s.going()
	if w.hosts[i].machine != nobody {
		old := w.hosts[i]
		s.shelf, s.shelfOff = &old, s.life == burnt || s.life == burntBMC
	}
	w.hosts[i] = host{machine: nobody}
	s.life = missing
}

// pursue types the command of the change again until it is done.
func (w *world) pursue() {
	s := w.site
	h := &w.hosts[s.stay]
	p := h.seat.plan
	mine := p != nil && s.keys[p.ID] != 0 && p.Grows == (s.doing == grows) && p.Shrinks == (s.doing == shrinks)
	switch {
	case !h.power:
	case mine && p.Stage == replace.Whole && s.lock == "":
		w.trace(-1, "---- the change of the site is done: %s", p.Work())
		s.busy, s.since, h.seat.wish = false, w.now, nil
		if s.doing != shrinks {
			s.old = nobody
			if s.shelf != nil {
				s.old = s.shelf.machine
			}
		}
	case mine && !p.Stage.Over():
		w.helpPlan(h, p)
	case w.calm && s.doing != grows && s.life == shelved:
		w.trace(s.going(), "---- the change is given up, and the host is switched on again")
		s.life, s.busy, h.seat.wish, s.pending = stands, false, nil, nil
	case s.doing != grows && w.hosts[s.going()].power && s.life == shelved:
		w.trace(s.going(), "a person switches it off again")
		w.powerOff(s.going())
	case h.seat.wish == nil || h.seat.wish.Abort || w.clock(s.stay).Sub(h.seat.wish.At).Abs() > wishLife || w.calm && s.rng.IntN(8) == 0 ||
		p != nil && h.seat.wish.ID == p.ID || w.mute() && h.seat.wish.Accepts.Gone == "":
		w.wish(h, fmt.Sprintf("p%d", len(s.keys)+1))
	}
}

// wishLife is how long a wish may wait for its gates.
const wishLife = 15 * time.Minute

// mute reports whether only a person can say that the host that goes is off, and may say so.
func (w *world) mute() bool {
	s := w.site
	h := &w.hosts[s.stay]
	return s.doing != grows && !w.powerOfPeer(s.stay).Known && !w.hosts[s.going()].power && h.seat.device == s.old
}

// wish types the command.
func (w *world) wish(h *host, id string) {
	s := w.site
	wish := &replace.Wish{ID: id, Grows: s.doing == grows, Shrinks: s.doing == shrinks, By: "ada", At: w.clock(s.stay)}
	wish.Accepts = replace.Accepts{NoBackup: true}
	going := &w.hosts[s.going()]
	if s.doing != grows {
		wish.Old = going.seat.name
		if s.life == stands || going.machine != s.old { // the newcomer has the place
			wish.Old = h.seat.listed
		}
	}
	if s.doing != shrinks {
		wish.New = replace.New{Name: names[s.going()], BMC: "https://bmc"}
		if s.otherName {
			wish.New.Name = "gamma"
		}
		if s.doing == grows {
			wish.New.Address = addressOf
		}
	}
	if w.mute() {
		wish.Accepts.Gone = machineOf(s.old).Serial
	}
	h.seat.wish = wish
}

// helpPlan plays what a person does while a plan is under way: to take it back, or to say that
// the old machine is off because its BMC is silent.
func (w *world) helpPlan(h *host, p *replace.Plan) {
	s := w.site
	switch {
	case p.Stage == replace.Planned && !w.calm && s.rng.IntN(60) == 0:
		h.seat.wish = &replace.Wish{ID: p.ID, Grows: p.Grows, Shrinks: p.Shrinks, Abort: true, At: w.clock(s.stay)}
	case p.Stage != replace.Joining && p.Accepts.Gone == "" && w.mute():
		wish := replace.Wish{ID: p.ID, Grows: p.Grows, Shrinks: p.Shrinks, Old: p.Old.Name, New: p.New, By: p.By, Accepts: p.Accepts, At: w.clock(s.stay)}
		wish.Accepts.Gone = machineOf(s.old).Serial
		h.seat.wish = &wish
	}
}

// newcomer plays the new machine: it is brought, installed, asks to enter, and enters.
func (w *world) newcomer() {
	s := w.site
	stay, n := &w.hosts[s.stay], &w.hosts[s.going()]
	p := stay.seat.plan
	switch {
	case !s.busy || s.doing == shrinks || p == nil || p.Stage.Over():
	case s.life != stands || n.machine == s.old:
		if s.comes && w.mayBring(stay, p) {
			w.bring()
		}
	case s.entered:
		w.complete(stay, n)
	case !s.comes: // it went away for good
	case !w.calm && n.power && (s.rng.IntN(200) == 0 || !stay.seat.retired.Known && !stay.seat.lists && s.rng.IntN(6) == 0):
		w.trace(s.going(), "FAULT the new machine goes away for good")
		w.powerOff(s.going())
		s.comes, s.held = false, true
	case s.held:
		s.held = s.rule == "retired.early"
	case n.power && s.rule == "retired.early":
		w.trace(s.going(), "a person switches the new machine off, as the plan asks")
		w.powerOff(s.going())
		s.held = true
	case !n.power || !stay.power || !w.linked() || s.clash:
	case w.mayEnter(stay, n, p):
		w.enter(stay, n)
	default:
		s.asks, s.askedAt = replace.Newcomer{Machine: machineOf(n.machine), Address: addressOf}, w.clock(s.stay)
		if s.otherName {
			s.asks.Address = otherOne
		}
	}
}

// mayBring reports whether somebody brings the new machine now: when the plan waits for it, or as
// soon as the old one can do nothing to it.
func (w *world) mayBring(stay *host, p *replace.Plan) bool {
	s := w.site
	switch {
	case stay.contact:
		return false
	case s.rule == "newcomer.install":
		return true
	}
	return s.earlier && (p.Grows && p.Stage != replace.Planned || p.Reloaded)
}

func (w *world) bring() {
	s := w.site
	i := s.going()
	w.clear()
	w.hosts[i] = host{machine: s.machines, seat: seat{name: w.hosts[s.stay].seat.plan.New.Name, device: nobody}}
	w.hosts[i].disk = disk{record: state.EtcdRecord{State: state.EtcdNone}, copy: state.CopyNone}
	s.machines++
	s.life = stands
	w.fences = 0
	w.trace(i, "---- machine %d is there, with an empty disk", w.hosts[i].machine)
	w.powerOn(i)
}

// mayEnter is the answer of the door.
func (w *world) mayEnter(stay, n *host, p *replace.Plan) bool {
	return p.Stage == replace.Joining && stay.seat.lists && p.Newcomer.Machine == machineOf(n.machine) && w.site.asks.Machine == machineOf(n.machine)
}

// enter gives the newcomer Corosync's key and list. Corosync waits for the other host.
func (w *world) enter(stay, n *host) {
	s := w.site
	own := seat{
		name: n.seat.name, peer: stay.seat.name, listed: stay.seat.name, key: stay.seat.key, lists: true, conf: true, ringBoots: true, cib: true, etcd: true, told: true,
		manifest: true, fences: true, device: nobody,
	}
	n.seat = own
	n.seat.startRing()
	n.inert, n.joined, n.met = true, 0, 0
	s.entered = true
	w.trace(s.going(), "enters Corosync's cluster")
}

// complete plays kubelet and the Jobs: the Node, the account of the other one's BMC, and the
// tests of both devices.
func (w *world) complete(stay, n *host) {
	s := w.site
	if !stay.contact || !n.contact || !w.serves() {
		return
	}
	s.node, s.nodeName, s.pods = n.machine, n.seat.name, true
	n.seat.device = stay.machine
	s.verified = stay.disk.record.State == state.EtcdPair && stay.seat.device == n.machine
}

// oldMachine plays the machine that was taken out: somebody switches it on, its etcd keeper runs,
// and its agent asks whether it still has a place.
func (w *world) oldMachine() {
	s := w.site
	i := s.going()
	rare := !w.calm && s.wakes > 0 && s.rng.IntN(30) == 0
	switch {
	case s.shelf != nil && !s.shelf.power:
		s.clash = false
		if rare && !s.shelfOff {
			s.wakes--
			w.fences = 0
			w.onShelf(func(i int) { w.powerOn(i) })
			w.trace(-1, "FAULT the old machine %d is switched on again", s.shelf.machine)
		}
	case s.shelf != nil:
		w.onShelf(func(i int) { w.agent(i); w.fenceStep(i) })
		s.clash = s.rng.IntN(2) == 0 && s.shelf.seat.name == w.hosts[i].seat.name
		if w.ousted(s.shelf) {
			w.trace(-1, "the old machine %d switches itself off", s.shelf.machine)
			w.onShelf(func(i int) { w.powerOff(i) })
			s.shelfOff, s.clash = true, false
		}
	case w.hosts[i].machine != s.old || s.life != shelved:
	case !w.hosts[i].power && rare:
		s.wakes--
		w.fences = 0
		w.powerOn(i)
		if s.rng.IntN(3) == 0 {
			w.hosts[i].bmc = bmcMute
		}
		w.trace(i, "FAULT the host that goes is switched on again (BMC %d)", w.hosts[i].bmc)
	case w.hosts[i].power && w.ousted(&w.hosts[i]):
		w.trace(i, "the host that went switches itself off")
		w.powerOff(i)
		s.life = burnt
	}
}

// ousted reports whether two looks in a row said that another machine has this one's place.
func (w *world) ousted(h *host) bool {
	if w.opt.Bug != nil && w.opt.Bug.stays || replace.Ousted(w.self(h)) == "" {
		h.seat.outs = 0
		return false
	}
	h.seat.outs++
	return h.seat.outs > 1
}
