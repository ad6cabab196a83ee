package sim

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// planFacts is what the agent of the host that stays can see. Backups, volumes, free space, Pacemaker's
// maintenance and other work on hosts are always as a plan wants them.
func (w *world) planFacts() replace.Facts {
	s := w.site
	h := &w.hosts[s.stay]
	f := replace.Facts{
		Now: w.clock(s.stay), Host: h.seat.name, Plan: h.seat.plan, Wish: h.seat.wish, ControlPlanes: s.planes,
		Refused: state.Known(true), Room: state.Known(true), Ships: state.Known(true), Target: state.Known(true), Arch: state.Known(true), Maintained: state.Known(false),
	}
	w.keeperFacts(h, &f)
	w.newcomerFacts(&f)
	w.diskFacts(h, &f)
	if h.seat.plan == nil || h.seat.plan.Stage != replace.Narrowing {
		w.clusterFacts(&f)
	}
	w.oldFacts(h, &f)
	w.blurFacts(&f)
	if b := w.opt.Bug; b != nil && b.facts != nil {
		b.facts(&f)
	}
	return f
}

func (w *world) keeperFacts(h *host, f *replace.Facts) {
	reports := h.seat.told && (!h.seat.static || h.seat.plan == nil || h.seat.plan.Stage != replace.Narrowing)
	answers := h.running && h.frozen <= w.now && !h.hung
	if reports {
		f.Peer, f.Record = h.seat.peer, state.Known(h.disk.record.State)
		f.Asked, f.StandIn = state.Known(h.asked()), state.Known(h.standIn != 0)
		if h.seat.runs {
			f.Contact = state.Known(h.contact)
		}
		if h.running || !h.seat.static {
			f.Serves = state.Known(answers && h.leaderID != 0)
		}
	} else if h.seat.static {
		f.Record, f.Asked, f.StandIn = state.Known(h.disk.record.State), state.Known(false), state.Known(false)
		if answers {
			f.Serves = state.Known(h.leaderID != 0)
		}
	}
	if !answers || !reports && !h.seat.static {
		return
	}
	voters, learner := voters(h.members), state.MemberID(0)
	for _, m := range h.members {
		if m.learner {
			learner = m.id
		}
	}
	f.Voters, f.Learner = state.Known(voters), state.Known(learner)
}

func machineOf(n int) state.Machine {
	return state.Machine{UUID: fmt.Sprintf("machine-%d", n), Serial: fmt.Sprintf("serial-%d", n)}
}

// addressOf is the address of the place that changes. A newcomer of another name has another one.
const (
	addressOf = "192.0.2.2"
	otherOne  = "192.0.2.3"
)

func (w *world) newcomerFacts(f *replace.Facts) {
	s := w.site
	f.Asks, f.AskedAt = s.asks, s.askedAt
	p := &w.hosts[s.going()]
	if s.life != stands || p.machine == s.old || p.bmc != bmcMute {
		f.Reached, f.Ours = state.Known(true), state.Known(false)
		f.Matches = state.Fact[bool]{Known: s.asks != (replace.Newcomer{}), Value: s.asks.Machine == machineOf(p.machine)}
	}
}

func (w *world) diskFacts(h *host, f *replace.Facts) {
	seat := &h.seat
	f.Taken = state.Known("") // no other host has the new name
	f.Ring = state.Known(seat.named(seat.conf, seat.lists))
	if seat.runs {
		f.Known = state.Known(seat.named(true, seat.cib))
		f.Halted = state.Known(seat.halted)
	}
	if seat.plan == nil {
		f.Kubelets, f.Retirement = state.Known(seat.static), state.Known(seat.retired.Known)
		return
	}
	f.Key = state.Known(seat.key == w.site.keyOf(seat.plan))
	f.Retirement, f.Manifest = state.Known(seat.retired.Known), state.Known(seat.manifest)
	f.Device = state.Known(w.site.asks != (replace.Newcomer{}) && machineOf(seat.device) == w.site.asks.Machine)
	f.Kubelets, f.Podmans = state.Known(seat.static), state.Known(h.running && seat.podman)
	f.Pod, f.Boots = state.Known(seat.static || seat.pod), state.Known(seat.kubelet)
	f.Runs = state.Known(seat.conf || seat.ringBoots || seat.runs)
	f.Paired = state.Known(seat.told || seat.retired.Known || h.disk.record.State != state.EtcdNone)
	f.Verified = state.Known(w.site.verified)
	other := seat.plan.New.Name != seat.plan.Old.Name
	f.Named = state.Known(seat.site == seat.plan.New.Name || seat.site == "" && !other)
	f.OldDevice = state.Known(other && !seat.plan.Grows && seat.dropped != seat.plan.ID)
	f.Misnamed = seat.retired.Known && seat.told && seat.retired.Value.Peer != seat.peer
	switch {
	case !seat.runs:
	case seat.plan.Grows && seat.plan.Stage != replace.Joining:
		f.Fences = state.Known(seat.etcd)
	default:
		f.Fences = state.Known(seat.fences && seat.peer == seat.plan.New.Name)
	}
}

// named returns the names in a list of this host's and of its peer.
func (s *seat) named(own, peer bool) (out []string) {
	if own {
		out = append(out, s.name)
	}
	if peer {
		out = append(out, s.listed)
	}
	return out
}

// oldFacts looks at the host that goes. Once the device is the newcomer's it looks at nothing.
func (w *world) oldFacts(h *host, f *replace.Facts) {
	s := w.site
	p := h.seat.plan
	switch {
	case p != nil && !p.Stage.Over() && (p.Grows || p.Stage == replace.Joining || p.Stage == replace.Narrowing || state.Is(f.Device, true) && p.Displaces(f.Asks.Machine)):
		return
	case (p == nil || p.Stage.Over()) && (h.seat.wish == nil || h.seat.wish.Grows):
		return
	}
	f.OldMachine, f.OldAddress = machineOf(s.old), addressOf
	f.Answers = state.Known(w.linked() && w.answersAtOld())
	f.Power, f.PowerAt = w.powerOfMachine(h.seat.device), f.Now
	f.Silent = !f.Power.Known
	if w.serves() {
		f.Alive = state.Known(false)
	}
}

// answersAtOld reports whether something answers at the address of the host that goes: it does
// itself, or the newcomer does, which has the same address unless it has another name.
func (w *world) answersAtOld() bool {
	s := w.site
	p := &w.hosts[s.going()]
	return p.power && (p.machine == s.old || !s.otherName) || s.shelf != nil && s.shelf.machine == s.old && s.shelf.power
}

func (w *world) clusterFacts(f *replace.Facts) {
	s := w.site
	if !w.serves() {
		return
	}
	f.Lock, f.Work, f.Moves, f.Volumes = state.Known(s.lock), state.Known(""), state.Known(""), state.Known[[]string](nil)
	f.Upgrade = state.Known(hold.Lost{})
	pods := 0
	if s.pods {
		pods = 3
	}
	f.Pods = state.Known(pods)
	f.OldNode = state.Known(replace.Node{There: s.node != nobody, UID: nodeUID(s.node)})
	p := f.Plan
	if p == nil {
		return
	}
	f.Token, f.JoinKey, f.Account = state.Known(s.token == p.ID), state.Known(s.join == p.ID), state.Known(s.account)
	f.Leftover = state.Known(s.leftover)
	grave, there := s.graves[p.Old.Name]
	f.Tombstone, f.Given = state.Known(there && grave.UID == p.Old.UID), state.Known(there && !grave.Open())
	if p.Grows {
		grave, there := s.graves[p.New.Name]
		f.Given = state.Known(!there || !grave.Open())
	}
}

func nodeUID(machine int) string {
	if machine == nobody {
		return ""
	}
	return fmt.Sprintf("node-%d", machine)
}

// serves reports whether the API answers the host that stays.
func (w *world) serves() bool {
	for i := range w.hosts {
		h := &w.hosts[i]
		quorum := voters(h.members) == 1 || h.standIn != 0 || w.now-h.lastHeard < electionTimeout
		if h.power && h.running && h.role == leader && h.frozen <= w.now && !h.hung && quorum && (i == w.site.stay || w.linked()) {
			return true
		}
	}
	return false
}

// blurFacts makes facts unknown.
func (w *world) blurFacts(f *replace.Facts) {
	r := w.site.rng
	if w.calm || r.IntN(6) != 0 {
		return
	}
	switch r.IntN(12) {
	case 0:
		f.Contact.Known = false
	case 1:
		f.Record.Known = false
	case 2:
		f.Power, f.Silent = state.Fact[string]{}, false
	case 3:
		f.Ring = state.Fact[[]string]{}
	case 4:
		f.Known = state.Fact[[]string]{}
	case 5:
		f.Retirement = state.Fact[bool]{}
	case 6:
		f.Voters, f.Learner = state.Fact[int]{}, state.Fact[state.MemberID]{}
	case 7:
		f.Key = state.Fact[bool]{}
	case 8:
		f.Lock, f.OldNode, f.Pods = state.Fact[string]{}, state.Fact[replace.Node]{}, state.Fact[int]{}
	case 9:
		f.Kubelets, f.Podmans = state.Fact[bool]{}, state.Fact[bool]{}
	case 10:
		f.Device, f.Fences = state.Fact[bool]{}, state.Fact[bool]{}
	case 11:
		f.Halted, f.Runs, f.Boots = state.Fact[bool]{}, state.Fact[bool]{}, state.Fact[bool]{}
	}
}

// self is what a machine that was taken out can learn about its place.
func (w *world) self(h *host) replace.Self {
	s := w.site
	out := replace.Self{Installed: true, MachineID: nodeUID(h.machine), Etcd: state.Known(h.running)}
	stay := &w.hosts[s.stay]
	if !stay.power || !w.linked() {
		return out
	}
	if stay.seat.plan != nil {
		out.Told = stay.seat.plan.Ousts(h.seat.name, machineOf(h.machine))
	}
	if !w.serves() {
		return out
	}
	out.Node, out.Entry = state.Known(""), state.Known[*retired.Host](nil)
	if s.node != nobody && s.nodeName == h.seat.name {
		out.Node = state.Known(nodeUID(s.node))
	}
	if grave, there := s.graves[h.seat.name]; there {
		out.Entry = state.Known(&grave)
	}
	return out
}
