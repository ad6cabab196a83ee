package sim

import (
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// planner is half a turn of the agent that carries the plan out: it looks and decides, or it
// does one act. It may be killed in between, and its host may lose power.
func (w *world) planner() {
	s := w.site
	h := &w.hosts[s.stay]
	switch {
	case !h.power || h.hung:
		s.pending = nil
		return
	case s.pending != nil && !w.calm && s.rng.IntN(24) == 0:
		s.pending = nil
		return
	case s.pending != nil:
		d := *s.pending
		s.pending = nil
		w.do(h, d)
		return
	case h.seat.wish == nil && (h.seat.plan == nil || h.seat.plan.Stage.Over() && s.lock == ""):
		return
	}
	f := w.planFacts()
	d := replace.Decide(f)
	if b := w.opt.Bug; b != nil && b.decision != nil {
		b.decision(w, f, &d)
	}
	if d.Rule != s.rule {
		w.trace(s.stay, "plan: %s: %s (%s)", d.Rule, d.Act, d.Words)
	}
	s.rule = d.Rule
	w.checkDecision(d)
	switch d.Act {
	case replace.Wait:
	case replace.Idle:
		h.seat.wish = nil
	default:
		s.pending = &d
	}
}

func (s *site) keyOf(p *replace.Plan) int { return s.keys[p.ID] }

// cutOff reports whether an act of several parts is cut off here.
func (w *world) cutOff() bool { return !w.calm && w.site.rng.IntN(6) == 0 }

// do does one act. Those that take something of the old host out look again before.
func (w *world) do(h *host, d replace.Decision) {
	s := w.site
	p := h.seat.plan
	switch d.Act { //nolint:exhaustive // the others are below
	case replace.WritePlan:
		w.writePlan(h, d.Plan)
		return
	case replace.ChangeKey, replace.LeaveRing, replace.Forget, replace.DropPods, replace.DropNode:
		if !replace.Gone(w.planFacts()) {
			return
		}
	}
	if w.inCluster(p, d.Act) {
		return
	}
	switch d.Act {
	case replace.SwitchOff:
		w.switchOff(h)
	case replace.ChangeKey:
		w.changeKey(h, p)
	case replace.LeaveRing:
		h.seat.lists = false
		w.ringOfOne(h)
	case replace.Forget:
		h.seat.cib = h.seat.cib && !h.seat.runs
	case replace.Retire:
		word := state.EtcdRetired{Peer: p.Old.Name, Plan: p.ID, At: w.clock(s.stay)}
		if h.seat.told {
			word.Peer = h.seat.peer
		}
		if p.Grows {
			word.Peer, word.Never = p.New.Name, true
		}
		h.seat.retired = state.Known(word)
	case replace.DropRetire:
		h.seat.retired = state.Fact[state.EtcdRetired]{}
		w.strike(s.stay)
	case replace.DropMember:
		w.dropMember(h)
	case replace.DropDevice:
		h.seat.dropped = p.ID
	case replace.SetFencing:
		h.seat.fences, h.seat.peer = true, p.New.Name
	case replace.JoinRing:
		h.seat.lists, h.seat.cib, h.seat.listed = true, true, p.New.Name
		inside := *p
		inside.Entered = true
		h.seat.plan = &inside
	default:
		w.becomes(h, p, d)
	}
}

func (w *world) writePlan(h *host, p *replace.Plan) {
	s := w.site
	h.seat.plan = p
	w.trace(s.stay, "writes the plan: %s", p.Stage)
	if _, known := s.keys[p.ID]; !known {
		s.keys[p.ID] = len(s.keys) + 2
	}
	w.strike(s.stay)
}

// inCluster does the acts that need the API, and reports whether the act is one of them.
func (w *world) inCluster(p *replace.Plan, act replace.Act) bool {
	s := w.site
	objects := map[replace.Act]func(){ //nolint:exhaustive // the others need no API
		replace.CopyPlan: func() {
			if s.lock == "" {
				s.lock = p.ID
			}
		},
		replace.DropLock:   func() { s.lock = "" },
		replace.PutToken:   func() { s.token = p.ID },
		replace.ChangeJoin: func() { s.join = p.ID },
		replace.PutGrave: func() {
			s.graves[p.Old.Name] = retired.Host{
				Name: p.Old.Name, UID: p.Old.UID, System: p.Old.Machine.UUID, Machine: nodeUID(s.old), ControlPlane: true, When: p.Begun, By: p.By,
			}
		},
		replace.GiveName: func() {
			grave := s.graves[p.New.Name]
			grave.Again = w.clock(s.stay)
			s.graves[p.New.Name] = grave
		},
		replace.DropPods:   func() { s.pods = s.node != nobody },
		replace.DropNode:   func() { s.node = nobody },
		replace.DropSecret: func() { s.leftover = false },
		replace.Dress:      func() { s.planes = 1 },
		replace.PutDevice:  func() { w.putDevice() },
		replace.NameSite:   func() { w.hosts[s.stay].seat.site = p.New.Name },
	}
	do := objects[act]
	if do != nil && w.serves() {
		do()
	}
	return do != nil
}

// putDevice tests the device of the machine that asks, and writes it here, then into the cluster.
func (w *world) putDevice() {
	s := w.site
	for i := range w.hosts {
		if machineOf(w.hosts[i].machine) == s.asks.Machine {
			w.hosts[s.stay].seat.device = w.hosts[i].machine
		}
	}
	s.account = s.account || !w.cutOff()
}

// switchOff switches off the machine that the device here is of.
func (w *world) switchOff(h *host) {
	s := w.site
	p := &w.hosts[s.going()]
	switch {
	case s.shelf != nil && s.shelf.machine == h.seat.device:
		w.strikeShelf()
	case p.machine != h.seat.device || !p.power || p.bmc == bmcMute || p.bmc == bmcNothing:
	default:
		w.trace(s.stay, "the plan switches the old host off")
		w.powerOff(s.going())
		s.life = max(s.life, shelved)
	}
}

// changeKey writes Corosync's key, has Corosync load it, and writes the plan.
func (w *world) changeKey(h *host, p *replace.Plan) {
	h.seat.key = w.site.keyOf(p)
	w.trace(w.site.stay, "Corosync's key file is new")
	if w.cutOff() || !h.seat.runs {
		return
	}
	h.seat.keyRan = h.seat.key
	if w.cutOff() {
		return
	}
	done := *p
	done.Reloaded = true
	h.seat.plan = &done
	w.trace(w.site.stay, "Corosync has loaded its new key")
}

// ringOfOne is the membership of a host that is alone in Corosync's list: it has a quorum.
func (w *world) ringOfOne(h *host) {
	if !h.seat.runs {
		return
	}
	w.rings++
	h.ring, h.contact, h.pendingRing, h.inert, h.fence = w.rings, false, 0, false, fence{}
	h.inbox = state.Fact[state.EtcdStatement]{}
}

func (w *world) dropMember(h *host) {
	if !h.running || h.role != leader || h.changing() || voters(h.members) != 1 {
		return
	}
	for _, m := range h.members {
		if m.learner {
			w.propose(w.site.stay, entry{kind: remove, id: m.id})
			w.trace(w.site.stay, "the plan removes learner %s", m.id)
			return
		}
	}
}

// becomes does the acts by which a lone host becomes one of two, and the way back.
func (w *world) becomes(h *host, p *replace.Plan, d replace.Decision) {
	seat := &h.seat
	switch d.Act { //nolint:exhaustive // the others are no acts of this place
	case replace.PutManifest:
		seat.manifest = true
	case replace.FirstRing:
		w.firstRing(h, p)
	case replace.SetAlone:
		if seat.runs {
			seat.etcd, seat.told, seat.peer = true, true, p.New.Name
		}
	case replace.TakeEtcd:
		seat.static = false // kubelet ends it
	case replace.Finish:
		seat.kubelet = false
		if !w.cutOff() {
			w.writePlan(h, d.Plan)
		}
	case replace.PutPod:
		seat.pod = true
	case replace.KubeletBoot:
		seat.kubelet = true
	case replace.StopEtcd:
		if seat.runs {
			seat.halted, seat.halts = true, true
			h.leaving, h.leavingAt = true, w.now
		}
	case replace.GivePod:
		seat.static, seat.pod = true, false
	case replace.EndRing:
		w.endRing(h)
	case replace.EndPair:
		w.endPair(h)
	case replace.DropAbort:
		seat.wish = nil
	}
}

func (w *world) firstRing(h *host, p *replace.Plan) {
	seat := &h.seat
	seat.key, seat.conf, seat.lists, seat.cib, seat.device = w.site.keyOf(p), true, false, false, nobody
	if w.cutOff() {
		return
	}
	seat.ringBoots = true
	if w.cutOff() || seat.runs {
		return
	}
	seat.startRing()
	h.joined, h.met = 0, 0
	w.ringOfOne(h)
}

// endRing has Pacemaker and Corosync not start at boot any more, then ends them.
func (w *world) endRing(h *host) {
	seat := &h.seat
	seat.ringBoots = false
	if w.cutOff() {
		return
	}
	seat.runs, seat.keyRan, seat.halts, h.leaving = false, 0, false, false
	seat.conf, seat.lists, seat.cib, seat.etcd, seat.halted = false, false, false, false, false
	h.inert, h.contact, h.ring, h.pending = false, false, 0, nil
}

// endPair ends the etcd keeper and removes its files, the record last.
func (w *world) endPair(h *host) {
	h.seat.told, h.seat.manifest, h.seat.device, h.seat.fences, h.pending = false, false, nobody, false, nil
	h.verdict = state.EtcdVerdict{}
	if w.cutOff() {
		return
	}
	h.seat.retired = state.Fact[state.EtcdRetired]{}
	if w.cutOff() {
		return
	}
	h.disk.record = state.EtcdRecord{State: state.EtcdNone}
	w.trace(w.site.stay, "its record is removed")
}

// kubelets plays kubelet of a host whose etcd it runs: it starts etcd, and ends it when its file
// is gone.
func (w *world) kubelets(i int) {
	h := &w.hosts[i]
	h.seat.kubeletUp = h.power && (h.seat.kubeletUp || h.seat.kubelet || h.asked())
	switch {
	case !h.power || h.hung:
	case h.seat.static && h.seat.kubeletUp && !h.running:
		w.start(i)
		h.seat.podman = false
	case !h.seat.static && h.running && !h.seat.podman:
		if w.site.rng.IntN(2) == 0 {
			w.stop(i)
			return
		}
		w.crash(i) // it waits for clients, and is killed
	}
}
